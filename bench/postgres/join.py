#!/usr/bin/env python3
"""Experiment `join`: keys joined into a large table, through `rightlink serve`, PostgreSQL 15,
PostgreSQL 18 where `POSTGRES18` names the directory of its programs, and SQLite.

    apt-get install postgresql-15
    cargo build --release -p rightlink-cli
    bench/postgres/join.py [--binary target/release/rightlink] [--rows 3000000] [--turns 3]
        [--keys 1,1000,20000,200000] [--shapes primary,secondary,chain,semi,limit]
        [--temperature cold,warm] [--memory 96] [--json FILE] [--dir /tmp]

| shape | what is joined |
|---|---|
| primary | random keys with the table by its primary key |
| secondary | a fifth as many with the five rows that each has under another index |
| chain | the same as primary, and what is found with a second table by its primary key |
| semi | keys for which a row exists |
| limit | the first row of primary |

All hold the same rows and statistics, and get the same memory for their caches. Cold means that
the server was stopped, its files dropped from the page cache, and the server started again. Warm
means that the session has just run the same. Ours runs the plan that it chooses and each that it
can be made to choose; the others run theirs, and PostgreSQL its hash join as well. They take turns.
The figures are the medians of the turns. Cold, ours also runs beside the page cache (`--direct`),
and for `limit` says how many pages the device gives for the join, and for a loop that is forced.

Does not do: judging a machine that is busy; run it alone.
"""

import argparse
import json
import os
import pathlib
import sqlite3
import statistics
import sys
import tempfile
import time

import peer

SETTINGS = {"max_wal_size": "10GB", "checkpoint_timeout": "1h", "autovacuum": "off", "jit": "off",
            "max_parallel_workers_per_gather": "0", "synchronous_commit": "off",
            "random_page_cost": "1.1", "effective_io_concurrency": "200"}
# Settings that leave one plan. An empty one leaves the choice.
OURS = {"chosen": "", "keyed": "set enable_hashjoin = off;",
        "hash": "set enable_nestloop = off;"}
THEIRS = {"chosen": "", "hash": "set enable_nestloop = off; set enable_mergejoin = off;"}
DIRECT = ("--direct",)
# The first row by a loop, which OFFSET 0 forces.
LOOP = ("select v from keys_{n} k cross join lateral "
        "(select v from t where t.id = k.id offset 0) t limit 1")
SHAPES = {
    "primary": "select count(*), sum(t.v) from keys_{n} k join t on t.id = k.id",
    "secondary": "select count(*), sum(t.v) from few_{n} k join t on t.grp = k.grp",
    "chain": "select count(*), sum(u.w) from keys_{n} k join t on t.id = k.id "
             "join u on u.id = t.ref",
    "semi": "select count(*) from keys_{n} k where exists "
            "(select 1 from t where t.id = k.id and t.v >= 0)",
    "limit": "select t.v from keys_{n} k join t on t.id = k.id limit 1",
}


def fill_server(server, args):
    """The tables, by one series of numbers that is the same everywhere."""
    mixed = "((g::bigint * 2654435761) % {m})::int"
    of_rows = mixed.format(m=args.rows)
    script = [
        "create table t (id int primary key, grp int, ref int, v int, pad text);",
        f"insert into t select g, {mixed.format(m=args.rows // 5)}, {of_rows} / 3, g % 1000, "
        f"repeat('x', 90) from generate_series(0, {args.rows - 1}) g;",
        "create index on t (grp);",
        "create table u (id int primary key, w int, pad text);",
        f"insert into u select g, g % 100, repeat('y', 90) "
        f"from generate_series(0, {args.rows // 3}) g;"]
    for n in args.keys:
        script += [
            f"create table keys_{n} (id int);", f"create table few_{n} (grp int);",
            f"insert into keys_{n} select ((g::bigint * 48271 * 7919) % {args.rows})::int "
            f"from generate_series(1, {n}) g;",
            f"insert into few_{n} select ((g::bigint * 48271 * 7919) % {args.rows // 5})::int "
            f"from generate_series(1, {max(1, n // 5)}) g;"]
    script.append("vacuum analyze;")
    peer.psql(server, "\n".join(script))


class Server:
    """A server of either kind with a name, its plans, and its files."""

    def __init__(self, name, server, plans):
        self.name, self.server, self.plans = name, server, plans

    def chill(self, flags=()):
        self.server.stop()
        peer.drop_page_cache(self.server.home)
        self.server.flags = flags
        self.server.start()

    def time(self, settings, query, temperature):
        """Milliseconds."""
        before = f"{query};" if temperature == "warm" else ""
        script = f"{settings}\n{before}\n\\timing on\n{query};"
        return peer.psql(self.server, script)[-1]

    def pages(self, query):
        """Pages that the device gives for a query, when the catalogs have been read."""
        self.chill(DIRECT)
        session = peer.Session(self.server)
        session.must(f"explain {query}")
        io = pathlib.Path(f"/proc/{self.server.process.pid}/io")
        given = lambda: next(int(line.split()[1]) for line in io.read_text().splitlines()
                             if line.startswith("read_bytes"))
        before = given()
        session.must(query)
        pages = (given() - before) / 8192
        session.close()
        return pages

    def rows(self, query):
        session = peer.Session(self.server)
        rows = session.run(query)[1]
        session.close()
        return rows

    def close(self):
        self.server.close()


class Sqlite:
    """The same rows in SQLite, within this process."""

    name, plans = "sqlite", {"chosen": ""}

    def __init__(self, source, args):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="peer-sqlite-", dir=args.dir))
        self.memory = args.memory
        self.connection = None
        self.open()
        tables = {"t": "id integer primary key, grp int, ref int, v int, pad text",
                  "u": "id integer primary key, w int, pad text"}
        for n in args.keys:
            tables[f"keys_{n}"] = "id int"
            tables[f"few_{n}"] = "grp int"
        reader = __import__("psycopg").connect(
            " ".join(f"{key}='{value}'" for key, value in source.connection.items()))
        for table, columns in tables.items():
            self.connection.execute(f"create table {table} ({columns})")
            with reader.cursor(name="all") as cursor:
                cursor.itersize = 10_000
                cursor.execute(f"select * from {table}")
                marks = ", ".join("?" for _ in columns.split(","))
                self.connection.executemany(f"insert into {table} values ({marks})", cursor)
        reader.close()
        self.connection.execute("create index t_grp on t (grp)")
        self.connection.execute("analyze")
        self.connection.commit()

    def open(self):
        self.connection = sqlite3.connect(self.home / "db")
        self.connection.execute(f"pragma cache_size = -{self.memory * 1024}")

    def chill(self, _=()):
        self.connection.close()
        peer.drop_page_cache(self.home)
        self.open()

    def time(self, _, query, temperature):
        if temperature == "warm":
            self.connection.execute(query).fetchall()
        start = time.perf_counter()
        self.connection.execute(query).fetchall()
        return (time.perf_counter() - start) * 1000

    def rows(self, query):
        return [[str(value) for value in row] for row in self.connection.execute(query).fetchall()]

    def close(self):
        self.connection.close()
        for path in self.home.iterdir():
            path.unlink()
        self.home.rmdir()


def check(servers, query, shape):
    """Fails if the answers differ; any row may be the first one."""
    if shape == "limit":
        return
    answers = {server.name: server.rows(query) for server in servers}
    if len({json.dumps(rows) for rows in answers.values()}) != 1:
        raise SystemExit(f"the answers differ: {query}: {answers}")


def measure(servers, query, temperature, turns):
    """Medians by (server, plan) over turns that alternate."""
    times = {}
    for _ in range(turns):
        for server in servers:
            for plan, settings in server.plans.items():
                if temperature == "cold":
                    server.chill()
                took = server.time(settings, query, temperature)
                times.setdefault((server.name, plan), []).append(took)
        if temperature == "cold":
            servers[0].chill(DIRECT)
            took = servers[0].time("", query, temperature)
            times.setdefault((servers[0].name, "direct"), []).append(took)
            servers[0].chill()
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default="target/release/rightlink")
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--keys", default="1,1000,20000,200000",
                        type=lambda text: [int(part) for part in text.split(",")])
    parser.add_argument("--shapes", default=",".join(SHAPES), type=lambda text: text.split(","))
    parser.add_argument("--temperature", default="cold,warm", type=lambda text: text.split(","))
    parser.add_argument("--memory", type=int, default=96, help="MiB of cache for each")
    parser.add_argument("--json")
    parser.add_argument("--dir", default="/tmp")
    args = parser.parse_args()
    settings = dict(SETTINGS, shared_buffers=f"{args.memory}MB")
    servers = []
    try:
        binary = pathlib.Path(args.binary).resolve()
        ours = peer.Rightlink(binary, args.dir, memory=f"{args.memory}M")
        servers.append(Server("rightlink", ours, OURS))
        servers.append(Server("postgres15", peer.Postgres(args.dir, settings), THEIRS))
        if "POSTGRES18" in os.environ:
            theirs = peer.Postgres(args.dir, settings, programs=os.environ["POSTGRES18"])
            servers.append(Server("postgres18", theirs, THEIRS))
        for server in servers:
            fill_server(server.server, args)
        servers.append(Sqlite(servers[1].server, args))
        lines = []
        for shape in args.shapes:
            for n in args.keys:
                query = SHAPES[shape].format(n=n)
                check(servers, query, shape)
                for temperature in args.temperature:
                    times = measure(servers, query, temperature, args.turns)
                    medians = {who: statistics.median(took) for who, took in times.items()}
                    peers = min(medians[who] for who in medians
                                if who[0] != "rightlink" and who[1] == "chosen")
                    forced = min(medians["rightlink", plan] for plan in OURS)
                    chosen = medians["rightlink", "chosen"]
                    for (name, plan), took in times.items():
                        lines.append({
                            "experiment": "join", "shape": shape, "keys": n, "rows": args.rows,
                            "temperature": temperature, "server": name, "plan": plan,
                            "memory_mib": args.memory, "turns": args.turns,
                            "ms": round(statistics.median(took), 2),
                            "least_ms": round(min(took), 2), "most_ms": round(max(took), 2)})
                    print(f"{shape:10} {n:7} {temperature:5} " + " ".join(
                        f"{name}/{plan} {took:.1f}" for (name, plan), took in medians.items())
                        + f" | of the best peer {chosen / peers:.2f}, of our best "
                        f"{chosen / forced:.2f}", flush=True)
                if shape == "limit":
                    pages = {"join": servers[0].pages(query),
                             "loop": servers[0].pages(LOOP.format(n=n))}
                    print(f"{shape:10} {n:7} pages {pages}", flush=True)
                    lines.append({"experiment": "join", "shape": shape, "keys": n,
                                  "rows": args.rows, "server": "rightlink", "pages": pages})
        peer.append_lines(args.json, lines)
        ours.verify()
    finally:
        for server in servers:
            server.close()
    print(f"load average {os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    sys.exit(main())
