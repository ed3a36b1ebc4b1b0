-- What a logical subscriber asks of its publisher's catalogs. Variables: port, database.
\set ON_ERROR_STOP on
create table if not exists seen (a integer, b text);
create subscription listener connection :'at' publication told
    with (create_slot = false, slot_name = 'listener');
select pg_sleep(3);
alter subscription listener refresh publication;
select pg_sleep(3);
alter subscription listener disable;
alter subscription listener set (slot_name = none);
drop subscription listener;
drop table seen;
