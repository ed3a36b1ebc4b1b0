#!/usr/bin/env python3
"""Random expressions over dates, times and intervals, the same to `rightlink serve` and to
PostgreSQL 15, in random zones and styles: every answer and every error code must be equal.

    apt-get install postgresql-15; pip install 'psycopg[binary]'
    cargo build --release -p rightlink-cli
    bench/postgres/times.py [--statements 50000] [--seed 1] [--binary FILE] [--show 20]

Zones change their offsets in both hemispheres, by half an hour, twice a year or never again. Times
lie around changes, before Christ, at the ends of the ranges, and at leap seconds. Texts are in all
orders and styles, with names of months, zones and noon, and some are malformed.

Does not do: what depends on the time of day that it is; differences of timestamps that PostgreSQL
lets wrap around; Roman numbers with a sign beside them, which PostgreSQL ends with a zero byte.
"""

import sys

import peer
from peer import literal

ZONES = ["UTC", "Europe/Paris", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu",
         "America/Sao_Paulo", "Africa/Casablanca", "Europe/Dublin", "Asia/Tehran", "Pacific/Apia",
         "Europe/Moscow", "EST5EDT", "FOO5BAR", "<+03>-3", "Etc/GMT+5", "America/St_Johns",
         "Antarctica/Troll", "Europe/London"]
ABBREVIATIONS = ["EST", "EDT", "PST", "CET", "CEST", "MSK", "UTC", "GMT", "BST", "IST", "NZDT", "ART"]
STYLES = ["iso", "sql", "postgres", "german", "iso, dmy", "sql, dmy", "postgres, dmy", "iso, ymd",
          "sql, ymd"]
INTERVALS = ["postgres", "postgres_verbose", "sql_standard", "iso_8601"]
DAYS = ["2026-03-29", "2026-10-25", "2026-03-08", "2026-11-01", "1999-12-31", "2000-02-29",
        "2024-12-31", "1970-01-01", "1883-11-18", "1900-01-01", "0044-03-15", "0001-01-01",
        "2011-12-30", "2040-07-01", "9999-12-31", "25000-07-04", "294276-12-31", "1945-08-15"]
CLOCKS = ["00:00", "00:30:15", "01:30", "02:00", "02:30", "03:00", "12:00", "23:59:59.999999",
          "23:59:60", "24:00", "10:11:12.5", "06:07:08.000001"]
UNITS = ["microseconds", "milliseconds", "second", "minute", "hour", "day", "week", "month",
         "quarter", "year", "decade", "century", "millennium", "epoch", "dow", "isodow", "doy",
         "isoyear", "julian", "timezone", "timezone_hour", "timezone_minute", "nonsense"]
FIELDS = ["YYYY", "YYY", "YY", "Y", "Y,YYY", "IYYY", "IY", "I", "BC", "B.C.", "ad", "MM", "MONTH",
          "Month", "month", "MON", "Mon", "mon", "DD", "DDD", "D", "DAY", "Day", "dy", "ID", "IDDD",
          "WW", "W", "IW", "Q", "CC", "J", "RM", "rm", "HH", "HH12", "HH24", "MI", "SS", "SSSS",
          "MS", "US", "FF1", "FF3", "FF6", "AM", "p.m.", "TZ", "tz", "TZH", "TZM", "OF"]


class Maker(peer.Chooser):
    """Makes expressions; equal seeds make equal ones."""

    def setting(self):
        name, values = self.pick(("timezone", ZONES), ("datestyle", STYLES),
                                 ("intervalstyle", INTERVALS))
        return f"set {name} = {literal(self.random.choice(values))}"

    def day(self):
        if self.random.random() < 0.4:
            return self.random.choice(DAYS)
        year = self.pick(self.random.randint(1, 3000), self.random.randint(1900, 2050))
        return f"{year:04}-{self.random.randint(1, 12):02}-{self.random.randint(1, 28):02}"

    def clock(self):
        if self.random.random() < 0.5:
            return self.random.choice(CLOCKS)
        return f"{self.random.randint(0, 23):02}:{self.random.randint(0, 59):02}"

    def zone(self):
        return self.pick("", "", self.random.choice(ZONES), self.random.choice(ABBREVIATIONS),
                         "+05:30", "-8", "+0330", "-00:00:15", "Z")

    def moment_text(self):
        era = self.pick(*[""] * 9, " BC")
        return f"{self.day()} {self.clock()} {self.zone()}".strip() + era

    def odd_text(self):
        """A text in another order, or one that is not quite one."""
        d, m, y = (self.random.randint(1, 13), self.random.randint(1, 13),
                   self.pick(self.random.randint(0, 99), self.random.randint(1000, 2100)))
        name = self.pick("Jan", "feb", "March", "DEC", "sept", "Nonth")
        sign = self.pick("-", "/", ".", " ")
        date = self.pick(f"{d}{sign}{m}{sign}{y}", f"{y}{sign}{m}{sign}{d}",
                         f"{d}{sign}{name}{sign}{y}", f"{name} {d}, {y}", f"{y}{sign}{name}{sign}{d}",
                         f"{y:04}{m:02}{d:02}", f"J{2400000 + d * 5000}", f"{y}.{d * 25:03}",
                         f"{name} {d} {y}", "infinity", "-infinity", "epoch")
        clock = self.pick("", "", f" {self.clock()}", f" {d}:{m:02} {self.pick('AM', 'PM')}",
                          f"T{self.clock()}", f" {d:02}{m:02}{d:02}", " allballs")
        return date + clock + self.pick("", "", " " + self.zone(), " BC", " Monday", " x")

    def timestamptz(self):
        return literal(self.moment_text()) + "::timestamptz"

    def near(self):
        return literal(f"{self.random.randint(1, 9999):04}-05-06 {self.clock()}") + "::timestamptz"

    def timestamp(self):
        return literal(self.moment_text()) + "::timestamp"

    def date(self):
        return literal(self.day() + self.pick(*[""] * 9, " BC")) + "::date"

    def time(self):
        return literal(self.clock()) + "::time"

    def timetz(self):
        zone = self.pick("+00", "+02", "-03:30", "EST", "UTC", "+14", "-11:59:59")
        return literal(f"{self.clock()} {zone}") + "::timetz"

    def interval_text(self):
        number = lambda: self.pick(0, 1, -1, 2, 11, -13, 29, 400, 1.5, -0.25, 100)
        units = ["years", "months", "weeks", "days", "hours", "minutes", "seconds"]
        some = self.random.sample(units, self.random.randint(1, 4))
        words = " ".join(f"{number()} {unit}" for unit in units if unit in some)
        return self.pick(words, words, words + " ago", f"{number()} {self.clock()}", "1-2",
                         "-1-2 3 4:05:06", "P1Y2M3DT4H5M6.7S", "PT-1H", f"-{self.clock()}", "@ 1 day")

    def interval(self):
        return literal(self.interval_text()) + "::interval"

    def moment(self):
        return self.pick(self.timestamptz, self.timestamptz, self.timestamp, self.date)()

    def any(self):
        return self.pick(self.timestamptz, self.timestamp, self.date, self.time, self.timetz,
                         self.interval)()

    def pattern(self):
        pieces = []
        for _ in range(self.random.randint(1, 5)):
            field = self.random.choice(FIELDS)
            pieces.append(self.pick("", "", "FM", "TM") + field + self.pick("", "", "th", "TH"))
        return literal(self.pick(" ", "-", "/", ":", ", ", '"x y"', "").join(pieces))

    def number_pattern(self):
        digits = self.pick("9", "99", "999", "0", "09", "9999", "9,999", "9G999", "0000", "90")
        behind = self.pick("", "", ".9", ".99", ".00", "D99", "V99", ".09", ".990")
        if self.random.random() < 0.1:
            return literal(self.pick("RN", "FMrn", "99RN"))
        front = self.pick("", "", "FM", "S", "MI", "PL", "SG", "L", "B", "$")
        return literal(front + digits + behind + self.pick("", "", "S", "MI", "PR", "th", "TH", "EEEE"))

    def number(self):
        number = self.pick("0", "1", "-1", "12", "-12.5", "123.456", "0.5", "-0.05", "1234", "99999",
                           "1e10", "485", "-1234.5", "12345.678", "3999", "0.999")
        return f"({number})::{self.pick('numeric', 'float8', 'float4', 'int4', 'int8')}"

    def formatted(self):
        value = self.pick(self.timestamptz, self.timestamp, self.interval)()
        kind = self.random.random()
        if kind < 0.5:
            return f"to_char({value}, {self.pattern()})"
        if kind < 0.75:
            return f"to_char({self.number()}, {self.number_pattern()})"
        if kind < 0.85:
            text = self.pick("12", "-12.5", "1,234", "<12>", "12-", "+1.5", " 7", "$ 12", "12th", "x")
            return f"to_number({literal(text)}, {self.number_pattern()})"
        pattern = self.pick("YYYY-MM-DD", "DD Mon YYYY", "YYYY-MM-DD HH24:MI:SS", "MM/DD/YY",
                            "HH12:MI AM", "YYYYMMDD", "DDD YYYY", "IYYY-IW-ID", "J", "Month DD, YYYY",
                            "YYYY-MM-DD HH24:MI:SS.US", "YYYY-MM-DD HH24:MI TZH:TZM", "CC YY MM",
                            "FXYYYY-MM-DD", "FMDD FMMonth YYYY", "YYYY BC", "Q YYYY", "W MM YYYY", "SSSS")
        text = self.pick(self.moment_text(), self.odd_text(), self.day(), "2026-07-04 05:06:07",
                         "04 Jul 2026", "July 4, 2026", "20260704", "10:11 PM", "185 2026", "2026-27-6",
                         "2461226", "07/04/26", "2026-07-04 05:06 -03:30")
        function = self.pick("to_timestamp", "to_date")
        return f"{function}({literal(text)}, {literal(pattern)})"

    def expression(self):
        zone = lambda: self.pick(self.random.choice(ZONES), self.random.choice(ABBREVIATIONS))
        unit = lambda: literal(self.random.choice(UNITS))
        makers = [
            self.any,
            lambda: f"{literal(self.odd_text())}::{self.pick('timestamptz', 'timestamp', 'date')}",
            lambda: f"{literal(self.odd_text())}::{self.pick('timestamptz', 'timestamp', 'date')}",
            lambda: f"{literal(self.pick(self.clock(), self.odd_text(), self.moment_text()))}::time",
            lambda: f"{literal(self.moment_text())}::timetz",
            lambda: f"{self.any()}::{self.pick('timestamptz', 'timestamp', 'date', 'time', 'text')}",
            lambda: f"{self.timestamptz()}::timetz",
            lambda: f"{self.moment()} {self.pick('+', '-')} {self.interval()}",
            lambda: f"{self.pick(self.time, self.timetz)()} {self.pick('+', '-')} {self.interval()}",
            lambda: f"{self.near()} - {self.near()}",
            lambda: f"{self.any()} {self.pick('=', '<', '>', '<=', '>=', '<>')} {self.any()}",
            lambda: f"{self.date()} + {self.pick(self.time, self.timetz)()}",
            lambda: f"{self.time()} - {self.time()}",
            lambda: f"{self.pick(self.timestamptz, self.timestamp, self.timetz)()} "
                    f"at time zone {literal(zone())}",
            lambda: f"{self.timestamptz()} at time zone interval '{self.pick('5:30', '-8:00')}'",
            lambda: f"date_trunc({unit()}, {self.pick(self.moment, self.interval)()})",
            lambda: f"date_trunc({unit()}, {self.timestamptz()}, {literal(zone())})",
            lambda: f"date_part({unit()}, {self.any()})",
            lambda: f"extract({self.random.choice(UNITS)} from {self.any()})",
            lambda: f"age({self.timestamptz()}, {self.timestamptz()})",
            lambda: f"make_timestamptz({self.random.randint(1, 2100)}, {self.random.randint(1, 12)}, "
                    f"{self.random.randint(1, 28)}, {self.random.randint(0, 23)}, "
                    f"{self.random.randint(0, 59)}, 7.5, {literal(zone())})",
            lambda: f"(select string_agg(g::text, ',') from generate_series({self.timestamptz()}, "
                    f"'2026-04-02', interval '{self.pick('1 day', '7 hours', '1 month')}') g "
                    "where g > '2026-03-01')" if self.random.random() < 0.1 else self.interval(),
            lambda: f"to_json({self.any()})",
            lambda: f"array[{self.timestamptz()}, null]::text",
            lambda: f"{self.any()}({self.random.randint(0, 6)})",
            lambda: f"greatest({self.timestamptz()}, {self.timestamptz()})",
        ]
        makers += [self.formatted] * 12
        return self.random.choice(makers)()


def statements(seed, state):
    """Expressions, and now and then another zone or style, which `state` tells."""
    maker = Maker(seed)
    for sql in peer.expressions(maker):
        if maker.random.random() < 0.1:
            sql = maker.setting()
            state[sql.split()[1]] = sql.split(" = ")[1]
        yield sql


def main():
    state = {}
    return peer.compare(__doc__, lambda seed: statements(seed, state), lambda: f" -- {state}")


if __name__ == "__main__":
    sys.exit(main())
