#!/usr/bin/env python3
"""Random statements about types that users make, and comparisons of rows, the same to `rightlink
serve` and to PostgreSQL 15: every answer and every error code must be equal.

    apt-get install postgresql-15; pip install 'psycopg[binary]'
    cargo build --release -p rightlink-cli
    bench/postgres/values.py [--statements 50000] [--seed 1] [--binary FILE] [--show 20]

A round makes an enum, a domain over it, and a table with columns, keys and indexes of both. Labels
are added and renamed in random places between inserts, updates, ranges, sorts, groups and joins,
with indexes and without. Rows of values compare with nulls and literals in them.

Does not do: what is refused by name; a new label in the transaction that adds it; operators of a
domain over an enum, which PostgreSQL has not.
"""

import sys

import peer
from peer import literal


class Round(peer.Chooser):
    """The statements of one round; equal seeds make equal ones."""

    def __init__(self, seed):
        super().__init__(seed)
        self.labels = self.random.sample([f"l{n}" for n in range(40)], self.random.randint(1, 6))
        # A check names it.
        self.first = self.labels[0]
        self.next = 0

    def label(self):
        """A label, or seldom a text that is none, or null."""
        chance = self.random.random()
        if chance < 0.04:
            return self.pick("", "none", self.labels[0].upper())
        return None if chance < 0.12 else self.random.choice(self.labels)

    def comparison(self):
        return self.pick("=", "<>", "<", "<=", ">", ">=")

    def begin(self):
        names = ", ".join(map(literal, self.labels))
        yield f"create type mood as enum ({names})"
        yield f"create domain good as mood check (value > {literal(self.first)})"
        yield "create table t (id int primary key, m mood, g good, l mood[])"
        yield "create table u (m mood primary key, n int)"
        if self.random.random() < 0.5:
            yield f"create index t_m on t (m {self.pick('', 'desc', 'desc nulls last')}, id)"

    def change(self):
        """A change of the type."""
        if self.random.random() < 0.7:
            new = f"n{self.next}"
            self.next += 1
            if self.random.random() < 0.2:
                self.labels.append(new)
                return f"alter type mood add value {literal(new)}"
            at = self.random.randrange(len(self.labels))
            old = self.labels[at]
            before = self.random.random() < 0.5
            self.labels.insert(at if before else at + 1, new)
            where = "before" if before else "after"
            return f"alter type mood add value {literal(new)} {where} {literal(old)}"
        others = [at for at, label in enumerate(self.labels) if label != self.first]
        if not others:
            return "alter type mood rename value 'none' to 'some'"
        at = self.random.choice(others)
        old, self.labels[at] = self.labels[at], f"r{self.next}"
        self.next += 1
        return f"alter type mood rename value {literal(old)} to {literal(self.labels[at])}"

    def write(self):
        a, b = literal(self.label()), literal(self.label())
        row = self.random.randrange(60)
        return self.pick(
            f"insert into t values ({row}, {a}, {b}, array[{a}, {b}]::mood[])",
            f"insert into t values ({row}, {a}, null, null) on conflict (id) do update "
            f"set m = excluded.m returning m, g",
            f"insert into u values ({a}, {row})",
            f"insert into u values ({a}, {row}) on conflict (m) do nothing",
            f"update t set m = {a} where m {self.comparison()} {b}",
            f"update t set g = {a} where id % 3 = {row % 3}",
            f"delete from t where m {self.comparison()} {a} and id % 5 = {row % 5}",
        )

    def value(self):
        return self.pick(
            str(self.random.randint(0, 2)), str(self.random.randint(0, 2)), "null",
            f"{self.random.randint(0, 3)}.5", literal("1"))

    def row(self, width):
        values = ", ".join(self.value() for _ in range(width))
        return self.pick(f"({values})", f"row({values})", f"ROW({values})")

    def query(self):
        a, b = literal(self.label()), literal(self.label())
        op, width = self.comparison(), self.random.randint(2, 3)
        return self.pick(
            f"select id, m from t where m {op} {a} order by m, id",
            f"select id, m from t where m between {a} and {b} order by m desc, id",
            f"select id from t where m in ({a}, {b}) order by id",
            f"select id from t where g::mood {op} {a}::mood order by id",
            f"select m, count(*), min(g::mood), max(id) from t group by m order by m",
            "select min(m), max(m), count(distinct m), array_agg(m order by m, id) from t",
            "select t.id, u.n from t join u on u.m = t.m order by t.id",
            "select m from t union select m from u order by 1 nulls first",
            f"select id, l from t where l {op} array[{a}, {b}]::mood[] order by l, id",
            f"select id from t where {a} = any(l) order by id",
            f"select enum_range({a}::mood, {b}::mood), enum_first(null::mood)",
            f"select {a}::mood {op} {b}::mood, {a}::good, {b}::mood::text",
            f"select m, rank() over (order by m), lag(m) over (order by m, id) from t order by m, id",
            f"select id from t where (m, id) {op} ({a}, {self.random.randrange(60)}) order by id",
            f"select {self.row(width)} {op} {self.row(width)}",
            f"select {self.row(width)} in ({self.row(width)}, {self.row(width)})",
            f"select {self.row(width)} {self.pick('', 'not ')}between {self.row(width)} "
            f"and {self.row(width)}",
            f"select {self.row(width)} is {self.pick('', 'not ')}distinct from {self.row(width)}",
            f"select {self.row(width)} is {self.pick('', 'not ')}null",
            "select e.enumlabel from pg_enum e join pg_type t on t.oid = e.enumtypid "
            "where t.typname = 'mood' order by e.enumsortorder",
        )

    def end(self):
        yield "drop type mood"
        yield "drop table t, u"
        yield "drop domain good"
        yield "drop type mood"

    def statements(self):
        yield from self.begin()
        for _ in range(60):
            chance = self.random.random()
            if chance < 0.1:
                yield self.change()
            elif chance < 0.45:
                yield self.write()
            elif chance < 0.48:
                yield f"set enable_seqscan = {self.pick('on', 'off')}"
            elif chance < 0.5:
                yield "analyze t"
            else:
                yield self.query()
        yield from self.end()


if __name__ == "__main__":
    sys.exit(peer.compare(__doc__, peer.rounds(Round)))
