drop table thing_tag, tag;
drop index by_price;
alter table thing
    drop column double, drop column mood, drop column words, drop column data, drop column day;
drop type mood;
alter table thing drop constraint thing_owner, drop constraint price_ok;
alter table thing alter column price drop default, alter column price drop not null;
alter table thing alter column price type integer;
alter table thing rename to item;
alter table owner drop column email, drop column made;
alter table owner rename column full_name to name;
alter table owner alter column name type varchar(40);
alter table owner add column old integer;
create index owner_old on owner (old);
