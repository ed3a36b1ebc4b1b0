-- pgbench's tables with text for char(n) and the keys in place, which `pgbench -i -I dtpf` cannot
-- make here: no columns of type char(n), no keys added to tables, no foreign keys.
create table pgbench_branches (bid int primary key, bbalance int, filler text);
create table pgbench_tellers (tid int primary key, bid int, tbalance int, filler text);
create table pgbench_accounts (aid int primary key, bid int, abalance int, filler text);
create table pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, filler text);
