create table owner (
    id bigserial primary key,
    name varchar(40) not null,
    old integer
);
create index owner_old on owner (old);
create table item (
    id uuid primary key default gen_random_uuid(),
    title varchar(40) not null,
    price integer,
    owner_id bigint
);
insert into owner (name) values ('Early');
insert into item (title, price, owner_id) values ('First', 3, 1);
