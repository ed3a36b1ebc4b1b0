drop table item;
drop table owner;
