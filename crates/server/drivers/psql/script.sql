-- What psql shows; the answers are in expected.out.
create table flight (id int primary key, tail text not null, delay int, price numeric);
create index on flight (tail, delay desc nulls last);
create unlogged table other (a int) with (fillfactor = 70);
insert into flight select g, 'N' || g % 3, g * 10, g / 4.0 from generate_series(1, 5) g;
\d
\di
\d flight
\d+ other
\d flight_pkey
\d nothing
\dt f*
\dn
\dn p*
select tail, count(*), sum(price) from flight group by tail order by tail;
\copy flight (id, tail) from stdin
100	a
101	b\tc
\.
copy (select id, tail from flight where id >= 100 order by id) to stdout with (format csv, header);
begin;
savepoint s;
insert into flight values (1, 'again');
\echo :LAST_ERROR_SQLSTATE
select 1;
rollback to s;
select count(*) from flight;
commit;
insert into other values (2), (5), (9);
select f.id, o.a from flight f full join other o on f.id = o.a where f.id < 3 or o.a > 4 order by 1;
select * from flight tablesample system (10);
\echo :LAST_ERROR_SQLSTATE
\set FETCH_COUNT 2
select id from flight where id < 4 order by id;
\unset FETCH_COUNT
explain (costs off) select * from flight where id = 3;
prepare p as select tail from flight where id = $1;
execute p(2);
set statement_timeout = '50ms';
select pg_sleep(10);
reset statement_timeout;
drop table flight, other;
