#!/usr/bin/env python3
"""Random queries over several tables, the same to `rightlink serve` and to PostgreSQL 15: every
answer, rows and error codes, must be equal.

    apt-get install postgresql-15; pip install 'psycopg[binary]'
    cargo build --release -p rightlink-cli
    bench/postgres/relational.py [--statements 20000] [--part 2000] [--seed 1] [--first 0]
        [--binary FILE] [--show 20]

Queries join up to four sources (tables, derived tables, lists, series, common table expressions) by
inner, outer and cross joins, with ON, USING and NATURAL, and LATERAL; they have subqueries in all
places, correlated ones too, groups, also by sets of keys, aggregates whose rows have an order,
functions that give rows, window functions, set operations, WITH and WITH RECURSIVE,
DISTINCT, order and limits. Rows are compared as bags, or in their order where that is total.
Sources are views, too, of one table, of a join, of groups and of another view. Statements that read
are asked of us again under each list of settings that forces an operator, and with memory so small
that operators use files; these answers must be equal, too. Statements that write read other tables
in subqueries, FROM and USING, write through views, write in WITH, and make tables of queries.
Statements that we refuse with 0A000 are told, counted and left out. Equal seeds give equal statements;
ours is verified at the end.

Tables have 12 to 30 rows, and 60 to 150 in one part of a hundred. Answers of more than 5,000 rows
are compared once, without forced operators.

Tables have columns of arrays, which functions, subscripts, operators, ANY, ALL and unnest take, and
of decimals, dates, texts and truths, over which CASE, long lists and arithmetic go. Catalogs are
sources, too. Each query is asked again in batches of one and of two rows.

Does not do: MERGE; transactions of several sessions.
"""

import argparse
import collections
import random
import re
import sys
import time

import peer

TABLES = {
    "a": {"id": "int", "x": "int", "y": "bigint", "t": "text", "l": "int[]"},
    "b": {"id": "int", "a_id": "int", "x": "smallint", "t": "text", "m": "text[]"},
    "c": {"id": "int", "b_id": "int", "n": "numeric", "x": "int"},
    "d": {"x": "int", "t": "text"},
    "e": {"id": "int", "x": "int", "m": "numeric", "w": "date", "t": "text", "f": "boolean"},
}
SETUP = [
    "create table a (id int primary key, x int, y bigint, t text, l int[])",
    "create table b (id int primary key, a_id int, x smallint, t text, m text[])",
    "create table c (id int primary key, b_id int, n numeric, x int)",
    "create table d (x int, t text)",
    "create table e (id int primary key, x int, m numeric(14,3), w date, t text, f boolean)",
    "create index on e (w)", "create index on e (t, x)",
    "create index on b (a_id)", "create index on c (b_id, x)", "create index on a (x)",
    "insert into a select g, case when g % 7 = 0 then null else g % 9 end, g * 3 % 11,"
    " case when g % 5 = 0 then null else 't' || g % 6 end, case when g % 9 = 0 then null when g % 10 = 1 then '{}'"
    " when g % 11 = 3 then array[null, g % 5] else array[g % 4, g % 7, g % 3] end"
    " from generate_series(1, 60) g",
    "insert into b select g, case when g % 6 = 0 then null else g * 7 % 70 end, g % 5,"
    " case when g % 4 = 0 then null else 't' || g % 8 end, case when g % 7 = 0 then null"
    " else array['t' || g % 5, 't' || g % 3] end from generate_series(1, 90) g",
    "insert into c select g, case when g % 8 = 0 then null else g * 5 % 100 end, g % 10 / 4.0, g % 9"
    " from generate_series(1, 120) g",
    "insert into e select g, case when g % 11 = 0 then null else g * 7 % 13 end,"
    " case when g % 12 = 0 then null else g * 1234567 % 10007 / 8.0 - 300 end,"
    " case when g % 10 = 3 then null else date '1999-12-25' + g * 5 % 40 end,"
    " case when g % 6 = 5 then null else repeat('t', g % 3) || g % 8 end,"
    " case when g % 5 = 2 then null else g % 3 = 0 end from generate_series(1, 150) g",
    "insert into d values (1, 't1'), (2, null), (null, 't3'), (2, 't2'), (2, 't2'), (null, null)",
]
# Each makes the planner choose other operators.
FORCED = [
    "set enable_hashjoin = off",
    "set enable_nestloop = off",
    "set enable_hashjoin = off; set enable_indexscan = off; set enable_indexonlyscan = off",
    "set enable_seqscan = off",
    "set join_collapse_limit = 1; set enable_sort = off; set work_mem = '64kB'",
    "set batch_rows = 1",
    "set batch_rows = 2; set enable_hashjoin = off; set work_mem = '64kB'",
]
# Parts of which one has tables of the size above, the others of a fifth.
LARGE_EVERY = 100
MOST_ROWS = 5_000
VIEWS = {
    "va": {"id": "int", "x": "int", "y": "bigint", "t": "text"},
    "vb": {"id": "int", "a_id": "int", "x": "smallint", "t": "text"},
    "vc": {"x": "int", "n": "bigint"},
    "vv": {"k": "int", "y": "bigint"},
}
VIEW_SETUP = [
    "create view va as select * from a where x > 2 or x is null",
    "create view vb (id, a_id, x, t) as select b.id, a.id, b.x, a.t from b left join a on a.id = b.a_id",
    "create view vc as select x, count(*) as n from c where n > 0 group by x",
    "create view vv (k, y) as select id, y from va where id % 3 <> 0 with check option",
]
# Catalogs, as far as both have the same rows.
CATALOGS = [
    ("select relname::text as t, relnatts as x, relkind = 'r' as r from pg_class"
     " where relname in ('a', 'b', 'c', 'd', 'a_pkey', 'va')", {"t": "text", "x": "smallint"}),
    ("select attname::text as t, attnum as x, atttypmod as y from pg_attribute"
     " where attrelid = 'a'::regclass and attnum > 0", {"t": "text", "x": "smallint", "y": "int"}),
    ("select column_name::text as t, ordinal_position as x from information_schema.columns"
     " where table_name = 'b'", {"t": "text", "x": "int"}),
    ("select i.relname::text as t, k as x from pg_index join pg_class i on i.oid = indexrelid,"
     " unnest(indkey) k where indrelid = 'c'::regclass", {"t": "text", "x": "smallint"}),
    ("select t.typname::text as t, count(*) as x from pg_type t join pg_attribute a"
     " on a.atttypid = t.oid join pg_class c on c.oid = a.attrelid where c.relname ~ '^[a-d]$'"
     " and a.attnum > 0 group by t.typname", {"t": "text", "x": "bigint"}),
]
NUMBERS = {"int", "bigint", "smallint", "numeric"}


class Source:
    """What stands in FROM, under its alias, and the columns it has."""

    def __init__(self, text, alias, columns):
        self.text, self.alias, self.columns = text, alias, columns


class Maker:
    """Makes queries."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.aliases = 0
        self.common = []

    def one(self, of):
        return self.random.choice(list(of))

    def chance(self, percent):
        return self.random.randrange(100) < percent

    def alias(self):
        self.aliases += 1
        return f"s{self.aliases}"

    # Sources.

    def source(self, depth, outer, lateral=None):
        alias = self.alias()
        kind = self.random.randrange(12)
        if kind < 7 or depth <= 0:
            name = self.one([*TABLES, *TABLES, *VIEWS])
            return Source(f"{name} {alias}", alias, dict({**TABLES, **VIEWS}[name]))
        if kind == 7 and self.common:
            name, columns = self.one(self.common)
            return Source(f"{name} {alias}", alias, dict(columns))
        if kind == 8:
            rows = ", ".join(f"({self.random.randrange(9)}, {self.one(['null', chr(39) + 't1' + chr(39)])})"
                             for _ in range(3))
            return Source(f"(values {rows}) {alias} (x, t)", alias, {"x": "int", "t": "text"})
        if kind == 9:
            high = self.random.randrange(6)
            return Source(f"generate_series(1, {high}) {alias} (x)", alias, {"x": "int"})
        if kind == 10 and self.chance(50):
            array = self.array((lateral or []) + outer, [], 1)
            return Source(f"unnest({array}) with ordinality {alias} (x, n)", alias,
                          {"x": "int", "n": "bigint"})
        if kind == 11 and self.chance(50):
            text, columns = self.one(CATALOGS)
            return Source(f"({text}) {alias}", alias, dict(columns))
        if lateral and self.chance(40):
            text, columns = self.select(depth - 1, outer + lateral, plain=True)
            return Source(f"lateral ({text}) {alias}", alias, columns)
        text, columns = self.select(depth - 1, outer, plain=True)
        return Source(f"({text}) {alias}", alias, columns)

    def sources(self, depth, outer):
        """FROM, and what may be named of it."""
        first = self.source(depth, outer)
        text, scope = first.text, [first]
        for _ in range(self.random.randrange(4 if depth > 1 else 2)):
            if self.chance(20):
                other = self.source(depth, outer, scope)
                text, scope = f"{text} cross join {other.text}", scope + [other]
                continue
            kind = self.one(["join", "left join", "left join", "right join", "full join", "join"])
            lateral = scope if kind in ("join", "left join") else None
            other = self.source(depth, outer, lateral)
            shared = [name for name in other.columns
                      if sum(name in source.columns for source in scope) == 1]
            if shared and self.chance(15) and kind != "full join":
                # What USING names is named without a source from here on.
                name = self.one(shared)
                text = f"{text} {kind} {other.text} using ({name})"
                scope = scope + [other]
                continue
            on = self.tie(scope, other, outer, depth, kind == "full join")
            text, scope = f"{text} {kind} {other.text} on {on}", scope + [other]
        return text, scope

    def tie(self, scope, other, outer, depth, only_equal):
        left, right = self.one(scope), other
        a = self.column([left], "int") or "1"
        b = self.column([right], "int") or "1"
        equal = f"{a} = {b}"
        if only_equal:
            # PostgreSQL has no way for a full join without an equality.
            if "." not in a or "." not in b:
                return "1 = 1"
            return equal
        if self.chance(60):
            return equal
        if self.chance(40):
            return f"{equal} and {self.condition(scope + [other], outer, depth - 1)}"
        return self.condition(scope + [other], outer, depth - 1)

    # Expressions.

    def column(self, scope, kind):
        wanted = NUMBERS if kind == "int" else {kind}
        found = [f"{source.alias}.{name}" for source in scope
                 for name, ty in source.columns.items() if ty in wanted]
        return self.one(found) if found else None

    def number(self, scope, outer, depth):
        if outer and self.chance(20):
            scope = outer
        column = self.column(scope, "int")
        if depth <= 0 or self.chance(50):
            if column and self.chance(75):
                return column
            return self.one(["0", "1", "2", "5", "null::int"])
        a, b = self.number(scope, outer, depth - 1), self.number(scope, outer, depth - 1)
        if self.chance(15):
            array = self.array(scope, outer, depth - 1)
            return self.one([f"({array})[2]", f"cardinality({array})", f"array_length({array}, 1)",
                             f"array_position({array}, 2)", f"({array})[({a})::int]",
                             f"array_upper({array}, 1)",
                             f"(select sum(u) from unnest({array}) u)"])
        if self.chance(15):
            return self.scalar(scope + outer, depth - 1)
        if self.chance(25):
            return self.by_columns(scope, outer, depth, (a, b))
        return self.one([f"({a} + {b})", f"({a} - {b})", f"coalesce({a}, {b})", f"nullif({a}, {b})",
                         f"(case when {self.condition(scope, outer, 0)} then {a} else {b} end)",
                         f"abs({a})"])

    def by_columns(self, scope, outer, depth, numbers):
        """What is computed a column at a time, and what lies beside it."""
        a, b = numbers
        text, day = self.text(scope, outer, depth - 1), self.day(scope, outer)
        arms = " ".join(f"when {self.condition(scope, outer, 0)} then {self.number(scope, outer, 0)}"
                        for _ in range(self.random.randrange(1, 4)))
        rest = self.one(["", f" else {b}", f" else {b} / 1"])
        return self.one([f"(case {arms}{rest} end)", f"({a} * 3)", f"({a} % 7)", f"({a} / 4)",
                         f"(-({a}))", f"({a} * {b} % 1000)", f"({a} * 1.25 - {b})::numeric(20,2)",
                         f"round({a} / 3.0, 2)", f"greatest({a}, {b}, 3)", f"least({a}, {b})",
                         f"({day} - date '2000-01-01')", f"extract(day from {day})",
                         f"extract(month from {day})::int", f"length({text})", f"ascii({text})",
                         f"(case {a} when 1 then {b} when {b} then 2 end)", f"({a})::int",
                         f"(({a})::text)::numeric", f"(100 / {a})", f"sign({a})", f"trunc({a})",
                         f"position('t' in {text})", f"({a})::bigint / 3", f"({a})::numeric % 2.5"])

    def text(self, scope, outer, depth):
        column = self.column(scope + outer, "text") or "'t2'"
        if depth <= 0 or self.chance(50):
            return column
        a, b = self.text(scope, outer, depth - 1), self.text(scope, outer, depth - 1)
        number = self.number(scope, outer, 0)
        return self.one([f"({a} || {b})", f"upper({a})", f"substr({a}, 2)", f"coalesce({a}, {b})",
                         f"({number})::text", f"left({a}, 1)", f"replace({a}, 't', 'uu')",
                         f"(case when {a} > {b} then {a} end)", f"concat({a}, {number}, {b})",
                         f"substring({a} from 1 for 2)", f"lpad({a}, 3, '-')", f"nullif({a}, {b})"])

    def day(self, scope, outer):
        column = self.column(scope + outer, "date") or "date '2000-01-03'"
        number = f"({self.number(scope, outer, 0)})::int % 50"
        return self.one([column, column, f"({column} + {number})", f"({column} - 3)",
                         f"coalesce({column}, date '1999-12-31')", "null::date",
                         f"greatest({column}, date '2000-01-01')"])

    def typed_condition(self, scope, outer, depth):
        """Of dates, texts, decimals and truths."""
        compare = self.one(["=", "<>", "<", "<=", ">", ">="])
        text, day = self.text(scope, outer, depth), self.day(scope, outer)
        truth = self.column(scope + outer, "boolean") or "true"
        items = [str(self.random.randrange(-3, 60)) for _ in range(self.random.randrange(1, 40))]
        many = ", ".join(items + self.one([[], [], ["null"]]))
        words = ", ".join(f"'{'t' * (at % 3)}{at}'" for at in range(self.random.randrange(1, 12)))
        number, other = self.number(scope, outer, 1), self.number(scope, outer, 0)
        negated = self.one(["", "not "])
        return self.one([f"{day} {compare} {self.day(scope, outer)}",
                         f"{day} {compare} date '2000-01-0{self.random.randrange(1, 9)}'",
                         f"{day} between date '1999-12-28' and {self.day(scope, outer)}",
                         f"{day} {negated}in (date '1999-12-30', date '2000-01-04', {day})",
                         f"{text} {compare} {self.text(scope, outer, 0)}",
                         f"{text} {negated}in ({words})", f"{text} {negated}like 't_%'",
                         f"{text} ~ '^t+[0-3]'", f"{truth}", f"{negated}{truth}",
                         f"{truth} is {negated}true", f"{truth} is distinct from {number} > 2",
                         f"{number} {negated}in ({many})", f"{number} = any('{{{many}}}')",
                         f"{number} <> all(array[{', '.join(items)}])",
                         f"{number} {negated}in ({many}, {other})",
                         f"{number} {compare} {other} * 0.5", f"{text} is null",
                         f"case when {truth} then {number} > 1 else {day} is null end"])

    def array(self, scope, outer, depth):
        column = self.column(scope + outer, "int[]")
        if depth <= 0 or self.chance(40):
            if column and self.chance(80):
                return column
            return self.one(["'{1,2}'::int[]", "'{}'::int[]", "array[1, null, 5]", "null::int[]",
                             "'[0:1]={3,4}'::int[]", "array[2, 0]"])
        array = self.array(scope, outer, depth - 1)
        number = f"({self.number(scope, outer, 0)})::int"
        return self.one([f"({array} || {number})", f"array_remove({array}, {number})",
                         f"({array})[1:2]", f"({array})[2:]", f"array_replace({array}, {number}, 9)",
                         f"array[{number}, 3]", f"array_prepend({number}, {array})",
                         f"array_cat({array}, {self.array(scope, outer, 0)})",
                         f"array(select u + 1 from unnest({array}) u order by u)",
                         f"(select array_agg(u order by u) from unnest({array}) u)",
                         f"(select array_agg(distinct u) from unnest({array}) u)"])

    def array_condition(self, scope, outer, depth):
        array, other = self.array(scope, outer, depth), self.array(scope, outer, 0)
        number = self.number(scope, outer, 0)
        compare = self.one(["=", "<>", "<", "<=", ">", ">="])
        texts = self.column(scope + outer, "text[]")
        if texts and self.chance(30):
            return self.one([f"'t1' = any({texts})", f"{texts} && array['t2', 't4']",
                             f"{texts}[1] {compare} 't2'", f"'t3' {compare} all({texts})",
                             f"array_to_string({texts}, ',') like '%t1%'"])
        return self.one([f"{number} {compare} any({array})", f"{number} {compare} all({array})",
                         f"{number} = any({array})", f"{array} {compare} {other}",
                         f"{array} @> {other}", f"{array} <@ {other}", f"{array} && {other}",
                         f"{array} is null", f"{array} is distinct from {other}",
                         f"{number} <> all('{{1,2,5}}')", f"{array} = '{{1,2}}'",
                         f"{array} in ({other}, array[1, 2])"])

    def scalar(self, around, depth):
        call = self.one(["count(*)", "max", "min", "sum"])
        text, inner = self.sources(min(depth, 0), around)
        if call != "count(*)":
            call = f"{call}({self.column(inner, 'int') or '1'})"
        where = f" where {self.condition(inner, around, 0)}" if self.chance(80) else ""
        return f"(select {call} from {text}{where})"

    def condition(self, scope, outer, depth):
        if depth > 0 and self.chance(35):
            a, b = self.condition(scope, outer, depth - 1), self.condition(scope, outer, depth - 1)
            return self.one([f"({a} and {b})", f"({a} or {b})", f"(not {a})", f"(({a}) is true)"])
        if depth > 0 and self.chance(25):
            return self.query_condition(scope, outer, depth - 1)
        if self.chance(15):
            return self.array_condition(scope, outer, depth)
        if self.chance(25):
            return self.typed_condition(scope, outer, min(depth, 1))
        compare = self.one(["=", "=", "<>", "<", "<=", ">", ">="])
        text = self.column(scope, "text")
        if text and self.chance(25):
            other = self.column(scope + outer, "text")
            return self.one([f"{text} {compare} {other}", f"{text} {compare} 't3'", f"{text} is null",
                             f"{text} like 't%'", f"{text} is not null"])
        a = self.number(scope, outer, min(depth, 1))
        b = self.number(scope, outer, 0)
        return self.one([f"{a} {compare} {b}", f"{a} is null", f"{a} in (1, 2, 5)",
                         f"{a} is distinct from {b}", f"{a} between 1 and {b}"])

    def query_condition(self, scope, outer, depth):
        around = scope + outer
        text, inner = self.sources(min(depth, 0), around)
        condition = self.condition(inner, around, 0)
        tie = f"{self.column(inner, 'int') or '1'} = {self.column(scope, 'int') or '1'}"
        where = self.one([f" where {condition}", f" where {tie}", f" where {tie} and {condition}", ""])
        negated = self.one(["", "", "not "])
        value = self.number(scope, [], 0)
        item = self.column(inner, "int") or "1"
        op = self.one(["=", "<>", "<", ">="])
        return self.one([f"{negated}exists (select 1 from {text}{where})",
                         f"{value} {negated}in (select {item} from {text}{where})",
                         f"{value} {op} any (select {item} from {text}{where})",
                         f"{value} {op} all (select {item} from {text}{where})",
                         f"({value}, {value}) {negated}in (select {item}, {item} from {text}{where})"])

    def windowed(self, scope, outer):
        """A window function whose value does not depend on the order of equal rows."""
        value = self.number(scope, outer, 1)
        partition = ""
        if self.chance(60):
            key = self.column(scope, self.one(["int", "text"])) or self.number(scope, outer, 0)
            partition = f"partition by {key} "
        way = self.one(["", " desc", " nulls first", " desc nulls last"])
        # By all columns: rows that are equal in all of them may change places.
        total = ", ".join(f"{source.alias}.{name}{way}"
                          for source in scope for name in source.columns)
        by = self.column(scope, "int")
        bounds = ["unbounded preceding", "2 preceding", "1 preceding", "current row", "1 following",
                  "3 following", "unbounded following"]
        first, last = sorted(self.random.sample(range(len(bounds)), 2))
        # What is excluded moves among rows that are equal in the order, where there are such.
        excluded = self.one(["", "", " exclude group", " exclude no others"])
        frame = f"between {bounds[first]} and {bounds[last]}{excluded}"
        aggregate = self.one(["count(*)", f"count({value})", f"sum({value})", f"min({value})",
                              f"max({value})", f"sum({value}) filter (where {value} > 1)"])
        call = self.one(["row_number()", f"lag({value})", f"lead({value}, 2, 7)",
                         f"first_value({value})", f"last_value({value})", f"nth_value({value}, 2)",
                         "ntile(4)", aggregate, aggregate])
        kind = self.random.randrange(4)
        if kind == 0 and by:
            call = self.one(["rank()", "dense_rank()", "percent_rank() * 1000",
                             "cume_dist() * 1000", aggregate])
            call, _, scale = call.partition(" * ")
            over = f"({partition}order by {by}{way})"
            return f"{call} over {over}" + (f" * {scale}" if scale else "")
        if kind == 1 and by:
            units = self.one(["range", "groups"])
            return f"{aggregate} over ({partition}order by {by}{way} {units} {frame})"
        rows = f" rows {frame}" if self.chance(70) else ""
        return f"{call} over ({partition}order by {total}{rows})"

    # Queries.

    def select(self, depth, outer, plain=False):
        """A query and its columns by name."""
        if depth > 0 and self.chance(15):
            return self.set_operation(depth, outer)
        text, scope = self.sources(depth, outer)
        where = f" where {self.condition(scope, outer, depth)}" if self.chance(65) else ""
        if self.chance(25):
            return self.grouped(text, scope, where, outer)
        columns, items = {}, []
        for at in range(self.random.randrange(1, 4)):
            name = f"v{at}"
            if self.chance(6):
                items.append(f"{self.rows_of(scope, outer)} as {name}")
                columns[name] = "bigint"
            elif self.chance(25) and self.column(scope, "text"):
                items.append(f"{self.column(scope, 'text')} as {name}")
                columns[name] = "text"
            elif self.chance(12):
                of, kind = self.one([(self.text, "text"), (self.day, "date")])
                items.append(f"{of(scope, outer, *([1] if of == self.text else []))} as {name}")
                columns[name] = kind
            elif self.chance(12):
                items.append(f"{self.array(scope, outer, 1)} as {name}")
                columns[name] = "int[]"
            elif self.chance(15):
                items.append(f"({self.windowed(scope, outer)})::bigint as {name}")
                columns[name] = "bigint"
            else:
                items.append(f"{self.number(scope, outer, 1)}::bigint as {name}")
                columns[name] = "bigint"
        distinct = "distinct " if self.chance(12) else ""
        query = f"select {distinct}{', '.join(items)} from {text}{where}"
        if self.chance(20 if plain else 30):
            # Total, so that a limit cuts the same rows off.
            query += f" order by {', '.join(columns)}"
            if self.chance(50):
                query += f" limit {self.random.randrange(6)}"
            if self.chance(15):
                query += f" offset {self.random.randrange(4)}"
        return query, columns

    def rows_of(self, scope, outer):
        """A function that gives rows."""
        # PostgreSQL drops such a function where a constant null stands beside it.
        number = f"(abs(coalesce({self.number(scope, outer, 0)}, 0)) % 4)::bigint"
        return self.one([f"generate_series(1, {number})", f"generate_series(2, {number}, -1)",
                         f"generate_series(1, generate_series(0, {number}))",
                         f"generate_series(1::bigint, 3) * {number}",
                         "string_to_table('1,2', ',')::bigint"])

    def ordered_call(self, scope, of):
        """An aggregate whose rows have an order, the same whichever way equal ones come."""
        text = self.column(scope, "text") or "'t'::text"
        way = self.one(["", " desc", " desc nulls last", " nulls first"])
        part = self.one(["0", "0.25", "0.5", "0.9", "1"])
        return self.one([
            f"length(string_agg({text}, ',' order by {text}{way}))",
            f"md5(string_agg(distinct {text}, ',' order by {text}{way}))",
            f"md5(string_agg({text} || {of}, ',' order by {text}{way}, {of}) filter (where {of} > 1))",
            f"(percentile_cont({part}) within group (order by {of}{way}) * 1000)::bigint",
            f"percentile_disc({part}) within group (order by {of}{way})",
            f"percentile_disc({part}) within group (order by {text}{way})",
            f"mode() within group (order by {of}{way})",
            f"rank(3) within group (order by {of}{way})",
            f"dense_rank(3, 't2') within group (order by {of}{way}, {text})",
            f"(cume_dist(2) within group (order by {of}{way}) * 1000)::bigint",
            f"(percent_rank(2) within group (order by {of}{way}) * 1000)::bigint",
            f"variance({of})", f"stddev_pop({of})", f"var_pop({of}::numeric / 7)",
            f"stddev(distinct {of})", f"bit_xor({of}::bigint)", f"bit_or({of}::bigint)",
            f"regr_count({of}, {of})", f"count(distinct {of} order by {of})"])

    def by_sets(self, text, scope, where):
        """Groups by sets of keys."""
        keys = [self.column(scope, kind) or "1 + 1" for kind in ("int", "text", "int")]
        a, b, c = keys
        sets = self.one([f"rollup ({a}, {b})", f"cube ({a}, {b})", f"{c}, rollup ({a}, {b})",
                         f"grouping sets (({a}), ({b}, {c}), ())", f"rollup ({a}), cube ({b}, {c})",
                         f"grouping sets ({a}, rollup ({b}, {c}), cube ({a}))",
                         f"distinct rollup ({a}, {b}), rollup ({a}, {c})", f"rollup (({a}, {b}), {c})"])
        shown = [key for key in dict.fromkeys(keys) if key in sets]
        call = self.one(["count(*)", f"sum({a})", f"count(distinct {b})", self.ordered_call(scope, a)])
        # PostgreSQL 15 asks a constant key in HAVING as the constant, never as null.
        asked = next((key for key in shown if key != "1 + 1"), None)
        not_null = f" having {asked} is not null" if asked else ""
        having = self.one(["", "", f" having count(*) > {self.random.randrange(3)}",
                           f" having grouping({shown[0]}) = 0", not_null])
        return (f"select {', '.join(shown)}, {call}, grouping({', '.join(shown)}) from {text}{where}"
                f" group by {sets}{having}")

    def grouped(self, text, scope, where, outer):
        key = self.column(scope, self.one(["int", "text", "int[]"])) or "1 + 1"
        of = self.column(scope, "int") or "1"
        if outer is None:
            return f"select {key}, {self.ordered_call(scope, of)} from {text}{where} group by {key}"
        calls = [self.one(["count(*)", f"count({of})", f"sum({of})", f"min({of})", f"max({of})",
                           f"count(distinct {of})", f"count(*) filter (where {of} > 2)"])
                 for _ in range(self.random.randrange(1, 3))]
        items = [f"{key} as k"] + [f"({call})::bigint as g{at}" for at, call in enumerate(calls)]
        having = f" having {calls[0]} > {self.random.randrange(3)}" if self.chance(30) else ""
        kind = "text" if key.endswith(".t") or key.split(".")[-1] == "t" else "numeric"
        if any(f"{source.alias}.{name}" == key and ty == "text"
               for source in scope for name, ty in source.columns.items()):
            kind = "text"
        if any(f"{source.alias}.{name}" == key and ty == "int[]"
               for source in scope for name, ty in source.columns.items()):
            kind = "int[]"
        columns = {"k": kind, **{f"g{at}": "bigint" for at in range(len(calls))}}
        return f"select {', '.join(items)} from {text}{where} group by {key}{having}", columns

    def set_operation(self, depth, outer):
        sides = []
        for _ in range(self.random.randrange(2, 4)):
            text, scope = self.sources(depth - 1, outer)
            where = f" where {self.condition(scope, outer, depth - 1)}" if self.chance(60) else ""
            number = self.number(scope, outer, 0)
            name = self.column(scope, "text") or "null::text"
            sides.append(f"select {number}::bigint as v0, {name} as v1 from {text}{where}")
        ops = [self.one(["union", "union all", "intersect", "except", "except all", "intersect all"])
               for _ in sides[1:]]
        query = sides[0]
        for op, side in zip(ops, sides[1:]):
            query = f"{query} {op} {side}"
        if self.chance(30):
            query += f" order by v0, v1 limit {self.random.randrange(8)}"
        return query, {"v0": "bigint", "v1": "text"}

    def with_query(self):
        self.common = []
        parts = []
        for at in range(self.random.randrange(1, 3)):
            name = f"w{at}"
            if self.chance(25):
                high = self.random.randrange(2, 12)
                parts.append(f"{name} (x, s) as (select 1, 1 union all select x + 1, s * 2 from {name}"
                             f" where x < {high})")
                columns = {"x": "int", "s": "int"}
            else:
                text, columns = self.select(1, [], plain=True)
                kept = self.one(["", "materialized ", "not materialized "])
                parts.append(f"{name} as {kept}({text})")
            self.common.append((name, columns))
        text, _ = self.select(2, [])
        self.common = []
        return f"with recursive {', '.join(parts)} {text}"

    def write(self):
        table = self.one(["a", "b", "c"])
        scope = [Source(table, table, {n: t for n, t in TABLES[table].items() if t in NUMBERS})]
        condition = self.condition(scope, [], 2)
        target = {"a": "x", "b": "a_id", "c": "x"}[table]
        value = self.scalar(scope, 0)
        other = self.source(1, [])
        joined = self.condition(scope + [other], [], 1)
        # A row that has several partners gets the same value from each.
        if table == "a" and self.chance(30):
            array = self.array([Source("a", "a", TABLES["a"])], [], 2)
            return f"update a set l = {array} where {condition} returning id, l, l[1]"
        return self.one([f"update {table} set {target} = ({value} % 50)::int where {condition}",
                         f"update {table} set {target} = ({table}.id % 7) from {other.text}"
                         f" where {joined} and {condition} returning {table}.id",
                         f"update {table} set {target} = k.x from a k where k.id = {table}.{target}"
                         f" and {condition} returning {table}.*, k.x",
                         f"delete from {table} using {other.text} where {joined}"
                         f" and {table}.id % 5 = 2 returning {table}.id",
                         f"delete from {table} where {condition} and id % 5 = 1",
                         f"insert into {table} (id, {target}) select 1000 + s.id, s.x from a s where"
                         f" {self.condition([Source('a', 's', TABLES['a'])], [], 1)}"
                         " on conflict do nothing"])

    def write_view(self):
        view, target = self.one([("va", "x"), ("va", "y"), ("vv", "y")])
        key = {"va": "id", "vv": "k"}[view]
        scope = [Source(view, view, {n: t for n, t in VIEWS[view].items() if t in NUMBERS})]
        condition, value = self.condition(scope, [], 1), self.scalar(scope, 0)
        other = self.source(1, [])
        joined = self.condition(scope + [other], [], 1)
        return self.one([f"update {view} set {target} = ({value} % 50)::int where {condition}"
                         f" returning {view}.*",
                         f"update {view} set {target} = {view}.{key} % 7 from {other.text} where {joined}"
                         f" returning {view}.{key}",
                         f"delete from {view} where {condition} and {key} % 5 = 1 returning *",
                         f"delete from {view} using {other.text} where {joined} returning {view}.{key}",
                         f"insert into {view} ({key}, {target}) select 1000 + s.id, s.x from a s where"
                         f" {self.condition([Source('a', 's', TABLES['a'])], [], 1)} returning *",
                         f"insert into {view} ({key}, {target}) select s.id, 3 from a s where s.id < 9"
                         f" on conflict do nothing returning {key}"])

    def write_with(self):
        scope = [Source("a", "a", {n: t for n, t in TABLES["a"].items() if t in NUMBERS})]
        condition, value = self.condition(scope, [], 1), self.scalar(scope, 0)
        change = self.one([f"update a set x = ({value} % 50)::int where {condition} returning id, x",
                           f"delete from va where id % 4 = 1 returning id, x",
                           f"insert into a (id, x) select 1000 + id, a_id from b where x > 2"
                           f" returning id, x"])
        self.common = [("w", {"id": "int", "x": "int"})]
        if self.chance(50):
            text, _ = self.select(1, [])
        else:
            text = self.one(["insert into d select x, 'w' || id from w returning x, t",
                             "update b set x = 3 from w where w.id = b.a_id returning b.id",
                             "delete from c using w where c.b_id = w.id returning c.*",
                             "insert into b (id, a_id) select id + 2000, x from w where x > 3"])
        self.common = []
        also = ", u as (update c set x = x + 1 where id % 9 = 2)" if self.chance(30) else ""
        return f"with w as ({change}){also} {text}"

    def statement(self):
        self.aliases = 0
        kind = self.random.randrange(14)
        if kind == 0:
            return self.write()
        if kind == 10:
            return self.write_view()
        if kind == 11:
            return self.write_with()
        if kind == 12:
            return f"create table made as {self.select(1, [])[0]}"
        if kind < 3:
            return self.with_query()
        if kind == 3:
            text, scope = self.sources(2, [])
            where = f" where {self.condition(scope, [], 1)}" if self.chance(50) else ""
            if self.chance(60):
                return self.by_sets(text, scope, where)
            return self.grouped(text, scope, where, None)
        return self.select(2, [])[0]


def setup(part):
    """The tables and views of a part."""
    divisor = 1 if part % LARGE_EVERY == LARGE_EVERY - 1 else 5

    def sized(found):
        return f"generate_series(1, {int(found[1]) // divisor})"

    tables = [re.sub(r"generate_series\(1, (\d+)\)", sized, sql) for sql in SETUP]
    return ["drop table if exists a, b, c, d, e cascade", *tables, *VIEW_SETUP]


def fails_early(answer):
    """Is it an error of a value, which comes or not by which part is asked first?"""
    return answer[0] == "error" and answer[1].startswith("22")


def settled(answer, sql):
    """An answer whose rows are in an order of their own where the query gives none."""
    if answer[0] == "error":
        return answer
    return answer[0], sorted(answer[1], key=lambda row: [(value is None, value or "") for value in row])


def compare_forced(session, asked, count, show):
    """Asks again with other operators."""
    name, sql, mine = asked
    for settings in FORCED:
        # Without a better operator some take long; these are left out.
        session.run(f"{settings}; set statement_timeout = '2s'")
        again = settled(session.run(sql), sql)
        session.run("reset all; set statement_timeout = '60s'")
        if fails_early(again) and again != mine:
            count["another part first when forced"] += 1
        elif again != mine and again != ("error", "57014"):
            count["different when forced"] += 1
            if count["different when forced"] <= show:
                print(f"{name}, {settings}: {sql}\n  before: {str(mine)[:400]}\n"
                      f"  forced: {str(again)[:400]}", flush=True)


def run_part(sessions, part, args):
    name, show = f"{args.seed}.{part}", args.show
    statements = min(args.part, args.statements - (part - args.first) * args.part)
    count = collections.Counter()
    for sql in setup(part):
        for session in sessions:
            answer = session.run(sql)
            if answer[0] == "error":
                raise SystemExit(f"{sql}: {answer}")
    maker = Maker(name)
    for at in range(statements):
        sql = maker.statement()
        writes = (not sql.startswith(("select", "with"))
                  or any(f"({word} " in sql for word in ("insert", "update", "delete")))
        made = ["select * from made"] if sql.startswith("create") else []
        if writes:
            for session in sessions:
                session.run("begin")
        mine = settled(sessions[0].run(sql), sql)
        other = settled(sessions[1].run(sql), sql) if mine != ("error", "0A000") else None
        early = fails_early(mine) or other is not None and fails_early(other)
        if writes:
            queries = [f"select * from {table} order by id" for table in "abce"] + made
            tables = [[settled(session.run(query), query) for query in queries + ["select * from d"]]
                      for session in sessions]
            for session in sessions:
                session.run("rollback")
            if other is not None and mine[0] != "error":
                mine, other = (mine, tables[0]), (other, tables[1])
        if other is None:
            count["refused"] += 1
            print(f"{name} {at}: refused: {sql}", flush=True)
            continue
        if not writes and mine[0] != "error" and len(mine[1]) <= MOST_ROWS:
            compare_forced(sessions[0], (f"{name} {at}", sql, mine), count, show)
        count["error" if other[0] == "error" else "rows"] += 1
        if mine != other and early:
            count["another part first"] += 1
        elif mine != other:
            count["different"] += 1
            if count["different"] <= show:
                print(f"{name} {at}: {sql}\n  ours:   {str(mine)[:400]}\n  theirs: {str(other)[:400]}",
                      flush=True)
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--statements", type=int, default=20_000)
    parser.add_argument("--part", type=int, default=2_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first part")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--binary", default="target/release/rightlink")
    parser.add_argument("--show", type=int, default=20)
    parser.add_argument("--dir", default="/tmp")
    args = parser.parse_args()
    total = collections.Counter()
    settings = {"fsync": "off", "timezone": "'UTC'", "jit": "off"}
    ours, theirs = peer.Rightlink(args.binary, args.dir), peer.Postgres(args.dir, settings)
    try:
        sessions = [peer.Session(ours), peer.Session(theirs)]
        for session in sessions:
            session.run("set statement_timeout = '60s'")
        parts = range(args.first, args.first + -(-args.statements // args.part))
        for part in parts:
            start = time.monotonic()
            count = run_part(sessions, part, args)
            total.update(count)
            took = time.monotonic() - start
            print(f"part {args.seed}.{part}: {took:.0f} s, {dict(count)}", flush=True)
        for session in sessions:
            session.close()
        ours.verify()
    finally:
        ours.close()
        theirs.close()
    print(f"seed {args.seed}: {dict(total)}")
    return total["different"] + total["different when forced"] != 0


if __name__ == "__main__":
    sys.exit(main())
