alter table owner rename column name to full_name;
alter table owner alter column full_name type varchar(120), drop column old;
alter table owner add column email text unique, add column made timestamptz not null default now();
alter table item rename to thing;
alter table thing alter column price type numeric(10, 2), alter column price set default 0;
update thing set price = 0 where price is null;
alter table thing alter column price set not null, add constraint price_ok check (price >= 0);
alter table thing add constraint thing_owner foreign key (owner_id) references owner on delete cascade;
create type mood as enum ('sad', 'happy');
alter table thing
    add column mood mood not null default 'sad',
    add column words text[] not null default '{}',
    add column data jsonb,
    add column day date,
    add column double numeric(12, 2) generated always as (price * 2) stored;
create index by_price on thing (price desc) where price > 100;
create table tag (id integer generated always as identity primary key, name text not null unique);
create table thing_tag (
    thing_id uuid references thing on delete cascade,
    tag_id integer references tag,
    primary key (thing_id, tag_id)
);
