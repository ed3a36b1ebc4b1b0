#!/usr/bin/env python3
"""Random assignments to elements of arrays and members of documents, the same to `rightlink serve`
and to PostgreSQL 15: the rows that they leave and every error code must be equal.

    apt-get install postgresql-15; pip install 'psycopg[binary]'
    cargo build --release -p rightlink-cli
    bench/postgres/assignments.py [--statements 20000] [--seed 1] [--binary FILE] [--show 20]

Arrays have up to three dimensions, any lower bounds, nulls and no elements; columns are null, too.
Statements assign elements and slices, bounds left out or null, several parts of one column, from
SET, INSERT and ON CONFLICT. Documents get members where there are none, behind gaps and in scalars.

Does not do: arrays of more than a few elements; which of several faults of a statement is met
first.
"""

import argparse
import collections
import random
import sys

import peer

KEYS = ["a", "b", "1", "0", "-1", " 2", "+1", "x y", ""]
TYPES = {"i": "int[]", "t": "varchar(3)[]", "n": "numeric(4,1)[]", "c": "char(2)[]", "d": "jsonb"}
MEMBERS = ["1", "null", '"s"', "[]", "{}", "[1, [2]]", '{"a": [1], "b": {"a": 2}}', "[null, {}]"]
ELEMENTS = {"i": ["1", "-2", "30", "2.5", "'7'", "x"], "t": ["'a'", "'bc'", "'abcd'", "5"],
            "n": ["1", "2.25", "1000", "x"], "c": ["'a'", "'b '", "'abc'"]}


class Maker:
    """Makes statements; equal seeds make equal ones."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        # May the last statement have several faults?
        self.are_several = False

    def pick(self, *choices):
        return self.random.choice(choices)

    def array(self, column, dimensions=None):
        """A literal with random bounds."""
        if dimensions is None:
            dimensions = self.pick(0, 1, 1, 1, 2, 2, 3)
        if dimensions == 0:
            return "'{}'"
        lengths = [self.random.randint(1, 3) for _ in range(dimensions)]
        value = {"i": "1 2 3", "t": "a bc def", "n": "1.5 2 30.1", "c": "a bc d"}[column].split()

        def inner(level):
            if level == dimensions:
                return self.pick("null", *value)
            return "{" + ",".join(inner(level + 1) for _ in range(lengths[level])) + "}"

        bounds = ""
        if self.random.random() < 0.5:
            lowers = [self.random.randint(-3, 3) for _ in lengths]
            pairs = zip(lowers, lengths)
            bounds = "".join(f"[{low}:{low + length - 1}]" for low, length in pairs) + "="
        return f"'{bounds}{inner(0)}'"

    def whole(self, column):
        """What a whole column is given."""
        if self.random.random() < 0.15:
            return "null"
        if column == "d":
            return f"'{self.random.choice(MEMBERS)}'"
        return self.array(column)

    def subscript(self):
        kind = self.random.random()
        if kind < 0.03:
            return "null"
        if kind < 0.05:
            return self.pick("'1'", "1.6", "true", "2147483647", "-2147483648", "'k'")
        return self.pick("k", "k + 1") if kind < 0.1 else str(self.random.randint(-3, 5))

    def bound(self):
        return "" if self.random.random() < 0.25 else self.subscript()

    def step(self):
        if self.random.random() < 0.5:
            return f"'{self.random.choice(KEYS)}'"
        return self.subscript()

    def part(self, column, names_columns):
        """A target and its value."""
        dimensions = self.pick(1, 1, 1, 1, 2, 2, 3)
        if column == "d":
            target = "d" + "".join(f"[{self.step()}]" for _ in range(dimensions))
            value = self.pick("null", f"'{self.random.choice(MEMBERS)}'", "d", "'{'")
        else:
            is_slice = self.random.random() < 0.4
            target, slices = column, 0
            for _ in range(dimensions):
                here = is_slice and self.random.random() < 0.8
                slices += here
                target += f"[{self.bound()}:{self.bound()}]" if here else f"[{self.subscript()}]"
            value = self.pick("null", *ELEMENTS[column])
            if slices:
                value = self.pick("null", self.array(column), self.array(column), column)
        if not names_columns:
            target = target.replace("k", "1")
            value = "null" if value in ("x", "d", column) else value
        return target, value

    def parts(self, names_columns=True):
        """Targets and values, of which some are of one column."""
        columns = [self.random.choice(list(TYPES)) for _ in range(self.pick(1, 1, 2, 3))]
        chosen = [self.part(column, names_columns) for column in columns]
        if self.random.random() < 0.05:
            column = self.random.choice(columns)
            chosen.append((column, self.whole(column)))
        self.are_several = len(chosen) > 1
        return chosen

    def statement(self):
        self.are_several = False
        kind = self.random.random()
        if kind < 0.2:
            column = self.random.choice(list(TYPES))
            return f"update t set {column} = {self.whole(column)} where k = {self.pick(1, 2, 3)}"
        if kind < 0.75:
            items = ", ".join(f"{target} = {value}" for target, value in self.parts())
            return f"update t set {items} where k = {self.pick(1, 2, 3)}"
        if kind < 0.85:
            chosen = self.parts()
            targets = ", ".join(target for target, _ in chosen)
            values = ", ".join(value for _, value in chosen)
            return f"update t set ({targets}) = row({values}) where k = {self.pick(1, 2, 3)}"
        chosen = self.parts(names_columns=False)
        targets = "".join(f", {target}" for target, _ in chosen)
        values = "".join(f", {value}" for _, value in chosen)
        conflict = "do nothing"
        if self.random.random() < 0.6:
            self.are_several = True
            column = self.pick("i", "t")
            conflict = f"do update set {column}[1] = excluded.{column}[1], d['e'] = excluded.d"
        return (f"insert into t (k, x{targets}) values ({self.pick(1, 2, 3, 4)}, 1{values}) "
                f"on conflict (k) {conflict}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--statements", type=int, default=20_000)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--binary", default="target/release/rightlink")
    parser.add_argument("--show", type=int, default=20)
    parser.add_argument("--dir", default="/tmp")
    args = parser.parse_args()
    count = collections.Counter()
    ours = peer.Rightlink(args.binary, args.dir)
    theirs = peer.Postgres(args.dir, {"fsync": "off", "jit": "off"})
    try:
        both = [peer.Session(ours), peer.Session(theirs)]
        columns = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
        for session in both:
            session.must(f"create table t (k int primary key, x int, {columns})")
            session.must("insert into t (k, x) values (1, 10), (2, null), (3, 30)")
        maker = Maker(args.seed)
        for _ in range(args.statements):
            sql = maker.statement()
            answers = [session.run(sql) for session in both]
            rows = [session.run("select * from t order by k") for session in both]
            count["error" if answers[1][0] == "error" else "rows"] += 1
            if maker.are_several and answers[0][0] == answers[1][0] == "error":
                answers[0] = answers[1]
            if answers == [("error", "53200"), ("error", "XX000")]:
                # A document that is too large for any memory.
                answers[0] = answers[1]
            if answers[0] != answers[1] or rows[0] != rows[1]:
                count["different"] += 1
                if count["different"] <= args.show:
                    print(f"{sql}\n  ours:   {answers[0]} {rows[0][1]}\n"
                          f"  theirs: {answers[1]} {rows[1][1]}", flush=True)
                # The statements that follow begin with equal rows.
                for session in both:
                    session.must("delete from t")
                    session.must("insert into t (k, x) values (1, 10), (2, null), (3, 30)")
            both[0].run("delete from t where k > 3")
            both[1].run("delete from t where k > 3")
        for session in both:
            session.close()
        ours.verify()
    finally:
        ours.close()
        theirs.close()
    print(f"seed {args.seed}: {dict(count)}")
    return count["different"] != 0


if __name__ == "__main__":
    sys.exit(main())
