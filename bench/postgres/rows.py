#!/usr/bin/env python3
"""Random statements about rows as values, temporary tables, deferred foreign keys, tables made LIKE
others, and numbers that are not finite, the same to `rightlink serve` and to PostgreSQL 15: every
answer and every error code must be equal.

    apt-get install postgresql-15; pip install 'psycopg[binary]'
    cargo build --release -p rightlink-cli
    bench/postgres/rows.py [--statements 50000] [--seed 1] [--binary FILE] [--show 20]

A round makes two tables, of which one refers to the other, and runs queries over whole rows, ROW,
their fields, their comparisons and their documents, between changes inside and outside of blocks.

Does not do: what is refused by name, such as arrays of rows.
"""

import sys

import peer
from peer import literal

TEXTS = ("", "a", "b c", 'q"', "x,y", "(z)", "back\\slash", "null", "1")
NUMBERS = ("0", "1", "-2.5", "'NaN'", "'Infinity'", "'-Infinity'", "3.10", "1e20", "0.0001")


class Round(peer.Chooser):
    """The statements of one round; equal seeds make equal ones."""

    def begin(self):
        waits = self.pick("", " deferrable", " deferrable initially deferred")
        yield "create table p (id int primary key, s text, n numeric, d date)"
        yield ("create table c (id int primary key, "
               f"p int references p (id){waits}, t text[], j jsonb)")
        yield "set time zone 'UTC'"
        if self.chance(0.5):
            yield "create index p_n on p (n, id)"
            yield f"set enable_seqscan = {self.pick('on', 'off')}"
        for at in range(5):
            yield f"insert into p values ({at}, {self.text()}, {self.number()}, {self.date()})"

    def end(self):
        yield "rollback"
        yield "discard temp"
        for name in ("c", "l", "p"):
            yield f"drop table {name}"

    def text(self):
        return "null" if self.chance(0.2) else literal(self.random.choice(TEXTS))

    def number(self):
        return "null" if self.chance(0.15) else self.random.choice(NUMBERS) + "::numeric"

    def date(self):
        return self.pick("null", "date '2024-02-29'", "date '1999-12-31'", "date 'infinity'")

    def value(self, deep=0):
        choices = [
            lambda: str(self.random.randrange(4)), self.text, self.number, self.date,
            lambda: self.pick("true", "false"), lambda: "'{1,2}'::int[]",
            lambda: "'{\"k\": [1, null]}'::jsonb",
        ]
        if deep < 2:
            choices.append(lambda: self.row(deep + 1))
        return self.random.choice(choices)()

    def row(self, deep=0):
        parts = ", ".join(self.value(deep) for _ in range(self.random.randrange(1, 4)))
        return f"row({parts})"

    def numeric(self, deep=0):
        """An expression over the column `n`."""
        chance = self.random.random()
        if deep > 2 or chance < 0.3:
            return self.pick("n", "n", self.number())
        if chance < 0.6:
            op = self.pick("+", "-", "*", "/", "%")
            return f"({self.numeric(deep + 1)} {op} {self.numeric(deep + 1)})"
        function = self.pick("abs", "sign", "ceil", "floor", "round", "trunc", "-", "trim_scale")
        return f"{function}({self.numeric(deep + 1)})"

    def change(self):
        at, parent = self.random.randrange(8), self.random.randrange(8)
        return self.pick(
            lambda: f"insert into p values ({at}, {self.text()}, {self.number()}, {self.date()})",
            lambda: f"insert into c values ({at}, {parent}, '{{a,\"b c\"}}', '{{\"x\": {at}}}')",
            lambda: f"delete from p where id = {at}",
            lambda: f"delete from c where id = {at}",
            lambda: f"update p set id = {parent + 8} where id = {at}",
            lambda: f"update c set p = {parent} where id = {at} returning c, row_to_json(c)",
            lambda: f"update p set n = {self.numeric()} where id = {at} returning p",
        )()

    def block(self):
        return self.pick(
            "begin", "commit", "commit", "rollback", "savepoint s", "rollback to s", "release s",
            "set constraints all deferred", "set constraints all immediate",
            "set constraints c_p_fkey deferred",
        )

    def definition(self):
        commit = self.pick("", "", " on commit drop", " on commit delete rows")
        including = self.pick("", " including all", " including defaults including indexes")
        return self.pick(
            f"create temp table p (id int, s text, n numeric, d date){commit}",
            f"create temp table x (a int, b text){commit}",
            "create temp table y as select * from p",
            f"create table l (like p{including}, more int default 7)",
            "insert into l (id, s) values (1, 'l') returning l",
            "insert into x values (1, 'one'), (2, null) returning x",
            "drop table p", "drop table x", "drop table y", "drop table l",
        )

    def query(self):
        return self.pick(
            lambda: f"select {self.row()}, {self.row()}::text",
            lambda: f"select row_to_json({self.row()}), to_jsonb({self.row()})",
            lambda: "select p from p order by id",
            lambda: f"select id, row_to_json(p{self.pick('', ', true', '.*')}) from p order by id",
            lambda: "select p.id, c from p left join c on c.p = p.id order by p.id, c.id",
            lambda: "select p.id, count(c), json_agg(c order by c.id) from p left join c "
                    "on c.p = p.id group by p.id order by p.id",
            lambda: "select row_to_json(x) from (select id, s as \"the text\", n from p) x "
                    "order by id",
            lambda: "select jsonb_agg(x order by x.id) from (select id, s from p) x",
            lambda: f"select id from p where p is {self.pick('', 'not ')}null order by id",
            lambda: f"select a.id, b.id from p a, p b where a {self.comparison()} b order by 1, 2",
            lambda: "select distinct row(s, d) from p order by 1",
            lambda: "select row(s, n), count(*) from p group by row(s, n) order by 1",
            lambda: f"select {self.row()} {self.comparison()} {self.row()}",
            lambda: f"select (p).s, (p).n from p order by (p).id {self.pick('', 'desc')}",
            lambda: f"select id, {self.numeric()} from p order by id",
            lambda: f"select id from p where {self.numeric()} {self.comparison()} {self.number()} "
                    "order by id",
            lambda: "select sum(n), avg(n), min(n), max(n), count(distinct n) from p",
            lambda: "select id, sum(n) over (order by id rows 1 preceding) from p order by id",
            lambda: "select n::float8, n::text, scale(n) from p order by n, id",
            lambda: "select id, n from p order by n desc nulls first, id",
            lambda: f"select * from jsonb_to_recordset({self.document()}) "
                    "as r(a int, b text, c jsonb, d numeric[])",
            lambda: f"select r, row_to_json(r) from json_to_record({self.member()}) "
                    "as r(a text, b boolean)",
            lambda: "select * from x order by a, b",
            lambda: "select * from y order by id",
            lambda: "select l from l order by id",
            lambda: "select count(*) from c",
        )()

    def comparison(self):
        return self.pick("=", "<>", "<", "<=", ">", ">=", "is distinct from")

    def member(self):
        parts = {
            "a": self.pick("1", '"2"', "null", '"x"', "1.5", "[1]", '{"k": 1}'),
            "b": self.pick("true", '"t"', "null", '"maybe"', "5", '{"z": "}"}'),
            "d": self.pick("[1, 2.5]", "[]", "[[1], [2]]", "[[1], [2, 3]]", '"{3,4}"', "7", "null"),
        }
        chosen = [name for name in parts if self.chance(0.7)]
        return "'{" + ", ".join(f'"{name}": {parts[name]}' for name in chosen) + "}'"

    def document(self):
        items = [self.member()[1:-1] for _ in range(self.random.randrange(3))]
        if self.chance(0.05):
            return self.pick("'[1]'", "'{}'", "null")
        return "'[" + ", ".join(items) + "]'"

    def statements(self):
        yield from self.begin()
        for _ in range(60):
            chance = self.random.random()
            if chance < 0.25:
                yield self.change()
            elif chance < 0.4:
                yield self.block()
            elif chance < 0.47:
                yield self.definition()
            else:
                yield self.query()
        yield from self.end()


if __name__ == "__main__":
    sys.exit(peer.compare(__doc__, peer.rounds(Round)))
