#!/usr/bin/env python3
"""Experiment `copy`: COPY in batches into a table with uuid indexes that is larger than memory,
through `rightlink serve` with `enable_insert_prefetch` on and off, and through PostgreSQL 15.

    apt-get install postgresql-15
    cargo build --release -p rightlink-cli
    bench/postgres/copy.py [--binary target/release/rightlink] [--rows 400000] [--indexes 5]
        [--batch 100] [--batches 40] [--memory 16M] [--direct] [--turns 3] [--json FILE]
        [--dir /tmp]

Both tables hold the same rows, loaded with the indexes in place, so leaves are as full as random
keys leave them. The three take turns. Before each turn its server was stopped, its files dropped
from the page cache, and the server started with `--memory` for pages. Then one psql session sends
`--batches` COPY statements of `--batch` rows each, commits asynchronous.

Each server is in a control group of its own, whose limit is `--memory`, a tenth more, and 48 MiB
for what is no cache. The page cache of its files counts, so data must be larger than that. With
`--direct` Rightlink bypasses the page cache, which PostgreSQL 15 cannot.

A line of JSON for each of the three: medians over the turns of the mean time of a batch, and the
99th percentile of all batches.

Needs root: it makes control groups, and runs PostgreSQL as the user postgres. Does not do: judging
a machine that is busy; run it alone.
"""

import argparse
import os
import pathlib
import random
import statistics
import sys

import peer

SETTINGS = {"synchronous_commit": "off", "max_wal_size": "10GB", "checkpoint_timeout": "1h",
            "autovacuum": "off", "jit": "off"}
LOAD_MEMORY = "512M"
LOAD_BATCH = 10_000
# What a server needs beside its cache.
BESIDE_BYTES = 48 << 20
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def bytes_of(size):
    """The bytes of `16M`."""
    return int(size[:-1]) * UNITS[size[-1]]


def rows(first, count, indexes):
    """So many rows in the format of COPY; a row is a function of its number."""
    lines = []
    for number in range(first, first + count):
        source = random.Random(number)
        uuids = (f"{source.getrandbits(128):032x}" for _ in range(indexes))
        lines.append("\t".join([str(number), *uuids]))
    return "\n".join(lines)


def copy(first, count, indexes):
    return f"copy t from stdin;\n{rows(first, count, indexes)}\n\\.\n"


class Side:
    """A server with the table, cold before each turn."""

    def __init__(self, engine, server, group, args):
        self.engine, self.server, self.args, self.next = engine, server, args, 0
        columns = ", ".join(f"u{n} uuid" for n in range(args.indexes))
        indexes = "\n".join(f"create index on t (u{n});" for n in range(args.indexes))
        peer.psql(server, f"create table t (id int8 primary key, {columns});\n{indexes}\n")
        while self.next < args.rows:
            count = min(LOAD_BATCH, args.rows - self.next)
            peer.psql(server, copy(self.next, count, args.indexes))
            self.next += count
        self.server.stop()
        peer.drop_page_cache(self.server.home)
        group.limit(bytes_of(args.memory) * 11 // 10 + BESIDE_BYTES)

    def chill(self):
        self.server.stop()
        peer.drop_page_cache(self.server.home)
        if self.engine == "rightlink":
            self.server.memory = self.args.memory
            self.server.start()
        else:
            self.server.start(shared_buffers=self.args.memory + "B")

    def turn(self, prefetch):
        """Milliseconds of each batch."""
        self.chill()
        script = ["set synchronous_commit = off;", "select 1;"]
        if self.engine == "rightlink":
            script.append(f"set enable_insert_prefetch = {prefetch};")
        script.append("\\timing on")
        for _ in range(self.args.batches):
            script.append(copy(self.next, self.args.batch, self.args.indexes))
            self.next += self.args.batch
        times = peer.psql(self.server, "\n".join(script))
        if len(times) != self.args.batches:
            raise SystemExit(f"{self.engine}: {len(times)} times of {self.args.batches} batches")
        return times


def line(side, prefetch, turns, args):
    means = [statistics.mean(times) for times in turns]
    ms = statistics.median(means)
    late = sorted(time for times in turns for time in times)
    return {"experiment": "copy", "engine": side.engine, "prefetch": prefetch, "rows": args.rows,
            "indexes": args.indexes, "batch": args.batch, "batches": args.batches,
            "memory": args.memory, "direct": args.direct, "turns": len(turns), "ms_per_batch": round(ms, 3),
            "ms_per_batch_least": round(min(means), 3), "ms_per_batch_most": round(max(means), 3),
            "p99_ms": round(late[len(late) * 99 // 100], 3),
            "rows_per_s": round(args.batch * 1000 / ms, 1)}


def run(sides, args):
    ours, theirs = sides
    kinds = [(ours, "on"), (ours, "off"), (theirs, "none")]
    turns = {kind: [] for kind in kinds}
    for at in range(args.turns):
        first = at % len(kinds)
        for kind in kinds[first:] + kinds[:first]:
            turns[kind].append(kind[0].turn(kind[1]))
    lines = [line(*kind, turns[kind], args) for kind in kinds]
    print(f"{'engine':11} {'prefetch':8} {'ms/batch':>9} {'least':>9} {'most':>9} {'p99':>9} to off")
    off = lines[1]["ms_per_batch"]
    for one in lines:
        print(f"{one['engine']:11} {one['prefetch']:8} {one['ms_per_batch']:9.2f} "
              f"{one['ms_per_batch_least']:9.2f} {one['ms_per_batch_most']:9.2f} "
              f"{one['p99_ms']:9.2f} {one['ms_per_batch'] / off:.2f}", flush=True)
    peer.append_lines(args.json, lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default="target/release/rightlink")
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--indexes", type=int, default=5)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--memory", default="16M")
    parser.add_argument("--direct", action="store_true", help="Rightlink without page cache")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json")
    parser.add_argument("--dir", default="/tmp")
    args = parser.parse_args()
    groups, servers = [], []
    try:
        for name in ("rightlink", "postgresql"):
            groups.append(peer.Group(f"copy-{name}"))
        servers.append(peer.Rightlink(pathlib.Path(args.binary).resolve(), args.dir,
                                      memory=LOAD_MEMORY,
                                      flags=["--direct"] if args.direct else [],
                                      enter=groups[0].join))
        servers.append(peer.Postgres(args.dir, {**SETTINGS, "shared_buffers": LOAD_MEMORY + "B"},
                                     enter=groups[1].join))
        run([Side("rightlink", servers[0], groups[0], args),
             Side("postgresql", servers[1], groups[1], args)], args)
        servers[0].verify()
    finally:
        for open_one in servers + groups:
            open_one.close()
    print(f"load average {os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    sys.exit(main())
