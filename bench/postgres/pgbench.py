#!/usr/bin/env python3
"""Experiment `pgbench`: `rightlink serve` beside PostgreSQL 15, the same client, settings and data,
turn by turn in one run.

    apt-get install postgresql-15
    cargo build --release -p rightlink-cli
    bench/postgres/pgbench.py [--quick] [--binary target/release/rightlink] [--seconds 20]
        [--script tpcb-like,...] [--protocol prepared] [--transport unix,tcp] [--clients 8]
        [--synchronous-commit off,on] [--scale 10] [--turns 3] [--column indexed,unindexed]
        [--slice 5] [--json FILE] [--dir /tmp]

Both have 1 GB for pages and take 1,000 connections. Both initialise with `pgbench -i` as written.
`zipfian-50-50` and `zipfian-5-95` read and update rows by a Zipfian key (theta 1.1). An update
changes an indexed column, so that indexes of a store that does not clean them grow, or leaves
indexed columns alone. `tpcb-foreign-keys` is `tpcb-like` on tables that were made with
`--foreign-keys --unlogged-tables`. Bytes of indexes are those before and after the last turn of a cell, after a
vacuum on either side. A line of JSON for each cell and engine: tps and latencies are medians over
turns, `slices_tps` and `slices_p99_ms` are those of each slice of each turn, turn by turn.

The policies for dead entries are none of the server's settings: `rightlink-bench hot-update` has
them.

Needs root (it runs PostgreSQL as the user postgres) or any other user but root. Does not do: judging
a machine that is busy; run it alone.
"""

import argparse
import itertools
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

import peer

SETTINGS = {"shared_buffers": "1GB", "max_connections": "1000", "max_wal_size": "10GB",
            "checkpoint_timeout": "1h", "jit": "off"}
ROWS = 100_000
HOT = ["drop table if exists hot",
       "create table hot (id int primary key, k int, v int) with (fillfactor = 90)",
       f"insert into hot select g, g, 0 from generate_series(1, {ROWS}) g",
       "create index hot_k on hot (k)"]
KEY = f"\\set id random_zipfian(1, {ROWS}, 1.1)\n"
READ = KEY + "select v from hot where id = :id;\n"
UPDATES = {
    "indexed": KEY + "\\set k random(1, 1000000)\nupdate hot set k = :k, v = v + 1 where id = :id;\n",
    "unindexed": KEY + "update hot set v = v + 1 where id = :id;\n"}
MIXES = {"zipfian-50-50": (50, 50), "zipfian-5-95": (5, 95)}
# Scripts of pgbench that want tables made in their own way: the script, and the flags of `-i`.
MADE = {"tpcb-foreign-keys": ("tpcb-like", ["--foreign-keys", "--unlogged-tables"])}


class Side:
    """A server of one kind and how its indexes are measured."""

    def __init__(self, name, server):
        self.name, self.server, self.made = name, server, None

    def make(self, scale, flags):
        """Has pgbench make its tables with `flags`, unless they were made so."""
        if self.made == flags:
            return
        where, name = self.connect("unix")
        subprocess.run([str(peer.BIN / "pgbench"), "-i", "-q", "-s", str(scale), *flags, *where,
                        name], check=True, stderr=subprocess.DEVNULL)
        self.made = flags

    def connect(self, transport):
        parts = dict(self.server.connection)
        host = "127.0.0.1" if transport == "tcp" else parts["host"]
        return ["-h", host, "-p", parts["port"], "-U", parts["user"]], parts["dbname"]

    def sql(self, *statements):
        flags, name = self.connect("unix")
        command = ["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", *flags, "-d", name]
        for statement in statements:
            command += ["-c", statement]
        quiet = dict(os.environ, PGOPTIONS="-c client_min_messages=warning")
        return subprocess.run(command, check=True, text=True, env=quiet,
                              stdout=subprocess.PIPE).stdout

    def index_bytes(self, tables):
        names = ", ".join(f"'{name}'" for name in tables)
        if self.name == "postgresql":
            text = self.sql("select sum(pg_relation_size(i.indexrelid)) from pg_index i join pg_class c"
                            f" on c.oid = i.indrelid where c.relname in ({names})")
            return int(text or 0)
        text = self.sql(f"select indexname from pg_indexes where tablename in ({names})")
        total = 0
        for index in text.split():
            total += int(self.sql(f"select index_size from pgstatindex('{index}')"))
        return total

    def vacuum(self, tables):
        for table in tables:
            self.sql(f"vacuum {table}")


def percentile(times, share):
    """The latency, in ms, that this share of the sorted microseconds keeps below."""
    return times[min(int(len(times) * share), len(times) - 1)] / 1000 if times else None


def latencies(folder, seconds, length):
    """What the logs in `folder` tell: latencies in ms of all transactions, and those of each slice
    of `length` seconds: transactions a second and the 99th percentile."""
    ended, times = [], []
    for path in folder.iterdir():
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                words = line.split()
                ended.append(int(words[4]) + int(words[5]) / 1e6)
                times.append(int(words[2]))
        path.unlink()
    start = min((end - time / 1e6 for end, time in zip(ended, times)), default=0)
    slices = [[] for _ in range(max(1, int(seconds // length)))]
    for end, time in zip(ended, times):
        at = int((end - start) // length)
        if at < len(slices):
            slices[at].append(time)
    times.sort()
    for one in slices:
        one.sort()
    span = min(length, seconds)
    return {"p50_ms": percentile(times, 0.5), "p99_ms": percentile(times, 0.99),
            "max_ms": times[-1] / 1000 if times else None,
            "slices_tps": [round(len(one) / span, 1) for one in slices],
            "slices_p99_ms": [percentile(one, 0.99) for one in slices]}


def turn(side, cell, args, folder):
    flags, name = side.connect(cell["transport"])
    if cell["script"] in MIXES:
        reads, writes = MIXES[cell["script"]]
        update = f"{folder}/update-{cell['column']}.sql"
        work = ["-f", f"{folder}/read.sql@{reads}", "-f", f"{update}@{writes}"]
    else:
        work = ["-b", MADE.get(cell["script"], (cell["script"], []))[0]]
    clients = cell["clients"]
    logs = pathlib.Path(tempfile.mkdtemp(dir=folder))
    command = [str(peer.BIN / "pgbench"), "-n", *work, "-M", cell["protocol"], "-c", str(clients),
               "-j", str(min(clients, 2)), "-T", str(args.seconds), "-l", *flags, name]
    environment = {"PGOPTIONS": f"-c synchronous_commit={cell['synchronous_commit']}",
                   "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, cwd=logs, env=environment, text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    found = [line for line in done.stdout.splitlines() if line.startswith("tps = ")]
    if done.returncode != 0 or not found:
        raise SystemExit(f"{side.name}: {' '.join(command)}\n{done.stdout}")
    result = {"tps": float(found[0].split()[2]), **latencies(logs, args.seconds, args.slice)}
    logs.rmdir()
    return result


def run(sides, cell, args, folder):
    tables = ["hot"] if cell["script"] in MIXES else [
        "pgbench_accounts", "pgbench_tellers", "pgbench_branches"]
    before = {}
    for side in sides:
        side.make(args.scale, MADE.get(cell["script"], ("", []))[1])
        if cell["script"] in MIXES:
            side.sql(*HOT)
        before[side.name] = side.index_bytes(tables)
    figures = {side.name: [] for side in sides}
    for at in range(args.turns):
        for side in sides if at % 2 == 0 else reversed(sides):
            figures[side.name].append(turn(side, cell, args, folder))
    lines = []
    for side in sides:
        side.vacuum(tables)
        turns = figures[side.name]

        def median(name):
            known = [one[name] for one in turns if one[name] is not None]
            return round(statistics.median(known), 3) if known else None

        medians = {name: median(name) for name in ("tps", "p50_ms", "p99_ms", "max_ms")}
        series = {name: [one[name] for one in turns] for name in ("slices_tps", "slices_p99_ms")}
        lines.append({"experiment": "pgbench", "engine": side.name, **cell, **medians, **series,
                      "index_bytes_before": before[side.name],
                      "index_bytes_after": side.index_bytes(tables)})
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default="target/release/rightlink")
    parser.add_argument("--script", default="select-only,tpcb-like,zipfian-50-50,zipfian-5-95")
    parser.add_argument("--protocol", default="prepared")
    parser.add_argument("--transport", default="unix")
    parser.add_argument("--clients", default="")
    parser.add_argument("--synchronous-commit", default="off,on")
    parser.add_argument("--column", default="indexed")
    parser.add_argument("--slice", type=float, default=5.0, help="seconds of a slice")
    parser.add_argument("--scale", type=int, default=10)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="scale 1, one turn of 2 s")
    parser.add_argument("--json")
    parser.add_argument("--dir", default="/tmp")
    args = parser.parse_args()
    if args.quick:
        args.scale, args.seconds, args.turns = 1, 2, 1
    # A file for each client, in pgbench and in the servers.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    out = open(args.json, "a", encoding="utf-8") if args.json else None
    sides = [Side("rightlink", peer.Rightlink(pathlib.Path(args.binary).resolve(), args.dir,
                                              memory="1G")),
             Side("postgresql", peer.Postgres(args.dir, SETTINGS))]
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        try:
            scripts = {f"update-{column}.sql": text for column, text in UPDATES.items()}
            for name, text in [("read.sql", READ), *scripts.items()]:
                pathlib.Path(folder, name).write_text(text, encoding="utf-8")
            compare(sides, args, folder, out)
        finally:
            for side in sides:
                side.server.close()


def compare(sides, args, folder, out):
    print(f"{'script':17} {'column':9} {'protocol':9} {'by':5} {'clients':>7} {'sync':5} {'rightlink':>11} "
          f"{'postgresql':>11} {'ratio':>6}  indexes grew")
    for script in args.script.split(","):
        clients = args.clients or ("64" if script in MIXES else "8")
        # What only reads commits nothing.
        commits = args.synchronous_commit.split(",")[:1 if script == "select-only" else None]
        columns = args.column.split(",")[:None if script in MIXES else 1]
        for column, protocol, transport, count, commit in itertools.product(
                columns, args.protocol.split(","), args.transport.split(","), clients.split(","),
                commits):
            cell = {"script": script, "column": column, "protocol": protocol,
                    "transport": transport, "clients": int(count), "synchronous_commit": commit}
            ours, theirs = run(sides, cell, args, folder)
            grew = [one["index_bytes_after"] / max(one["index_bytes_before"], 1)
                    for one in (ours, theirs)]
            print(f"{script:17} {column:9} {protocol:9} {transport:5} {count:>7} {commit:5} "
                  f"{ours['tps']:11.1f} {theirs['tps']:11.1f} {ours['tps'] / theirs['tps']:6.2f}"
                  f"  {grew[0]:.2f} {grew[1]:.2f}", flush=True)
            for one in (ours, theirs):
                if out:
                    out.write(json.dumps(one) + "\n")


if __name__ == "__main__":
    sys.exit(main())
