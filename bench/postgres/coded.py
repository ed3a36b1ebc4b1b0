#!/usr/bin/env python3
"""Random statements over addresses, strings of bits, places in a log and types of catalogs, the same
to `rightlink serve` and to PostgreSQL 15: every answer and every error code must be equal.

    apt-get install postgresql-15; pip install 'psycopg[binary]'
    cargo build --release -p rightlink-cli
    bench/postgres/coded.py [--statements 50000] [--seed 1] [--binary FILE] [--show 20]

A round makes a table with a column of each type and indexes over some of them. Half of the
statements are expressions: texts of values, of which some are malformed, casts, operators and
functions. The others write rows, and ask for ranges, sorts, groups and joins.

Does not do: what is refused by name; selectivities, statistics, and names of columns.
"""

import sys

import peer
from peer import literal


class Round(peer.Chooser):
    """The statements of one round; equal seeds make equal ones."""

    def number(self, most):
        return self.pick(0, 1, most, self.random.randint(0, most))

    def v4(self):
        octets = [str(self.number(255)) for _ in range(self.pick(4, 4, 4, 4, 3, 2, 1, 5))]
        text = ".".join(octets)
        return self.pick(*[text] * 12, text + ".", "0" + text, text + ".x", "0x0a0b" + octets[0])

    def v6(self):
        words = [self.pick("0", "0", f"{self.number(65535):x}", "ffff", "1")
                 for _ in range(self.pick(8, 8, 8, 7, 9, 6))]
        if self.chance(0.6):
            at = self.random.randint(0, len(words) - 1)
            words[at:at + self.random.randint(1, 5)] = [""]
        text = ":".join(words)
        if text.startswith(":") and not self.chance(0.1):
            text = ":" + text
        if text.endswith(":") and not self.chance(0.1):
            text += ":"
        if self.chance(0.15):
            text = self.pick("::", "::ffff:", "1:2:3:4:5:6:", "64:ff9b::") + self.v4()
        return text

    def address(self):
        """The text of an address, which is sometimes none."""
        is_v6 = self.chance(0.4)
        text = self.v6() if is_v6 else self.v4()
        if self.chance(0.5):
            most = 128 if is_v6 else 32
            bits = self.pick(self.number(most), self.random.randint(0, 4) * 8, most, most + 1)
            text += f"/{bits}"
        return self.pick(*[text] * 30, text + "/", text + " ", "", text.upper())

    def good_address(self):
        address = ".".join(str(self.pick(10, self.number(3))) for _ in range(4))
        if self.chance(0.3):
            address = self.pick("::", "::1", "2001:db8::", f"2001:db8::{self.number(9)}", "1::2:0")
        return address + self.pick("", "", f"/{self.number(32)}", "/8", "/24")

    def inet(self):
        text = literal(self.good_address())
        return self.pick(f"inet {text}", f"{text}::inet", f"network({text})", f"cidr(inet {text})",
                         f"inet {literal(self.address())}", "null::inet")

    def digits(self):
        return "".join(self.pick("0", "1") for _ in range(self.pick(0, 1, 3, 4, 4, 8, 9, 17)))

    def bits(self):
        text = self.digits()
        return self.pick(f"B'{text}'", f"B'{text}'", f"varbit '{text}'", f"'{text}'::bit(4)",
                         f"B'{text}'::bit({self.number(20) + 1})",
                         f"{self.number(70000)}::bit({self.number(40) + 1})", "X'A5f'",
                         f"B'{text}'::varbit({self.number(9) + 1})", "null::bit(3)",
                         f"({-self.number(9)})::bigint::bit({self.number(70) + 1})")

    def lsn(self):
        text = f"{self.number(4294967295):X}/{self.number(4294967295):x}"
        return f"pg_lsn {literal(self.pick(*[text] * 9, '1', '/'))}"

    def comparison(self):
        return self.pick("=", "<>", "<", "<=", ">", ">=")

    def of_addresses(self):
        a, b, n = self.inet(), self.inet(), self.random.randint(-2, 140)
        function = self.pick("host", "masklen", "netmask", "hostmask", "network", "broadcast",
                             "family", "abbrev", "text", "cidr")
        kind = self.pick("inet", "cidr")
        return self.pick(
            f"{literal(self.address())}::{kind}", f"{literal(self.address())}::{kind}",
            f"abbrev({literal(self.address())}::cidr)", f"{function}({a})",
            f"{a} {self.pick('<<', '<<=', '>>', '>>=', '&&')} {b}", f"{a} {self.comparison()} {b}",
            f"{a} {self.pick('&', '|')} {b}", f"~ {a}", f"{a} - {b}", f"({a})::{kind}::text",
            f"{a} {self.pick('+', '-')} {self.pick(n, n * 10 ** 9, n * 10 ** 16)}",
            f"set_masklen({a}, {n})", f"set_masklen(({a})::cidr, {n})",
            f"inet_merge({a}, {b})", f"inet_same_family({a}, {b})",
            f"{a} = {literal(self.address())}", f"({a})::cidr = {literal(self.good_address())}",
            f"greatest({a}, {b})", f"array[{a}, {b}]", f"to_json({a})", f"{a} || 'x'",
            f"coalesce({a}, {b})")

    def of_bits(self):
        a, b, n, m = self.bits(), self.bits(), self.random.randint(-3, 12), self.number(10)
        return self.pick(
            f"{a} {self.pick('&', '|', '#')} {b}", f"~ {a}", f"{a} {self.pick('<<', '>>')} {n}",
            f"{a} || {b}", f"{a} {self.comparison()} {b}",
            f"{self.pick('length', 'octet_length', 'bit_length', 'bit_count')}({a})",
            f"get_bit({a}, {n})", f"set_bit({a}, {n}, {self.pick(0, 1, 1, 2)})",
            f"substring({a}, {n})", f"substring({a}, {n}, {m - 1})", f"position({a} in {b})",
            f"overlay({a} placing {b} from {n})", f"overlay({a} placing {b} from {n} for {m})",
            f"({a})::{self.pick('int', 'bigint', 'text', 'varbit', 'bit')}",
            f"({a})::bit({m + 1})", f"({a})::varbit({m + 1})",
            f"{literal(self.pick('', 'x', 'b', '') + self.digits())}::{self.pick('bit(3)', 'varbit')}",
            f"array[{a}, {b}]", f"pg_typeof({a} || {b})", f"greatest({a}, {b})")

    def of_places(self):
        a, b, n = self.lsn(), self.lsn(), self.pick(self.number(99999), 2 ** 63, "1.5", "'NaN'")
        return self.pick(f"{a} - {b}", f"{a} {self.comparison()} {b}",
                         f"{a} {self.pick('+', '-')} {n}::numeric", f"{n}::numeric + {a}",
                         f"({a})::text", f"greatest({a}, {b})")

    def value(self, column):
        """A literal for a column."""
        if self.chance(0.08):
            return "null"
        return literal({
            "i": self.good_address,
            "c": lambda: self.pick("10/8", "10.1/16", "10.0.0.0/8", "::/0", "1::/16", "10.1.2.3"),
            "b": lambda: "".join(self.pick("0", "1") for _ in range(self.pick(4, 4, 4, 4, 4, 3))),
            "v": self.digits,
            "p": lambda: f"{self.number(2)}/{self.number(20):X}",
            "o": lambda: str(self.pick(self.number(5), 4294967295, 2147483648)),
            "n": lambda: self.pick("a", "b", "Zoe", "", "x" * 70),
            "k": lambda: self.pick("a", "b", "", "r", "xyz", "\\200"),
        }[column]())

    def write(self):
        row, column = self.random.randrange(40), self.pick(*"icbvponk")
        values = ", ".join(self.value(one) for one in "icbvponk")
        return self.pick(
            f"insert into t values ({row}, {values})", f"insert into t values ({row}, {values})",
            f"insert into t values ({row}, {values}) on conflict (id) do update "
            f"set {column} = excluded.{column} returning *",
            f"update t set {column} = {self.value(column)} where id % 7 = {row % 7}",
            f"update t set i = i + 1, b = ~ b, v = v || '1', p = p + 1 where id = {row} "
            "returning i, b, v, p",
            f"update t set c = i, v = b where id = {row} returning c, v",
            f"delete from t where {column} = {self.value(column)} and id % 3 = {row % 3}",
            f"insert into u values ({self.value('c')}, {self.value('v')}) on conflict do nothing")

    def query(self):
        column = self.pick(*"icbvponk")
        a, b, op = self.value(column), self.value(column), self.comparison()
        return self.pick(
            f"select id from t where {column} {op} {a} order by id",
            f"select id, {column} from t where {column} between {a} and {b} order by {column}, id",
            f"select id from t where {column} in ({a}, {b}) order by id",
            f"select {column}, count(*) from t group by {column} order by {column} nulls first",
            f"select distinct {column} from t order by {column} desc",
            f"select id, {column} from t order by {column} {self.pick('', 'desc')}, id limit 5",
            f"select count(distinct {column}), array_agg({column} order by id) from t",
            f"select t.id, s.id from t join t s on t.{column} = s.{column} order by 1, 2",
            "select t.id, u.c from t join u on t.i = u.c order by 1",
            "select t.id, u.c from t join u on u.c >>= t.i order by 1, 2",
            "select t.id, u.v from t join u on t.v = u.v order by 1",
            f"select id from t where i <<= {self.value('c')} order by id",
            "select min(i), max(i), max(c), min(p), max(o), bit_and(b), bit_or(b) from t",
            f"select id, lag({column}) over (order by {column}, id) from t order by id",
            f"select id from t where ({column}, id) {op} ({a}, 9) order by id")

    def begin(self):
        yield ("create table t (id int primary key, i inet, c cidr, b bit(4), v varbit, p pg_lsn, "
               "o oid, n name, k \"char\")")
        yield "create table u (c cidr primary key, v varbit unique)"
        for column in "icbvponk":
            if self.chance(0.4):
                yield f"create index on t ({column} {self.pick('', 'desc', 'nulls first')}, id)"

    def statements(self):
        yield from self.begin()
        for _ in range(80):
            chance = self.random.random()
            if chance < 0.4:
                yield f"select {self.pick(self.of_addresses, self.of_bits, self.of_places)()}"
            elif chance < 0.7:
                yield self.write()
            elif chance < 0.73:
                yield f"set enable_seqscan = {self.pick('on', 'off')}"
            elif chance < 0.75:
                yield "analyze t"
            else:
                yield self.query()
        yield "drop table t, u"


if __name__ == "__main__":
    sys.exit(peer.compare(__doc__, peer.rounds(Round)))
