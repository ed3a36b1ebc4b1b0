#!/usr/bin/env python3
"""Random statements about rows as values, composite types, temporary tables, deferred foreign keys, tables made LIKE
others, and numbers that are not finite, the same to `rightlink serve` and to PostgreSQL 15: every
answer and every error code must be equal.

    apt-get install postgresql-15; pip install 'psycopg[binary]'
    cargo build --release -p rightlink-cli
    bench/postgres/rows.py [--statements 50000] [--seed 1] [--binary FILE] [--show 20]

A round makes two tables, of which one refers to the other, and runs queries over whole rows, ROW,
their fields, their comparisons and their documents, between changes inside and outside of blocks.
A third table has columns of composite types and of arrays of them.

Does not do: what is refused by name, such as keys of rows.
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
        yield "create type pair as (a int, b varchar(3))"
        yield "create type nest as (p pair, ps pair[], n numeric(4,1), c char(3))"
        yield "create table k (id int primary key, r pair, n nest, rs pair[])"
        yield "set time zone 'UTC'"
        if self.chance(0.5):
            yield "create index p_n on p (n, id)"
            yield f"set enable_seqscan = {self.pick('on', 'off')}"
        for at in range(5):
            yield f"insert into p values ({at}, {self.text()}, {self.number()}, {self.date()})"

    def end(self):
        yield "rollback"
        yield "discard temp"
        for name in ("c", "l", "p", "k"):
            yield f"drop table {name}"
        yield "drop type nest, pair"

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

    def pair(self):
        """A value of the type `pair`, some of them wrong."""
        a = self.pick("1", "2", "-3", "null", "'4'", "'x'" if self.chance(0.1) else "0")
        b = self.pick("'a'", "''", "null", "'q\"'", "'x,y'", "'\\\\'", "'long'" if self.chance(0.1) else "'(z'")
        return self.pick(
            f"row({a}, {b})::pair", f"row({a}, {b})::pair", "null::pair",
            self.pair_text() + "::pair",
            f"(jsonb_populate_record({self.pick('null::pair', 'r')}, {self.pair_json()}))",
        ).replace("populate_record(r", "populate_record(row(7, 'r')::pair")

    def pair_text(self):
        return "'" + self.pick("(1,a)", "(,)", "(2,\"b \"\"c\"\"\")", " (3,) ", "(4,\\\\)", "(5",
                              "(6,a,b)", "(7)", "(x,y)", "(8,\"\")", "(9,abcd)", "(1, a)") + "'"

    def pair_json(self):
        return "'" + self.pick('{"a": 1, "b": "x"}', '{"a": "2"}', '{"b": null}', "{}", '{"a": 1.5}',
                              '{"b": [1]}', "[1]", "3", '{"a": true, "c": 1}', '{"b": "long"}') + "'"

    def nest_json(self):
        return "'" + self.pick(
            '{"p": {"a": 1}, "n": 2.55}', '{"ps": [{"a": 1}, "(2,b)", null], "c": "x"}',
            '{"p": "(1,q)", "ps": "{\"(1,a)\"}"}', '{"ps": [[{"b": "i"}], [{"b": "j"}]]}',
            '{"ps": [[1], [2]]}', '{"p": [1]}', '{"n": 12345}', '{"c": "abcd"}', '{"ps": 1}', "{}",
        ) + "'"

    def pairs(self):
        items = ", ".join(self.pair() for _ in range(self.random.randrange(1, 4)))
        return self.pick(f"array[{items}]", "null", "'{}'", f"array[{items}]",
                         "'{\"(1,a)\",NULL,\"(,\\\"b \\\")\"}'")

    def nest(self):
        return self.pick(
            lambda: f"row({self.pair()}, {self.pairs()}, {self.number()}, {self.text()})",
            lambda: f"row({self.pair()}, null, 1.25, 'ab')::nest",
            lambda: f"json_populate_record(null::nest, {self.nest_json()})",
            lambda: "null",
        )()

    def composite(self):
        """A statement about the table `k`."""
        at = self.random.randrange(6)
        order = self.pick("r", "n", "rs", "r desc", "n desc nulls last")
        return self.pick(
            lambda: f"insert into k values ({at}, {self.pair()}, {self.nest()}, {self.pairs()}) "
                    "returning *",
            lambda: f"insert into k values ({at}, {self.pair()}, {self.nest()}, {self.pairs()}) "
                    "on conflict (id) do update set r = excluded.r, n.p = excluded.r returning k",
            lambda: f"insert into k (id, r.a, n.p.b) values ({at}, {at}, {self.text()}) returning *",
            lambda: f"update k set r.a = {self.pick('1', 'null', 'id + (r).a')}, n.n = 9.99 "
                    f"where id = {at} returning r, n",
            lambda: f"update k set n.p.b = {self.text()}, rs = {self.pairs()} where id < {at} "
                    "returning n, rs",
            lambda: f"update k set r = {self.pair()} where r {self.comparison()} {self.pair()} "
                    "returning id, r",
            lambda: f"delete from k where id = {at}",
            lambda: f"select * from k order by {order}, id",
            lambda: "select id, (r).*, (n).p.a, (n).ps[1].b, (rs)[1], rs[2].a, (n).c || '|' "
                    "from k order by id",
            lambda: "select (k).id, (k.r).b, pg_typeof(k), pg_typeof(n) from k order by 1",
            lambda: f"select id from k where r {self.comparison()} {self.pair()} order by id",
            lambda: f"select id from k where rs {self.comparison()} {self.pairs()}::pair[] "
                    "order by id",
            lambda: "select r, count(*), array_agg(id order by id) from k group by r order by r",
            lambda: "select distinct rs from k order by 1",
            lambda: "select a.id, b.id from k a join k b on a.r = b.r order by 1, 2",
            lambda: f"select id, r is {self.pick('', 'not ')}null, n is null, (n).p is null from k "
                    "order by id",
            lambda: "select to_json(k), row_to_json(r), to_jsonb(rs), n::text from k order by id",
            lambda: "select array_agg(r order by r, id), array_agg(k order by id) from k",
            lambda: f"select {self.pair()}, {self.pair_text()}::pair, ({self.pair()}).b",
            lambda: f"select {self.pair()} {self.comparison()} {self.pair()}",
            lambda: f"select ({self.pair()}).*, ({self.nest()}::nest).*",
            lambda: f"select * from json_populate_record(null::nest, {self.nest_json()})",
            lambda: "select k.id, x.* from k, jsonb_populate_record(k.r, "
                    f"{self.pair_json()}) x order by id",
            lambda: "select k.id, x.* from k, json_populate_recordset(k.r, "
                    "'[{\"a\": 1}, {\"b\": \"y\"}, {}]') x order by 1, 2, 3",
            lambda: f"select * from unnest({self.pairs()}::pair[]) with ordinality",
            lambda: f"select (unnest({self.pairs()}::pair[])).*",
            lambda: f"select * from json_to_record('{{\"x\": {{\"a\": {at}}}, "
                    "\"y\": [{\"b\": \"q\"}, null]}') as r(x pair, y pair[])",
            lambda: f"select coalesce(r, {self.pair()}) from k order by id",
            lambda: f"select r from k union select {self.pair()} order by 1",
            lambda: f"select '{{\"(1,a)\"}}'::pair[] || {self.pair()}, {self.pair()} = any (rs) "
                    "from k order by id",
            lambda: "select id from k where r in (row(1, 'a')::pair, row(2, null)::pair) order by 1",
        )()

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
            elif chance < 0.75:
                yield self.composite()
            else:
                yield self.query()
        yield from self.end()


if __name__ == "__main__":
    sys.exit(peer.compare(__doc__, peer.rounds(Round)))
