#!/usr/bin/env python3
"""Tests what docs/scale-out.md says of PostgreSQL 15 in front of four `rightlink serve`.

    apt-get install postgresql-15; pip install 'psycopg[binary]'
    cargo build --release -p rightlink-cli
    examples/sharded/check.py [--binary FILE] [--dir /tmp]

Every statement of `STATEMENTS` runs on the sharded tables and on ordinary tables of the same
PostgreSQL, and the answers must be equal. The steps after that ask for plans, end a shard, and show
what is not promised. The first difference ends the program.

Does not do: times, which `scale.py` measures.
"""

import sys

import psycopg

import cluster

CUSTOMERS, ORDERS, SHARDS = 1_000, 20_000, 4

STATEMENTS = """
select count(*), sum(total), avg(total), min(at), max(at) from orders
select city, count(*), sum(total) from orders join customer c on c.id = customer group by city order by city
select customer, count(*), sum(total) from orders group by customer having sum(total) > 900 order by 3 desc, 1 limit 9
select c.id, o.id from customer c left join orders o on o.customer = c.id and o.total > 99.9 order by 1, 2
select * from customer c where exists (select from orders o where o.customer = c.id and total > 99.9) order by id
select id from customer c where not exists (select from orders o where o.customer = c.id and total < 80) order by id
select * from customer where id in (3, 5, 17) or city like 'R%' and since < '2020-03-01' order by id
select date_trunc('day', at) as day, count(*) from orders group by day order by day
select note, count(*) filter (where total > 50), array_agg(id order by id) from orders where customer < 9 group by note order by note
select customer, rank() over (partition by customer order by total desc, id), id from orders where customer < 5 order by 1, 2
select customer, id from orders order by at desc, id limit 3 offset 2
select distinct city from customer where name between 'name 2' and 'name 3' order by city
select count(*) from orders a join orders b on a.id = b.id where a.total > 50 and b.total > 90
insert into orders select 7, g, '2027-01-01 00:00+00', g / 7.0, null from generate_series(90001, 92500) g
insert into customer values (2001, 'new', 'Riga', '2026-01-01'), (2002, 'newer', 'Riga', '2026-01-02') returning id, name
update orders o set note = c.city from customer c where c.id = o.customer and c.id < 50
update orders set total = total + 1 where customer = 7 and id < 10000 returning customer, id, total
delete from orders o using customer c where o.customer = c.id and c.city = 'Lima' and o.total > 95
delete from customer where id > 2000 returning *
delete from orders where id > 90000
with moved as (update orders set note = 'w' where customer = 20 returning id) select count(*), min(id) from moved
begin; update customer set name = 'a' where id = 1; savepoint s; update customer set name = 'b'; rollback to s; commit
select count(*), sum(total), count(note), min(note), max(note) from orders
select * from customer order by id
""".strip().splitlines()

# A statement, what the plan must have of it, and how often.
PLANS = {
    "a join": (
        "select c.city, o.id from orders o join customer c on c.id = o.customer "
        "where c.city = 'Oslo' and o.note = 'note 2'", "INNER JOIN app.customer", SHARDS),
    "a join and its groups": (
        "select c.id, c.name, sum(o.total) from orders o join customer c on c.id = o.customer "
        "group by c.id, c.name", "GROUP BY 1, 2", SHARDS),
    "groups of a shard": (
        "select customer, count(*), sum(total) from orders group by customer", "GROUP BY 1", SHARDS),
    "a condition and an order": (
        "select id from orders where note = 'note 2' order by at",
        "WHERE ((note = 'note 2')) ORDER BY at ASC", SHARDS),
    "a customer, who is on one shard": (
        "update orders set total = total + 1 where customer = 7", "SET total = (total + 1", 1),
    "UPDATE .. FROM of one shard": (
        "update shard_0.orders o set note = c.city from shard_0.customer c "
        "where c.id = o.customer", "SET note = r2.city FROM app.customer r2", 1),
    "rows inserted together": (
        "insert into shard_0.orders select 1, g, now(), 1 from generate_series(1, 9) g",
        "Batch Size: 100", 1),
}


def rows_of(connection, statement):
    """What the last part of the statement answers, in an order if it names none itself."""
    cursor = connection.execute(statement)
    while cursor.nextset():
        pass
    rows = cursor.fetchall() if cursor.description else []
    return cursor.statusmessage, rows if "order by" in statement else sorted(rows, key=str)


def expect(what, found, wanted):
    if found != wanted:
        raise SystemExit(f"{what}: {found!r} instead of {wanted!r}")


def answers_are_equal(connection):
    for statement in STATEMENTS:
        answers = {}
        for place in ("plain", "public"):
            connection.execute(f"set search_path = {place}")
            answers[place] = rows_of(connection, statement)
        expect(statement, answers["public"], answers["plain"])
    print(f"{len(STATEMENTS)} statements: answers as of ordinary tables")


def estimate_remotely(connection, value):
    for number in range(SHARDS):
        connection.execute(
            f"alter server shard_{number} options (set use_remote_estimate '{value}')")


def remote_sql(connection, statement):
    lines = [line for line, in connection.execute(f"explain (verbose, costs off) {statement}")]
    return [line.strip() for line in lines if "Remote SQL" in line or "Batch Size" in line]


def shards_do_the_work(connection):
    for what, (statement, part, wanted) in PLANS.items():
        lines = remote_sql(connection, statement)
        found = [line for line in lines if part in line]
        if len(found) != wanted:
            raise SystemExit(f"{what}: {len(found)} instead of {wanted} times in\n" + "\n".join(lines))
        print(f"{what}, {wanted} times:\n    {found[0]}")


def a_join_is_locked(connection):
    """An UPDATE .. FROM that no shard can do alone locks the rows of the join by a cursor."""
    joined = "c.id = o.customer and c.id < 50"
    update = ("update shard_0.orders o set note = case when random() >= 0 then c.city end "
              f"from shard_0.customer c where {joined}")
    if not any("FOR UPDATE OF r1" in line for line in remote_sql(connection, update)):
        raise SystemExit("the shard does not join the rows that it locks:\n"
                         + "\n".join(remote_sql(connection, update)))
    changed = connection.execute(update).rowcount
    expect("rows changed by what they are joined with", changed, connection.execute(
        "select count(*) from shard_0.orders o join shard_0.customer c "
        f"on {joined} where o.note = c.city").fetchone()[0])


def statistics_are_kept(connection):
    counted, = connection.execute(
        "select sum(reltuples)::int from pg_class where relname = 'orders' and relkind = 'f'"
    ).fetchone()
    expect("rows that ANALYZE counted", counted, ORDERS)


def customer_of(connection, shard):
    """A customer that lives on a shard."""
    return connection.execute(f"select min(id) from shard_{shard}.customer").fetchone()[0]


def refused(connection, statement):
    """The message of the error that a statement must give."""
    try:
        connection.execute(statement)
    except psycopg.Error as error:
        return str(error)
    raise SystemExit(f"no error: {statement}")


def a_lost_shard_is_told(servers, connection):
    everything = "select count(*), sum(total) from orders"
    before = rows_of(connection, everything)
    here, there = (f"select count(*) from orders where customer = {customer_of(connection, shard)}"
                   for shard in (0, 1))
    rows = rows_of(connection, here), rows_of(connection, there)
    servers.shards[1].kill()
    for statement in (everything, there):
        message = refused(connection, statement)
        if 'could not connect to server "shard_1"' not in message:
            raise SystemExit(f"an error that does not name the shard: {message}")
    print(f"shard 1 is gone:\n    {message.splitlines()[0]}")
    expect("rows of another shard", rows_of(connection, here), rows[0])
    servers.shards[1].start()
    expect("rows of the shard after its restart", rows_of(connection, there), rows[1])
    expect("all rows after the restart", rows_of(connection, everything), before)
    print("shard 1 is back with its rows, the others went on")


def a_lost_commit_is_told(servers, connection):
    """A shard that is gone at COMMIT loses its part; PostgreSQL commits one shard after the other,
    so shards before it have committed theirs."""
    ids = [customer_of(connection, shard) for shard in range(SHARDS)]
    counts = []
    for lost, shard in enumerate(servers.shards):
        connection.execute("begin")
        connection.execute("update customer set name = %s where id = any(%s)", [f"{lost}", ids])
        shard.kill()
        message = refused(connection, "commit")
        shard.start()
        kept = connection.execute("select id from customer where name = %s", [f"{lost}"]).fetchall()
        if (ids[lost],) in kept:
            raise SystemExit(f"shard {lost} kept what it did not commit")
        counts.append(len(kept))
    print(f"a shard is gone at COMMIT:\n    {message.splitlines()[0]}")
    expect("shards that had committed, by the shard that was lost", sorted(counts), [0, 1, 2, 3])
    print(f"by the shard that was lost, others had committed: {counts}")


def snapshots_are_of_one_shard(servers, connection):
    """The snapshot of a shard is taken when a transaction first asks that shard."""
    ids = [customer_of(connection, shard) for shard in (0, 1)]
    name = "select name from customer where id = %s"
    connection.execute("update customer set name = 'old'")
    connection.execute("begin isolation level repeatable read")
    seen = [connection.execute(name, ids[:1]).fetchone()[0]]
    with cluster.connect(servers.postgres) as other:
        other.execute("update customer set name = 'new'")
    seen += [connection.execute(name, [each]).fetchone()[0] for each in ids]
    connection.execute("commit")
    expect("one transaction on two shards", seen, ["old", "old", "new"])
    print("a transaction has one snapshot for each shard, and no common one")


def main():
    args = cluster.arguments(__doc__).parse_args()
    servers = cluster.Cluster(args.binary, args.dir, SHARDS)
    try:
        with cluster.connect(servers.postgres) as connection:
            connection.execute("create schema plain")
            for table, columns in cluster.COLUMNS.items():
                connection.execute(f"create table plain.{table} ({columns})")
            for place in ("plain", "public"):
                connection.execute(f"set search_path = {place}")
                cluster.fill(connection, CUSTOMERS, ORDERS)
            statistics_are_kept(connection)
            shards_do_the_work(connection)
            answers_are_equal(connection)
            print("plans by PostgreSQL's own estimates:")
            estimate_remotely(connection, "false")
            answers_are_equal(connection)
            estimate_remotely(connection, "true")
            connection.execute("set search_path = public")
            a_join_is_locked(connection)
            a_lost_shard_is_told(servers, connection)
            a_lost_commit_is_told(servers, connection)
            snapshots_are_of_one_shard(servers, connection)
        for shard in servers.shards:
            shard.verify()
        print(f"verify finds nothing on {SHARDS} shards")
    finally:
        servers.close()


if __name__ == "__main__":
    sys.exit(main())
