#!/usr/bin/env python3
"""Random expressions over JSON documents, the same to `rightlink serve` and to PostgreSQL 15: every
answer and every error code must be equal.

    apt-get install postgresql-15; pip install 'psycopg[binary]'
    cargo build --release -p rightlink-cli
    bench/postgres/documents.py [--statements 50000] [--seed 1] [--binary FILE] [--show 20]

Documents have keys that are empty, repeated or not ASCII, numbers of several scales, and nest.
Expressions are operators, functions, casts, comparisons, aggregates and rows of members, and paths
of SQL/JSON with filters, arithmetic and methods, lax and strict, silent or not.

Does not do: what is refused by name; faults of a document that PostgreSQL forgets again, where a
path goes on below a container that it does not fit.
"""

import sys

import peer
from peer import literal

KEYS = ["a", "b", "c", "é", "a b", "1", ""]
NUMBERS = ["0", "1", "-1", "2.5", "1.0", "1.00", "1e2", "-0", "3", "0.1",
           "123456789012345678901234567890"]
STRINGS = ["a", "b", "", '\\"', "1", "é", "a\\nb", "2020-01-01", "\\u0041"]


class Maker(peer.Chooser):
    """Makes expressions; equal seeds make equal ones."""

    def some(self, most, make):
        return [make() for _ in range(self.random.randint(0, most))]

    def document(self, levels):
        kind = self.random.random()
        if levels == 0 or kind < 0.35:
            return self.pick("null", "true", "false", self.random.choice(NUMBERS),
                             self.random.choice(NUMBERS), f'"{self.random.choice(STRINGS)}"')
        if kind < 0.68:
            def field():
                return f'"{self.random.choice(KEYS)}":{self.pick("", " ")}{self.document(levels - 1)}'
            return "{" + ",".join(self.some(3, field)) + "}"
        return "[" + self.pick(",", ", ").join(self.some(3, lambda: self.document(levels - 1))) + "]"

    def jsonb(self, levels=3):
        return literal(self.document(levels)) + "::jsonb"

    def json(self, levels=3):
        return literal(self.document(levels)) + "::json"

    def either(self, levels=3):
        return self.pick(self.json, self.jsonb)(levels)

    def key(self):
        return literal(self.random.choice(KEYS))

    def place(self):
        return str(self.random.randint(-3, 3))

    def steps(self):
        step = lambda: '"' + self.random.choice([*KEYS, "0", "1", "-1", "-2", "2"]) + '"'
        return "'{" + ",".join(self.some(3, step)) + "}'"

    def constant(self):
        number = self.random.choice(NUMBERS).replace("-0", "0")
        return self.pick(number, '"a"', '"b"', "true", "false", "null", '"1"')

    def accessor(self, levels):
        kind = self.random.random()
        if kind < 0.3:
            return "." + self.pick("a", "b", "c", '"a b"', '"é"', '"1"', "size")
        if kind < 0.4:
            return ".*"
        if kind < 0.55:
            return "[*]"
        if kind < 0.68:
            return f"[{self.pick('0', '1', 'last', '0 to 1', 'last - 1', '0, last', '-1', '2')}]"
        if kind < 0.75:
            return self.pick(".**", ".**{1}", ".**{0 to 1}", ".**{last}", ".**{1 to last}")
        if kind < 0.9 and levels > 0:
            return f" ? ({self.condition(levels - 1, '@')})"
        return self.pick(".type()", ".size()", ".abs()", ".floor()", ".ceiling()", ".double()",
                         ".keyvalue().key", ".keyvalue().value")

    def value(self, levels, current):
        kind = self.random.random()
        if kind < 0.7 or levels == 0:
            members = self.some(3, lambda: self.accessor(levels))
            return self.pick("$", current, current) + "".join(members)
        if kind < 0.8:
            return self.constant()
        if kind < 0.93:
            sign = self.pick("+", "-", "*", "/", "%")
            return f"({self.value(levels - 1, current)} {sign} {self.value(levels - 1, current)})"
        return self.pick("$v", "-" + self.value(0, current))

    def condition(self, levels, current):
        kind = self.random.random()
        if levels == 0 or kind < 0.5:
            sign = self.pick("==", "!=", "<", "<=", ">", ">=", "<>")
            right = self.pick(self.constant(), self.value(0, current))
            return f"{self.value(max(levels - 1, 0), current)} {sign} {right}"
        inner = lambda: self.condition(levels - 1, current)
        if kind < 0.74:
            return f"({inner()}) {self.pick('&&', '||')} ({inner()})"
        if kind < 0.88:
            return self.pick(f"!({inner()})", f"({inner()}) is unknown")
        if kind < 0.93:
            return f"exists({self.value(levels - 1, current)})"
        return self.value(0, current) + self.pick(' starts with "a"', ' like_regex "^a"')

    def path(self):
        is_value = self.random.random() < 0.75
        text = self.value(2, "$") if is_value else self.condition(2, "$")
        return literal(self.pick("", "lax ", "strict ") + text)

    def along(self):
        function = self.pick("query_array", "exists", "query_first", "match")
        silent = self.pick("", ", true")
        return f"jsonb_path_{function}({self.jsonb()}, {self.path()}, '{{\"v\": 1}}'{silent})"

    def expression(self):
        jsonb, json, either, key = self.jsonb, self.json, self.either, self.key
        makers = [
            lambda: f"{either()} {self.pick('->', '->>')} {self.pick(key(), self.place())}",
            lambda: f"{either()} {self.pick('#>', '#>>')} {self.steps()}",
            lambda: f"{jsonb()} {self.pick('@>', '<@')} {jsonb(2)}",
            lambda: f"{jsonb()} ? {key()}",
            lambda: f"{jsonb()} {self.pick('?|', '?&', '-')} array[{key()},{key()}]",
            lambda: f"{jsonb()} || {jsonb()}",
            lambda: f"{jsonb()} - {self.pick(key(), self.place())}",
            lambda: f"{jsonb()} #- {self.steps()}",
            lambda: f"{self.pick('jsonb_set', 'jsonb_insert')}({jsonb()}, {self.steps()}, "
                    f"{jsonb(1)}, {self.pick('true', 'false')})",
            lambda: self.pick(f"jsonb_strip_nulls({jsonb()})", f"json_strip_nulls({json()})",
                              f"jsonb_pretty({jsonb()})"),
            lambda: f"{jsonb()} {self.pick('=', '<', '>', '<=', '>=', '<>')} {jsonb()}",
            lambda: self.pick(f"jsonb_typeof({jsonb()})", f"json_typeof({json()})",
                              f"jsonb_array_length({jsonb()})", f"json_array_length({json()})"),
            lambda: f"({jsonb()})::{self.pick('int', 'numeric', 'bool', 'float8', 'text', 'json')}",
            lambda: f"{json()}::jsonb",
            lambda: f"(select {self.pick('json', 'jsonb')}_agg(x) "
                    f"from jsonb_array_elements({jsonb()}) x)",
            lambda: f"(select jsonb_agg(x order by x) from jsonb_array_elements({jsonb()}) x)",
            lambda: "(select string_agg(key || '=' || coalesce(value, '~'), ',') "
                    f"from jsonb_each_text({jsonb()}))",
            lambda: f"(select string_agg(key || '=' || value::text, ',') from json_each({json()}))",
            lambda: f"(select string_agg(k, ',') from json_object_keys({json()}) k)",
            lambda: f"json_build_object({key()}, {either(2)}, 'n', 1.50, 'z', array[1, null])",
            lambda: f"jsonb_build_array({either(2)}, 1.50, null, 'x', array['a'], true)",
            lambda: f"({jsonb()})[{self.pick(key(), self.place())}][{key()}]",
            self.along, self.along, self.along, self.along, self.along,
        ]
        return self.random.choice(makers)()


if __name__ == "__main__":
    sys.exit(peer.compare(__doc__, lambda seed: peer.expressions(Maker(seed))))
