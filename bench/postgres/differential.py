#!/usr/bin/env python3
"""Random statements of one table, the same to `rightlink serve` and to PostgreSQL 15: every answer,
rows and error codes, must be equal.

    apt-get install postgresql-15; pip install 'psycopg[binary]'
    cargo build --release -p rightlink-cli
    bench/postgres/differential.py [--statements 100000] [--part 5000] [--seed 1] [--resume FILE]
        [--binary FILE] [--show 20]

Every part has fresh tables and statements of its own (seed 1 part 3 is `--seed 1.3`, alone), so that
a run can be stopped: with `--resume FILE`, parts that the file lists as done are not run again, and
those that get done are added to it, a line of JSON each.

Values lie at the limits of their types, are null, empty, or hardly differ; statements insert, change
and read, with operators, functions, casts, aggregates, groups, order, limits, constraints that break,
ON CONFLICT and RETURNING. Statements that we refuse with 0A000 are counted and left out. Equal seeds
give equal statements. Both sides end with the same rows, and ours is verified.

Some differences are known and counted by name (`explained`). Does not do: values that are equal and
look different (-0, 1.0 and 1.00) as groups; transactions of several sessions; several tables.
"""

import argparse
import collections
import json
import pathlib
import random
import re
import sys
import time

import peer

COLUMNS = {"id": "int", "i2": "smallint", "i4": "int", "i8": "bigint", "n": "numeric",
           "p": "numeric(8, 2)", "t": "text", "v": "varchar(5)", "c": "char(4)", "b": "boolean",
           "d": "date", "ts": "timestamp", "f8": "double precision", "u": "uuid"}
TABLE = """create table t (id int primary key, i2 smallint, i4 int check (i4 <> 13), i8 bigint,
 n numeric, p numeric(8, 2) default 1.5, t text, v varchar(5) unique, c char(4), b boolean,
 d date, ts timestamp, f8 double precision, u uuid, check (i2 > -32768 or i4 is null))"""
# What is read from one table is stored into columns of other types here.
OTHER = "create table k (i int, n numeric(8, 1), t text, c char(4))"
INDEXES = ["create index on t (i4, i8)", "create index on t (t)", "create index on t (c)",
           "create index on t (d desc)", "create index on t (n)", "create index on t using hash (i8)"]
LITERALS = {
    "int": ["0", "1", "-1", "2147483647", "-2147483648", "7", "13", "100"],
    "smallint": ["0", "1", "-1", "32767", "(-32768)", "5"],
    "bigint": ["0", "9223372036854775807", "(-9223372036854775808)", "-5", "4294967296", "3"],
    "numeric": ["0", "1.10", "-1.1", "1e20", "0.000000000000000000001", "99999999.995", "2.5"],
    "text": ["''", "'a'", "'A'", "'ab'", "'abc  '", "'ä'", "'%_'", "'0'", "'12'", "E'x\\ty'"],
    "boolean": ["true", "false"],
    "date": ["date '2000-01-01'", "date '1999-12-31'", "date '2024-02-29'", "date '0001-01-01'"],
    "timestamp": ["timestamp '2000-01-01 00:00:00'", "timestamp '2024-02-29 23:59:59.999999'"],
    "double precision": ["0::float8", "1e300::float8", "1e-300::float8", "0.1::float8",
                         "'NaN'::float8", "'infinity'::float8"],
    "uuid": ["'00000000-0000-0000-0000-000000000000'::uuid",
             "'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid"],
}
KIND = {"int": "int", "smallint": "smallint", "bigint": "bigint", "numeric": "numeric",
        "numeric(8, 2)": "numeric", "text": "text", "varchar(5)": "text", "char(4)": "text",
        "boolean": "boolean", "date": "date", "timestamp": "timestamp",
        "double precision": "double precision", "uuid": "uuid"}
NUMBERS = ["i2", "i4", "i8", "n", "p"]
TEXTS = ["t", "v", "c"]
COLUMN = r"\b(?:id|i2|i4|i8|n|p|t|v|c|b|d|ts|f8|u|excluded)\b"
ORDERED = ["id", "i2", "i4", "i8", "n", "p", "t", "v", "c", "d", "ts", "f8", "u", "b"]


class Maker:
    """Makes statements."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def one(self, of):
        return self.random.choice(of)

    def chance(self, percent):
        return self.random.randrange(100) < percent

    def literal(self, column):
        if self.chance(12):
            return "null"
        return self.one(LITERALS[KIND[COLUMNS[column]]])

    def value(self, column):
        if column == "id":
            return str(self.random.randrange(300))
        if column == "v" and self.chance(60):
            return f"'{self.random.randrange(400)}'"
        return self.literal(column)

    def number(self, depth=2):
        kind = self.random.randrange(8)
        if depth == 0 or kind < 3:
            return self.one([self.one(NUMBERS), self.one(LITERALS["int"]),
                             self.one(LITERALS["numeric"]), self.one(LITERALS["smallint"])])
        a, b = self.number(depth - 1), self.number(depth - 1)
        return self.one([f"({a} {self.one(['+', '-', '*', '/', '%'])} {b})", f"abs({a})",
                         f"coalesce({a}, {b})", f"nullif({a}, {b})", f"greatest({a}, {b})",
                         f"(case when {self.condition(0)} then {a} else {b} end)",
                         f"({a})::{self.one(['int', 'bigint', 'smallint', 'numeric(6, 1)', 'text'])}"
                         "::numeric", f"round({a}::numeric, {self.random.randrange(3)})",
                         f"sign({a})", f"floor({a})", f"trunc({a}::numeric, 1)", f"length({self.text(0)})"])

    def text(self, depth=2):
        if depth == 0 or self.chance(40):
            return self.one([self.one(TEXTS), self.one(LITERALS["text"])])
        a, b = self.text(depth - 1), self.text(depth - 1)
        return self.one([f"({a} || {b})", f"upper({a})", f"lower({a})", f"coalesce({a}, {b})",
                         f"substr({a}, {self.random.randrange(-2, 4)}, {self.random.randrange(0, 4)})",
                         f"replace({a}, 'a', {b})", f"rpad({a}, 3, 'x')", f"left({a}, 2)",
                         f"btrim({a})", f"({a})::varchar(2)", f"reverse({a})",
                         f"{self.one(NUMBERS)}::text", f"md5({a})", f"repeat({a}, 2)"])

    def condition(self, depth=2):
        if depth > 0 and self.chance(35):
            a, b = self.condition(depth - 1), self.condition(depth - 1)
            return self.one([f"({a} and {b})", f"({a} or {b})", f"(not {a})", f"(({a}) is true)"])
        column = self.one(ORDERED)
        compare = self.one(["=", "<>", "<", "<=", ">", ">="])
        return self.one([f"{column} {compare} {self.literal(column)}",
                         f"{column} is null", f"{column} is not null",
                         f"{column} between {self.literal(column)} and {self.literal(column)}",
                         f"{column} in ({self.literal(column)}, {self.literal(column)})",
                         f"{column} is distinct from {self.literal(column)}",
                         f"{self.number(min(depth, 1))} {compare} {self.number(min(depth, 1))}",
                         f"{self.text(min(depth, 1))} {compare} {self.text(min(depth, 1))}",
                         f"{self.text(min(depth, 1))} like {self.one(LITERALS['text'])}",
                         f"id = {self.random.randrange(300)}"])

    def select(self):
        where = f" where {self.condition()}" if self.chance(80) else ""
        kind = self.random.randrange(4)
        if kind == 0:
            column = self.one(ORDERED)
            call = self.one([f"min({self.one(NUMBERS + ['t', 'd', 'ts', 'c'])})", "count(*)",
                             f"sum({self.one(NUMBERS)})", f"avg({self.one(NUMBERS)})",
                             f"count(distinct {self.one(ORDERED)})", "bool_or(b)",
                             f"max({self.number(1)})"])
            having = f" having {call} is not null" if self.chance(20) else ""
            return f"select {column}, {call} from t{where} group by {column}{having} order by 1"
        items = ", ".join(self.one([self.one(ORDERED), self.number(), self.text(), self.condition(1)])
                          for _ in range(self.random.randrange(1, 4)))
        if kind == 1:
            return f"select distinct {self.one(ORDERED)} from t{where} order by 1"
        order = ", ".join(f"{self.one(ORDERED)} {self.one(['', 'desc', 'nulls first', 'desc nulls last'])}"
                          for _ in range(self.random.randrange(3)))
        order = f" order by {order + ', ' if order else ''}id"
        limit = f" limit {self.random.randrange(20)}" if self.chance(30) else ""
        return f"select {items} from t{where}{order}{limit}"

    def write(self):
        kind = self.random.randrange(10)
        returning = " returning id, " + self.one(ORDERED) if self.chance(30) else ""
        if kind < 5:
            columns = ["id"] + self.random.sample(ORDERED[1:], self.random.randrange(1, 8))
            rows = ", ".join("(" + ", ".join(self.value(c) for c in columns) + ")"
                             for _ in range(self.random.randrange(1, 3)))
            conflict = self.one(["", "", " on conflict do nothing", " on conflict (id) do nothing",
                                 " on conflict (id) do update set t = excluded.t, i4 = t.i4 + 1",
                                 " on conflict (v) do update set i8 = excluded.i8 where t.b"])
            return f"insert into t ({', '.join(columns)}) values {rows}{conflict}{returning}"
        where = f"id = {self.random.randrange(300)}" if self.chance(70) else self.condition()
        if kind < 9:
            column = self.one(ORDERED[1:])
            new = self.value(column)
            if column in NUMBERS:
                new = self.number()
            elif column in TEXTS and column != "v":
                new = self.text()
            return f"update t set {column} = {new} where {where}{returning}"
        return f"delete from t where id between {self.random.randrange(300)} and 0 or {where}" \
            if self.chance(30) else f"delete from t where id = {self.random.randrange(300)}{returning}"

    def stored(self):
        """Duplicates, groups, order and limit are of the values that are read."""
        column = self.one([name for name in ORDERED if name not in ("n", "f8")])
        where = f" where {self.condition(1)}" if self.chance(50) else ""
        limit = f" limit {self.random.randrange(9)}" if self.chance(50) else ""
        into = f"insert into k ({self.one(['i', 'n', 't', 'c'])}"
        if self.chance(30):
            return f"{into}, i) select {column}, count(*) from t{where} group by 1 order by 1{limit}"
        return f"{into}) select {self.one(['', 'distinct '])}{column} from t{where} order by 1{limit}"

    def statement(self):
        if self.chance(4):
            return self.stored()
        return self.select() if self.chance(60) else self.write()


def settled(answer, sql):
    """Rows in an order of their own where the statement gives none."""
    if answer[0] != "error" and "order by" not in sql and len(answer[1]) > 1:
        return answer[0], sorted(answer[1], key=str)
    return answer


CALLS = ("abs|coalesce|nullif|greatest|least|round|sign|floor|trunc|length|upper|lower|substr|replace|rpad"
         "|left|btrim|reverse|md5|repeat")
LITERAL = r"-?\d+(?:\.\d+)?|'(?:[^']|'')*'"
PROBE = "create table probe (" + ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items()) + ")"


def fails(session, query):
    answer = session.run(query)
    return answer[0] == "error" and answer[1].startswith("22")


def without_columns(part):
    """With nulls for columns outside of literals."""
    return re.sub(COLUMN + r"(?=[^']*(?:'[^']*'[^']*)*$)", "null", part)


def constant_fails(session, sql):
    """Does a part of the statement fail whatever the row is? `session` has the table `probe`."""
    assigned = re.match(r"update t set (\w+) = (.*) where ", sql)
    # A plain literal that a column of a declared length cannot hold fails early here too.
    plain = assigned and "(" in COLUMNS[assigned[1]] and re.fullmatch(LITERAL, assigned[2])
    if assigned and not plain:
        # With nulls for columns: what fails then does not wait for a row.
        value = without_columns(assigned[2])
        if fails(session, f"insert into probe ({assigned[1]}) select {value}"):
            return True
    starts = []
    for at, char in enumerate(sql):
        if char == "(":
            starts.append(at)
        elif char == ")" and starts:
            start = starts.pop()
            call = re.search(rf"\b(?:{CALLS})$", sql[:start])
            part = sql[call.start() if call else start:at + 1]
            # With nulls for columns: what fails then does not wait for a row either.
            part = without_columns(part)
            casts = re.match(r"(?:::\w+(?:\(\d+(?:, \d+)?\))?)*", sql[at + 1:])[0]
            if fails(session, f"select {part}") or fails(session, f"select {part}{casts}"):
                return True
    return False


def part_fails(session, sql, state):
    """Does a part of the condition fail in PostgreSQL when it is asked of every row?"""
    starts = []
    for at, char in enumerate(sql):
        if char == "(":
            starts.append(at)
        elif char == ")" and starts:
            start = starts.pop()
            call = re.search(rf"\b(?:{CALLS})$", sql[:start])
            part = sql[start:at + 1]
            whole = sql[call.start() if call else start:at + 1]
            for one in [whole, *re.split(" and | or ", part[1:-1])]:
                if session.run(f"select {one} from t") == ("error", state):
                    return True
    return False


def explained(mine, other, sql, session):
    """The name of a difference that is known, if it is one."""
    if mine == other:
        return None
    ours, theirs = mine[0] == "error", other[0] == "error"
    # PostgreSQL evaluates constants when it plans, also where no row needs them.
    if theirs and other[1].startswith("22") and not ours and constant_fails(session, sql):
        return "constant evaluated early"
    # Of several errors that rows have, one comes first.
    if ours and theirs and {mine[1][:2], other[1][:2]} <= {"22", "23"}:
        if not sql.startswith("select") or mine[1][:2] == other[1][:2] == "22":
            return "another error first"
    # What is selected may be left out where a limit leaves out the row.
    if " limit " in sql and ours != theirs and (mine if ours else other)[1].startswith("22"):
        return "evaluated beyond the limit"
    # Parts of a condition are asked in whatever order, and not at all where a constant null decides;
    # one fails that another one would spare.
    if ours and not theirs and mine[1].startswith("22") and part_fails(session, sql, mine[1]):
        return "another part of the condition first"
    # Which of several equal numbers stands for its group is nobody's promise.
    if not ours and not theirs and re.search(r" group by |distinct [np]\b|(min|max)\(", sql):
        if rounded(mine) == rounded(other):
            return "another of equal numbers"
    return None


def rounded(answer):
    """Rows with numbers without zeros at their ends."""
    def plain(value):
        if value and re.fullmatch(r"-?\d+\.\d+", value):
            return value.rstrip("0").rstrip(".")
        return value
    return answer[0], [[plain(value) for value in row] for row in answer[1]]


def prepare(sessions):
    for sql in ["drop table if exists t, k", TABLE, OTHER, *INDEXES]:
        for session in sessions:
            answer = session.run(sql)
            if answer[0] == "error":
                raise SystemExit(f"{sql}: {answer}")


def run_part(sessions, name, statements, show):
    """How many answers of each kind there were."""
    count = collections.Counter()
    prepare(sessions)
    maker = Maker(name)
    for at in range(statements):
        sql = maker.statement()
        mine = settled(sessions[0].run(sql), sql)
        if mine == ("error", "0A000"):
            count["refused"] += 1
            continue
        other = settled(sessions[1].run(sql), sql)
        count["error" if other[0] == "error" else "rows"] += 1
        reason = explained(mine, other, sql, sessions[1])
        if reason:
            count[reason] += 1
        elif mine != other:
            count["different"] += 1
            if count["different"] <= show:
                print(f"{name} {at}: {sql}\n  ours:   {str(mine)[:300]}\n  theirs: {str(other)[:300]}",
                      flush=True)
        wrote = any(answer[0] != "error" and not answer[0].endswith(" 0") for answer in (mine, other))
        if not sql.startswith("select") and "error" in (mine[0], other[0]) and wrote:
            # The tables differ from here on: make them equal.
            for session in sessions:
                session.run("delete from t")
                session.run("delete from k")
    for query in ["select * from t order by id", "select * from k order by i, n, t, c"]:
        final = [session.run(query) for session in sessions]
        if final[0] != final[1]:
            count["different"] += 1
            print(f"{name}: the tables differ at the end: {query}", flush=True)
    return count


def parts_of(args):
    """Names of the parts and how many statements each has."""
    if "." in args.seed:
        return [(args.seed, min(args.part, args.statements))]
    starts = range(0, args.statements, args.part)
    return [(f"{args.seed}.{at}", min(args.part, args.statements - start))
            for at, start in enumerate(starts)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--statements", type=int, default=100_000)
    parser.add_argument("--part", type=int, default=5_000)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--resume")
    parser.add_argument("--binary", default="target/release/rightlink")
    parser.add_argument("--show", type=int, default=20)
    parser.add_argument("--dir", default="/tmp")
    args = parser.parse_args()
    done = {}
    if args.resume and pathlib.Path(args.resume).exists():
        lines = pathlib.Path(args.resume).read_text(encoding="utf-8").splitlines()
        done = {one["part"]: one for one in map(json.loads, lines)}
    total = collections.Counter()
    settings = {"fsync": "off", "timezone": "'UTC'", "jit": "off"}
    ours, theirs = peer.Rightlink(args.binary, args.dir), peer.Postgres(args.dir, settings)
    try:
        sessions = [peer.Session(ours), peer.Session(theirs)]
        # Nobody kills either here.
        sessions[0].run("set synchronous_commit = off")
        sessions[1].run(PROBE)
        for name, statements in parts_of(args):
            known = done.get(name)
            if known and known["statements"] == statements:
                total.update(known["count"])
                continue
            start = time.monotonic()
            count = run_part(sessions, name, statements, args.show)
            seconds = time.monotonic() - start
            total.update(count)
            print(f"part {name}: {statements / seconds:.0f} statements/s, {dict(count)}", flush=True)
            if args.resume:
                with open(args.resume, "a", encoding="utf-8") as out:
                    out.write(json.dumps({"part": name, "statements": statements,
                                          "seconds": round(seconds, 1), "count": count}) + "\n")
        for session in sessions:
            session.close()
        ours.verify()
    finally:
        ours.close()
        theirs.close()
    print(f"seed {args.seed}: {dict(total)}")
    return total["different"] != 0


if __name__ == "__main__":
    sys.exit(main())
