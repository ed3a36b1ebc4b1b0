-- What the commands of psql that begin with a backslash are asked about, on both servers.
create schema app;
comment on schema app is 'the app';
create schema "Quoted Schema";
create type app.mood as enum ('sad', 'ok');
create type app.pair as (a int, b text);
create domain app.pos as int not null default 1 check (value > 0);
create function app.f(a int, b text default 'x') returns int language sql immutable as 'select a + length(b)';
create function app.f(a text) returns int language sql strict as 'select 1';
create function app.r(out a int, out b text) returns setof record language sql as 'select 1, ''x''';
create function app.t() returns table (n int, m app.mood) language sql stable as 'select 1, ''ok''::app.mood';
create function app.v(variadic list int[]) returns void language sql as 'select 1';
create function app.one() returns int language sql immutable as 'select 1';
create table app.p (
    id serial primary key, n text not null default 'x', m app.mood, k app.pos,
    g int generated always as (1 + 2) stored, w numeric(10, 2), c char(3), d varchar(20),
    ts timestamptz default now(), constraint nn check (n <> ''), unique (n, m)
);
create index p_like on app.p (n text_pattern_ops);
create index p_low on app.p (lower(n)) where id > 3;
create index p_h on app.p using hash (n);
create unique index p_desc on app.p (id desc nulls last) include (n);
create table app.c (
    id bigint generated always as identity primary key,
    p int references app.p (id) on delete cascade deferrable initially deferred,
    a int[], j jsonb, b bytea, u uuid default gen_random_uuid(), o app.pair,
    calls int default app.one() + 1, check (p > 0)
);
create table "Quoted Schema"."Table 1" ("Column A" int primary key, "b c" text);
create table public.plain (a int, b text);
create unlogged table app.u (a int);
create view app.v as select p.id, c.a from app.p join app.c on c.p = p.id where p.n like 'a%';
create view app.checked as select id, n from app.p where id > 1 with local check option;
create view app.calls as select id, app.f(id) as f from app.p;
create materialized view app.mv as select count(*) n from app.p;
create unique index mv_n on app.mv (n);
create sequence app.s increment 5 minvalue 5 cycle;
create sequence public.small as smallint;
comment on table app.p is 'parents';
comment on column app.p.n is 'name';
comment on column app.pair.b is 'second';
comment on index app.p_low is 'lower';
comment on constraint nn on app.p is 'no empty';
comment on view app.v is 'view';
comment on materialized view app.mv is 'kept';
comment on function app.f(int, text) is 'fun';
comment on type app.mood is 'moods';
comment on domain app.pos is 'positive';
comment on sequence app.s is 'fives';
create role bs_reader;
create role bs_owner login connection limit 3 createdb;
create role bs_member noinherit valid until '2030-01-01 00:00:00+00';
grant bs_reader to bs_owner;
grant bs_reader to bs_member with admin option;
comment on role bs_reader is 'reads';
grant select on app.p, app.v to bs_reader with grant option;
grant insert, update on app.p to bs_owner;
grant usage on schema app to bs_reader;
grant all on schema "Quoted Schema" to bs_owner;
grant usage on sequence app.s to public;
grant select on public.plain to public;
alter table app.u owner to bs_owner;
alter default privileges in schema app grant select on tables to bs_reader;
alter default privileges for role bs_owner revoke all on sequences from bs_reader;
alter default privileges for role bs_owner grant usage on sequences to bs_reader;
alter role bs_owner set work_mem = '8MB';
insert into app.p (n, m, k) select 'n' || i, 'ok', i from generate_series(1, 20) i;
analyze;
