//! Deep statements: every production of the grammar that can hold itself, in every kind of
//! statement that has an expression.

/// A production that can be repeated: `opening` and `closing` around an expression, or `opening`
/// with its `closing` at the end, `levels` times.
pub(crate) struct Production {
    pub(crate) name: &'static str,
    opening: &'static str,
    inner: &'static str,
    closing: &'static str,
    last: &'static str,
    /// Is it bounded by the parser's nesting, and not by the depth of chains?
    pub(crate) nests: bool,
}

const fn chain(name: &'static str, first: &'static str, link: &'static str) -> Production {
    Production { name, opening: "", inner: first, closing: link, last: "", nests: false }
}

const fn nest(
    name: &'static str,
    opening: &'static str,
    inner: &'static str,
    closing: &'static str,
) -> Production {
    Production { name, opening, inner, closing, last: "", nests: true }
}

impl Production {
    /// The expression with so many levels.
    pub(crate) fn expression(&self, levels: usize) -> String {
        self.around(self.inner, levels)
    }

    /// So many levels around another expression.
    pub(crate) fn around(&self, inner: &str, levels: usize) -> String {
        let (opening, closing) = (self.opening.repeat(levels), self.closing.repeat(levels));
        format!("{opening}{inner}{closing}{}", self.last)
    }
}

pub(crate) const PRODUCTIONS: &[Production] = &[
    chain("sum", "1", "+1"),
    chain("product", "1", "*1"),
    chain("power", "1", "^1"),
    chain("concatenation", "'a'", "||'a'"),
    chain("and", "v = 1", " and v = 1"),
    chain("or", "v = 1", " or v = 1"),
    chain("and of columns", "b", " and b"),
    chain("equality", "b", " = b"),
    chain("inequality", "b", " <> b"),
    chain("is null", "v", " is null"),
    chain("is not true", "b", " is not true"),
    chain("is distinct from", "b", " is distinct from b"),
    chain("between", "b", " between b and b"),
    chain("not between", "b", " not between b and b"),
    chain("in", "b", " in (b)"),
    chain("not in", "b", " not in (true, b)"),
    chain("like", "t", " like t"),
    chain("like of casts", "t", " ilike t::text escape 'e'"),
    chain("collate", "t", " collate \"C\""),
    chain("cast", "v", "::int"),
    chain("cast to and fro", "v", "::bigint::int"),
    chain("at time zone", "w", " at time zone 'UTC'"),
    chain("any", "b", " = any (array[b])"),
    chain("all", "b", " <> all (array[b])"),
    chain("similar to", "t", " similar to t"),
    chain("regular expression", "t", " ~ t"),
    chain("json access", "t", " -> t"),
    chain("subscript", "t", "[1]"),
    chain("array type", "v::int", "[]"),
    chain("named operator", "v", " operator(pg_catalog.+) v"),
    chain("factorial", "v", " !"),
    chain("field", "t", ".t"),
    chain("overlaps", "b", " overlaps b"),
    chain("is normalized", "t", " is normalized"),
    Production { last: ")", ..chain("set operation", "(select 1", " union select 1") },
    nest("parentheses", "(", "v", ")"),
    nest("not", "not ", "b", ""),
    nest("minus", "- ", "v", ""),
    nest("bits", "~ ", "v", ""),
    nest("absolute", "@ ", "v", ""),
    nest("call", "abs(", "v", ")"),
    nest("coalesce", "coalesce(v, ", "v", ")"),
    nest("greatest", "greatest(v, ", "v", ")"),
    nest("nullif", "nullif(", "v", ", 0)"),
    nest("case", "case when b then ", "v", " end"),
    nest("case of a value", "case ", "v", " when 1 then 2 end"),
    nest("case condition", "case when ", "b", " then true end"),
    nest("case else", "case when b then 1 else ", "v", " end"),
    nest("cast function", "cast(", "v", " as int)"),
    nest("extract", "extract(year from ", "w", ")"),
    nest("substring", "substring(", "t", " from 1 for 2)"),
    nest("position", "position('a' in ", "t", ")"),
    nest("trim", "trim(both 'a' from ", "t", ")"),
    nest("overlay", "overlay(", "t", " placing 'a' from 1)"),
    nest("array", "array[", "v", "]"),
    nest("row", "row(", "v", ")"),
    nest("tuple", "(1, ", "v", ")"),
    nest("subquery", "(select ", "v", ")"),
    nest("exists", "exists (select ", "v", ")"),
    nest("in subquery", "v in (select ", "v", ")"),
    nest("derived table", "(select * from ", "t", ") a"),
    nest("with", "(with a as ", "(select 1)", " select 1)"),
    nest("aggregate", "max(", "v", ")"),
    nest("filter", "count(*) filter (where ", "b", ")"),
    nest("window", "sum(v) over (order by ", "v", ")"),
    nest("exponent", "1 ^ (", "1", ")"),
    nest("or in parentheses", "(b or ", "b", ")"),
    nest("equality in parentheses", "b = (", "b", ")"),
    nest("between in parentheses", "b between b and (", "b", ")"),
    nest("sum in calls", "abs(1 + ", "v", ")"),
    nest("interval", "interval ", "'1 day'", ""),
    nest("comment", "/* ", "v", " */"),
];

/// Kinds of statements, `@` being the expression. What they make is `made`, if they make anything.
pub(crate) const STATEMENTS: &[&str] = &[
    "select @",
    "select @ from t",
    "select 1 from t where @",
    "select v from t where v = 1 and (@) is not null",
    "select v, count(*) from t group by v having @",
    "select count(*) from t group by @",
    "select v from t order by @",
    "select distinct @ from t",
    "select distinct on (@) v from t",
    "select v from t limit @",
    "select v from t offset @",
    "select v from t for update of t nowait",
    "select count(*) filter (where @) from t",
    "select sum(v) over (order by @) from t",
    "select * from generate_series(1, @)",
    "select v from t where exists (select 1 where @)",
    "with a as (select @) select * from a",
    "select * from (select @ from t) a",
    "select t.v from t join t u on @",
    "values (@)",
    "values (1), (@), (2)",
    "insert into t (v) values (@)",
    "insert into t (v) values (1), (@)",
    "insert into t (v) select @ from t",
    "insert into t (id, v) values (1, 1) on conflict (id) do update set v = @",
    "insert into t (id, v) values (1, 1) on conflict (id) do update set v = 1 where @",
    "insert into t (id, v) values (1, 1) on conflict (id) where @ do nothing",
    "insert into t (v) values (1) returning @",
    "update t set v = @",
    "update t set v = 1 where @",
    "update t set a[@] = 1",
    "update t set a[1] = @, a[2] = 2",
    "insert into t (a[@]) values (1)",
    "update t set (v, b) = (@, true)",
    "update t set v = 1 where id = 1 returning @",
    "delete from t where @",
    "delete from t where id = 0 returning @",
    "prepare p as select @ from t",
    "execute p",
    "prepare q (int) as insert into t (v) values ($1 + @)",
    "execute q (@)",
    "explain select @ from t",
    "explain (costs off) select 1 from t where @",
    "explain analyze select v from t where @",
    "explain update t set v = @",
    "begin; declare c cursor for select @ from t; fetch all from c; close c; commit",
    "declare c scroll cursor with hold for select @ from t; fetch all from c; close c",
    "copy (select @ from t) to stdout",
    "copy (select 1 from t where @) to stdout (format binary)",
    "create table made (v int, b bool, t text, w timestamptz, check (@))",
    "create table made (v int check (@))",
    "create table made (v int default @)",
    "create table made (v int, g int generated always as (@) stored)",
    "create table made as select @ from t",
    "create view made as select @ from t",
    "create index made on t (v) where @",
    "create unique index made on t ((@))",
    "alter table t add constraint made check (@)",
    "alter table t add column made int default @",
    "alter table t alter column v set default @",
    "alter table t alter column v type int using @",
    "create function made() returns int return @",
    "create materialized view made as select @",
    "merge into t using t u on @ when matched then do nothing",
    "call made(@)",
    "set application_name = @",
    "comment on table t is @",
    "select 1; select @; select 2",
    "lock table t; select @",
    "@",
];

/// Removes what a statement may have left behind.
pub(crate) const CLEAN: &[&str] = &[
    "rollback",
    "deallocate all",
    "close all",
    "drop view if exists made",
    "drop table if exists made",
    "drop index if exists made",
    "alter table t drop constraint if exists made",
    "alter table t drop column if exists made",
    "alter table t alter column v drop default",
];

/// What the statements are about.
pub(crate) const SETUP: &str = "create table t (id int primary key generated by default \
     as identity, v int, b bool, t text, w timestamptz, a int[]); \
     insert into t (v, b, t, w) values (1, true, 'a', now()), (2, false, 'b', now())";
