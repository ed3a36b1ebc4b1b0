-- What postgres_fdw asks of the catalogs of another server. Variables: port, database.
\set ON_ERROR_STOP on
create extension if not exists postgres_fdw;
drop server if exists far cascade;
create server far foreign data wrapper postgres_fdw
    options (host '127.0.0.1', port :'port', dbname :'database', use_remote_estimate 'true');
create user mapping for current_user server far options (user 'rightlink', password_required 'false');
drop schema if exists here cascade;
create schema here;
create type here.mood as enum ('sad', 'ok', 'happy');
create domain here.positive as integer check (value > 0);
set search_path = here, public;
import foreign schema public limit to (seen) from server far into here;
import foreign schema public except (seen, t000, t001, t002, t003, t005) from server far into here;
analyze here.seen;
explain select * from here.seen where a > 5 order by b;
select count(*), sum(a) from here.seen where a > 5;
select b, count(*) from here.seen group by b order by 1;
update here.seen set b = 'z' where a = 3;
insert into here.seen values (101, 'x'), (102, 'y');
delete from here.seen where a > 100;
drop server far cascade;
drop schema here cascade;
