#!/usr/bin/env python3
"""Experiment `scans`: warm scans of one table, through `rightlink serve` and PostgreSQL 15.

    apt-get install postgresql-15
    cargo build --release -p rightlink-cli
    bench/postgres/scans.py [--binary target/release/rightlink] [--rows 3000000] [--turns 7]
        [--vacuum] [--json FILE] [--dir /tmp]

Both hold the same rows and statistics, and all of them in memory. The two take turns, statement by
statement. PostgreSQL runs without parallel workers and without its compiler. `--vacuum` has both
vacuum first, so that an index alone answers `count(*)`.

A line for each statement: medians in milliseconds, the least, and the ratio of the medians. Does
not do: judging a machine that is busy; run it alone.
"""

import argparse
import os
import pathlib
import statistics
import sys

import peer

SETTINGS = {"max_wal_size": "10GB", "checkpoint_timeout": "1h", "autovacuum": "off", "jit": "off",
            "max_parallel_workers_per_gather": "0", "shared_buffers": "2GB",
            "synchronous_commit": "off"}
QUERIES = {
    "sum": "select sum(id + grp) from t",
    "filter that matches nothing": "select count(*) from t where id + grp < 0",
    "group by": "select grp, count(*) from t group by grp",
    "count(*)": "select count(*) from t",
    "group by text": "select x, sum(f) from t where id % 1000 = 0 group by x",
    "one row of a hundred": "select id, f, x from t where id % 100 = 0",
}


def fill(server, args):
    script = [
        "create table t (id int primary key, grp int, f float8, x text);",
        "insert into t select g, g % 1000, g / 7.0, 'row ' || g "
        f"from generate_series(1, {args.rows}) g;",
        "create index on t (grp);", "analyze t;"]
    if args.vacuum:
        script.append("vacuum analyze t;")
    peer.psql(server, "\n".join(script))


def run(servers, args):
    lines = []
    for name, query in QUERIES.items():
        times = [[], []]
        for turn in range(args.turns + 1):
            for side, server in enumerate(servers):
                took = peer.psql(server, f"\\o /dev/null\n\\timing on\n{query};")
                # The first turn warms both.
                if turn > 0:
                    times[side] += took
        ours, theirs = map(statistics.median, times)
        lines.append({"experiment": "scans", "query": name, "rows": args.rows,
                      "vacuum": args.vacuum, "turns": args.turns, "ms": round(ours, 1),
                      "least_ms": round(min(times[0]), 1), "most_ms": round(max(times[0]), 1),
                      "postgres_ms": round(theirs, 1), "postgres_least_ms": round(min(times[1]), 1),
                      "postgres_most_ms": round(max(times[1]), 1), "ratio": round(ours / theirs, 3)})
        print(f"{name:28} {ours:9.1f} {theirs:9.1f} {ours / theirs:6.2f}", flush=True)
    peer.append_lines(args.json, lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default="target/release/rightlink")
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--vacuum", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--dir", default="/tmp")
    args = parser.parse_args()
    servers = []
    try:
        servers.append(peer.Rightlink(pathlib.Path(args.binary).resolve(), args.dir, memory="2G"))
        servers.append(peer.Postgres(args.dir, SETTINGS))
        for server in servers:
            fill(server, args)
        print(f"{'':28} {'ours ms':>9} {'theirs':>9} {'ratio':>6}")
        run(servers, args)
        servers[0].verify()
    finally:
        for server in servers:
            server.close()
    print(f"load average {os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    sys.exit(main())
