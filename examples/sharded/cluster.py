#!/usr/bin/env python3
"""Several `rightlink serve` behind one PostgreSQL 15: tables there are partitioned by hash, and
postgres_fdw keeps each partition on one of the servers.

    apt-get install postgresql-15; pip install 'psycopg[binary]'
    cargo build --release -p rightlink-cli
    examples/sharded/cluster.py [--shards 4] [--binary FILE] [--dir /tmp]

Starts all servers, makes two tables, prints how to connect with psql, and stops everything at
Ctrl-C. `check.py` tests what docs/scale-out.md says, and `scale.py` measures.

Does not do: passwords, which a user mapping takes as options `user` and `password`.
"""

import argparse
import pathlib
import signal
import sys

import psycopg

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench/postgres"))
import peer  # noqa: E402

COLUMNS = {
    "customer": "id int not null, name varchar(40) not null, city text not null, "
                "since date not null",
    "orders": "customer int not null, id bigint not null, at timestamptz not null, "
              "total numeric(12, 2) not null, note text",
}
KEY = {"customer": "id", "orders": "customer, id"}
# Equal values of these columns are on one shard, so that each shard joins its own rows.
SHARD_COLUMN = {"customer": "id", "orders": "customer"}
ROWS = {
    "customer": "select g, 'name ' || g, (array['Rome', 'Oslo', 'Bern', 'Lima', 'Kyiv'])[1 + g % 5], "
                "date '2020-01-01' + g % 2000 from generate_series(1, {customers}) g",
    "orders": "select 1 + g % {customers}, g, timestamptz '2026-01-01 00:00+00' + g * interval '1 minute', "
              "g * 37 % 10000 / 100.0, case when g % 2 = 0 then 'note ' || g % 10 end "
              "from generate_series({first}, {last}) g",
}
SERVER_OPTIONS = {
    # Rows that one INSERT of postgres_fdw carries, and rows that one FETCH brings. A connection keeps
    # that INSERT prepared, which takes 1.3 KB of the shard's memory for each value in it.
    "batch_size": 100, "fetch_size": 10000,
    # Plans by what a shard says of its costs: it knows its indexes, PostgreSQL does not.
    "use_remote_estimate": "true",
    # Shards work at the same time for one query.
    "async_capable": "true",
}
SETTINGS = {
    "timezone": "'UTC'", "jit": "off",
    # Each shard joins and aggregates its own rows.
    "enable_partitionwise_join": "on", "enable_partitionwise_aggregate": "on",
}


def connect(server):
    """A connection of psycopg to one of `peer`'s servers; each statement is a transaction."""
    return psycopg.connect(**server.connection, autocommit=True, prepare_threshold=None)


class Cluster:
    """The servers; all are gone when it is closed."""

    def __init__(self, binary, folder, shards=4):
        self.shards, self.postgres = [], None
        try:
            self.shards += [peer.Rightlink(binary, folder) for _ in range(shards)]
            self.postgres = peer.Postgres(folder, SETTINGS)
            for shard in self.shards:
                make_tables(shard)
            with connect(self.postgres) as connection:
                self.make_partitions(connection)
        except BaseException:
            self.close()
            raise

    def make_partitions(self, connection):
        """Makes partitioned tables whose partitions are the tables of the shards."""
        connection.execute("create extension postgres_fdw")
        for table, columns in COLUMNS.items():
            connection.execute(
                f"create table {table} ({columns}) partition by hash ({SHARD_COLUMN[table]})")
        options = ", ".join(f"{name} '{value}'" for name, value in SERVER_OPTIONS.items())
        for number, shard in enumerate(self.shards):
            name = f"shard_{number}"
            connection.execute(
                f"create server {name} foreign data wrapper postgres_fdw options "
                f"(host '127.0.0.1', port '{shard.port}', dbname 'postgres', {options})")
            connection.execute(f"create user mapping for current_user server {name} "
                               "options (user 'postgres')")
            connection.execute(f"create schema {name}")
            connection.execute(f"import foreign schema app from server {name} into {name}")
            for table in COLUMNS:
                connection.execute(
                    f"alter table {table} attach partition {name}.{table} for values with "
                    f"(modulus {len(self.shards)}, remainder {number})")

    def close(self):
        for server in [self.postgres, *self.shards]:
            if server:
                server.close()


def make_tables(shard):
    with connect(shard) as connection:
        connection.execute("create schema app")
        for table, columns in COLUMNS.items():
            connection.execute(f"create table app.{table} ({columns}, primary key ({KEY[table]}))")


def fill(connection, customers, orders):
    """Inserts rows that depend on their number alone, into the tables of the search path."""
    sizes = {"customers": customers, "first": 1, "last": orders}
    for table, rows in ROWS.items():
        connection.execute(f"insert into {table} {rows.format(**sizes)}")
        connection.execute(f"analyze {table}")


def arguments(about):
    """What the scripts here have in common."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--binary", default=ROOT / "target/release/rightlink")
    parser.add_argument("--dir", default="/tmp", help="where the servers keep their files")
    # What is started is stopped at SIGTERM too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    return parser


def main():
    parser = arguments(__doc__)
    parser.add_argument("--shards", type=int, default=4)
    args = parser.parse_args()
    cluster = Cluster(args.binary, args.dir, args.shards)
    try:
        with connect(cluster.postgres) as connection:
            fill(connection, 1_000, 20_000)
        parts = cluster.postgres.connection
        print(f"psql -h {parts['host']} -p {parts['port']} -U postgres postgres", flush=True)
        signal.pause()
    except KeyboardInterrupt:
        pass
    finally:
        cluster.close()


if __name__ == "__main__":
    main()
