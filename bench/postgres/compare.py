#!/usr/bin/env python3
"""PostgreSQL 15 beside two of our experiments, in one run: batches of 10,000 rows into five uuid
indexes with cold leaves, and cold index scans of 1 % and 10 % of a table in random order.

    apt-get install postgresql-15
    cargo build --release -p rightlink-bench
    bench/postgres/compare.py [--bench target/release/rightlink-bench] [--rows 1000000] [--dir /tmp]

The rows have the same shapes and the same distribution on both sides; uuids are random on either.
PostgreSQL gets a server of its own in a fresh directory, that is removed at the end: buffers for
the whole table, no synchronous commit, no checkpoint in the middle, planner costs of a solid-state
drive. Cold means for it that the server was stopped, every file dropped from the page cache, and
the server started again; the batch itself lies in a table that is read into memory before.
Ours are `insert-prefetch` and `index-scan` with direct I/O and everything evicted, reading ahead.

Needs root (it runs the server as the user postgres) or any other user but root. Does not do:
judging a machine that is busy; run it alone.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

BIN = pathlib.Path("/usr/lib/postgresql/15/bin")
BATCH = 10_000
INDEXES = 5
SETTINGS = {
    "listen_addresses": "''", "shared_buffers": "2GB", "synchronous_commit": "off",
    "max_wal_size": "20GB", "checkpoint_timeout": "1h", "autovacuum": "off",
    "random_page_cost": "1.1", "effective_io_concurrency": "200",
    "max_parallel_workers_per_gather": "0", "jit": "off", "maintenance_work_mem": "512MB",
}


class Server:
    """A PostgreSQL server in a directory of its own."""

    def __init__(self, folder):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="compare-postgres-", dir=folder))
        self.data = self.home / "data"
        if os.geteuid() == 0:
            shutil.chown(self.home, "postgres", "postgres")
        self.tool("initdb", "-D", self.data, "-A", "trust", "-U", "postgres")
        lines = [f"{name} = {value}" for name, value in SETTINGS.items()]
        lines.append(f"unix_socket_directories = '{self.home}'")
        with open(self.data / "postgresql.auto.conf", "a", encoding="utf-8") as out:
            out.write("\n".join(lines) + "\n")
        self.start()

    def tool(self, name, *args):
        command = [str(BIN / name), *map(str, args)]
        if os.geteuid() == 0:
            command = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *command]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=self.home)

    def start(self):
        self.tool("pg_ctl", "-D", self.data, "-l", self.home / "log", "-w", "start")

    def stop(self):
        self.tool("pg_ctl", "-D", self.data, "-m", "fast", "-w", "stop")

    def chill(self):
        """Stops, drops all files from the page cache, starts again."""
        self.stop()
        for path in self.data.rglob("*"):
            if path.is_file():
                handle = os.open(path, os.O_RDONLY)
                os.fsync(handle)
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(handle)
        self.start()

    def sql(self, *statements):
        """Runs statements in one session; milliseconds of the last one, as psql tells them."""
        command = ["psql", "-X", "-q", "-t", "-h", str(self.home), "-U", "postgres", "postgres",
                   "-v", "ON_ERROR_STOP=1"]
        script = "\n".join([*statements[:-1], "\\timing on", statements[-1], "\n"])
        done = subprocess.run(command, input=script, text=True, check=True,
                              stdout=subprocess.PIPE)
        times = [line for line in done.stdout.splitlines() if line.startswith("Time: ")]
        return float(times[-1].split()[1])


def inserts(server, rows, turns):
    """Milliseconds for batches with cold leaves."""
    columns = ", ".join(f"u{n} uuid" for n in range(INDEXES))
    uuids = ", ".join(f"gen_random_uuid() u{n}" for n in range(INDEXES))
    server.sql(f"create table t (id int8 primary key, {columns});")
    for n in range(INDEXES):
        server.sql(f"create index on t (u{n});")
    # By insertion, so that leaves are as full as random keys leave them.
    for first in range(0, rows, 100_000):
        last = min(first + 100_000, rows) - 1
        server.sql(f"insert into t select i, {uuids} from generate_series({first}, {last}) i;")
    server.sql("create extension pg_prewarm;")
    times = []
    for turn in range(turns):
        first = rows + turn * BATCH
        server.sql("drop table if exists batch;", f"create unlogged table batch as select i, {uuids} "
                   f"from generate_series({first}, {first + BATCH - 1}) i;", "checkpoint;")
        server.chill()
        times.append(server.sql("select pg_prewarm('batch');", "insert into t select * from batch;"))
    server.sql("drop table t, batch;")
    return times


def scans(server, rows, turns, order="random()"):
    """Milliseconds for cold scans of 1 % and of 10 % of rows that lie in an order, by percentage.
    The query was planned before, so that no catalog is read in the time."""
    server.sql("create unlogged table t (a int8, b text) with (fillfactor = 20);")
    server.sql("insert into t select i, md5(i::text) from generate_series(0, "
               f"{rows - 1}) i order by {order};")
    server.sql("create index on t (a);")
    server.sql("vacuum analyze t;")
    times = {1: [], 10: []}
    for percent, found in times.items():
        wanted = rows * percent // 100
        for turn in range(turns):
            first = rows // 100 + (rows - rows // 50 - wanted) * turn // max(turns - 1, 1)
            query = (f"select count(b) from (select b from t where a between {first} and "
                     f"{first + wanted - 1} order by a) s;")
            server.chill()
            # Rows in the order of the key, as our scan gives them: no bitmap, no sort.
            found.append(server.sql(
                "set enable_seqscan = off; set enable_bitmapscan = off;", f"explain {query}", query))
    server.sql("drop table t;")
    return times


def ours(bench, folder, name, *flags):
    """The JSON lines of an experiment."""
    out = pathlib.Path(folder) / f"compare-{name}-{os.getpid()}.jsonl"
    command = [bench, name, "--json", str(out), "--dir", folder, "--method", "io_uring",
               "--device", "native", *flags]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    for left in out.parent.glob(out.stem + "*"):
        left.unlink()
    return lines


def say(what, theirs, mine, target):
    theirs = statistics.median(theirs)
    verdict = "kept" if theirs / mine >= target else "MISSED"
    print(f"{what}: PostgreSQL {theirs:.0f} ms, ours {mine:.0f} ms: {theirs / mine:.1f} times as "
          f"fast, target {target}: {verdict}", flush=True)


def main():
    args = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    args.add_argument("--bench", default="target/release/rightlink-bench")
    args.add_argument("--rows", type=int, default=1_000_000)
    args.add_argument("--turns", type=int, default=5)
    args.add_argument("--dir", default=tempfile.gettempdir())
    args = args.parse_args()
    began = time.monotonic()
    # Ended from outside, the server is stopped and its directory removed all the same.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    server = Server(args.dir)
    try:
        theirs = inserts(server, args.rows, args.turns)
        cells = ours(args.bench, args.dir, "insert-prefetch", "--rows", str(args.rows),
                     "--indexes", str(INDEXES), "--index", "btree", "--batch", str(BATCH),
                     "--setting", "cold-leaves", "--pairs", str(args.turns))
        mine = next(cell["ms_per_batch"] for cell in cells if cell["prefetch"] == "on")
        say(f"{BATCH} rows into {INDEXES} uuid indexes, cold leaves", theirs, mine, 4)
        theirs = scans(server, args.rows, args.turns)
        cells = ours(args.bench, args.dir, "index-scan", "--rows", str(args.rows), "--fuzz", "-1",
                     "--fillfactor", "20", "--cache", "cold", "--selectivity", "1,10",
                     "--kind", "heap", "--direction", "forward", "--turns", str(args.turns))
        for percent, times in theirs.items():
            mine = next(cell["ms"] for cell in cells
                        if cell["prefetch"] == "adaptive" and cell["selectivity"] == percent)
            say(f"cold scan of {percent} %, rows in random order", times, mine, 2.5)
    finally:
        server.stop()
        shutil.rmtree(server.home)
    print(f"took {time.monotonic() - began:.0f} s; load average {os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    main()
