#!/usr/bin/env python3
"""What one, two and four shards take on this machine: `rightlink serve` behind PostgreSQL 15.

    apt-get install postgresql-15; pip install 'psycopg[binary]'
    cargo build --release -p rightlink-cli
    examples/sharded/scale.py [--binary FILE] [--orders 200000] [--turns 5] [--json FILE] [--dir /tmp]

For each number of shards: rows a second inserted by one and by four connections in statements of
1,000 rows, then milliseconds of queries over all rows and statements a second that one shard
answers. Each figure is the median of all turns.

Does not do: several machines. All servers share the processors and the drive of this one.
"""

import concurrent.futures
import os
import statistics
import sys
import time

import cluster
import peer

SHARDS = (1, 2, 4)
CUSTOMERS, BATCH, LOOKUPS = 1_000, 1_000, 500
CONNECTIONS = 4
QUERIES = {
    "groups": "select count(*), max(s) from (select customer, sum(total) as s from orders "
              "group by customer) d",
    "join and groups": "select count(*), max(s) from (select c.id, c.city, sum(total) as s "
                       "from orders join customer c on c.id = customer group by c.id, c.city) d",
    "rows to PostgreSQL": "select city, sum(total) from orders join customer c on c.id = customer "
                          "group by city",
}


def insert(servers, first, last):
    """Inserts the orders of these numbers, one statement a batch."""
    with cluster.connect(servers.postgres) as connection:
        for start in range(first, last, BATCH):
            rows = cluster.ROWS["orders"].format(
                customers=CUSTOMERS, first=start, last=min(start + BATCH, last) - 1)
            connection.execute(f"insert into orders {rows}")


def rows_a_second(servers, first, last, connections):
    share = (last - first) // connections
    starts = [first + share * at for at in range(connections)]
    began = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(connections) as threads:
        # Its results are asked for, so that an error ends the program.
        list(threads.map(lambda start: insert(servers, start, start + share), starts))
    return share * connections / (time.perf_counter() - began)


def measure(servers, orders, turns):
    """The median of each figure."""
    found = {}

    def add(name, value):
        found.setdefault(name, []).append(value)

    with cluster.connect(servers.postgres) as connection:
        cluster.fill(connection, CUSTOMERS, 0)
        share, next_order = orders // turns // 2, 1
        for _ in range(turns):
            for connections in (1, CONNECTIONS):
                rate = rows_a_second(servers, next_order, next_order + share, connections)
                next_order += share
                add(f"rows/s, {connections} connections", rate)
        count = connection.execute("select count(*) from orders").fetchone()[0]
        if count != next_order - 1:
            raise SystemExit(f"{count} orders instead of {next_order - 1}")
        for shard in servers.shards:
            with cluster.connect(shard) as own:
                own.execute("analyze")
        connection.execute("analyze orders")
        for name, query in QUERIES.items():
            connection.execute(query)
            for _ in range(turns):
                began = time.perf_counter()
                connection.execute(query)
                add(f"ms, {name}", (time.perf_counter() - began) * 1000)
        # One plan for all values, which knows the shard only when it runs.
        connection.execute("set plan_cache_mode = force_generic_plan")
        connection.execute("prepare one (int) as select * from customer where id = $1")
        for _ in range(turns):
            began = time.perf_counter()
            for number in range(LOOKUPS):
                connection.execute(f"execute one ({1 + number % CUSTOMERS})")
            add("lookups/s", LOOKUPS / (time.perf_counter() - began))
    return {name: statistics.median(values) for name, values in found.items()}


def main():
    parser = cluster.arguments(__doc__)
    parser.add_argument("--orders", type=int, default=200_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json")
    args = parser.parse_args()
    lines = []
    for shards in SHARDS:
        servers = cluster.Cluster(args.binary, args.dir, shards)
        try:
            lines.append({"shards": shards, "orders": args.orders,
                          **measure(servers, args.orders, args.turns)})
        finally:
            servers.close()
    for name in list(lines[0])[2:]:
        print(f"{name:24}" + "".join(f"{line[name]:12,.1f}" for line in lines))
    print(f"shards: {SHARDS}; processors: {os.cpu_count()}; load average {os.getloadavg()[0]:.2f}")
    peer.append_lines(args.json, lines)


if __name__ == "__main__":
    sys.exit(main())
