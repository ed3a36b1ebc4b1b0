#!/usr/bin/env python3
"""Experiment `tpch`: the 22 queries of TPC-H, through `rightlink serve` and PostgreSQL 15.

    apt-get install postgresql-15
    cargo build --release -p rightlink-cli
    pip install 'psycopg[binary]'
    bench/postgres/tpch.py [--binary target/release/rightlink] [--scale 1] [--turns 3]
        [--memory 4G] [--only 1,6,14] [--seconds 300] [--json FILE] [--dir /tmp]

Both servers hold the same rows (tpch_data.py), primary keys, indexes of the foreign keys and
statistics, and have `--memory` for pages: by default all are in memory. PostgreSQL runs without
parallel workers and without its compiler. The two take turns, query by query, and the rows of their
answers are compared, sorted.

A line for each query: whether the answers are equal, medians in milliseconds and their ratio; at the
end the total. Ends with 1 if an answer differs. A query that takes longer than `--seconds` is told,
and counts with that time.

Does not do: TPC's rules for a published result (its refresh functions, streams, and parameters drawn
anew); judging a machine that is busy.
"""

import argparse
import os
import pathlib
import statistics
import sys
import time

import peer
import tpch_data

SETTINGS = {"max_wal_size": "10GB", "checkpoint_timeout": "1h", "autovacuum": "off", "jit": "off",
            "max_parallel_workers_per_gather": "0", "synchronous_commit": "off", "work_mem": "64MB",
            "maintenance_work_mem": "256MB"}
BATCH = 20_000


def queries():
    """The texts between the lines `-- Qn` of tpch.sql, with the specification's parameters."""
    found, number = {}, None
    for line in (pathlib.Path(__file__).parent / "tpch.sql").read_text("utf-8").splitlines():
        if line.startswith("-- Q"):
            number = int(line[4:])
            found[number] = ""
        elif number is not None:
            found[number] += line + "\n"
    return found


def load(servers, scale):
    maker = tpch_data.Maker(scale)
    sessions = [peer.Session(server) for server in servers]
    for table, columns in tpch_data.TABLES.items():
        began = time.monotonic()
        for session in sessions:
            session.must(f"create table {table} ({columns})")
        count, batch = 0, []
        for row in maker.rows(table):
            batch.append("\t".join(row))
            count += 1
            if len(batch) == BATCH:
                send(sessions, table, batch)
        send(sessions, table, batch)
        print(f"{table}: {count} rows in {time.monotonic() - began:.0f} s", flush=True)
    for session in sessions:
        for table, columns in tpch_data.INDEXES:
            session.must(f"create index on {table} ({columns})")
        session.must("vacuum analyze")
        session.must("checkpoint")
        session.close()


def send(sessions, table, batch):
    if not batch:
        return
    data = "\n".join(batch) + "\n"
    for session in sessions:
        with session.connection.cursor() as cursor, cursor.copy(f"copy {table} from stdin") as copy:
            copy.write(data)
    batch.clear()


def ask(session, query):
    """Milliseconds and the answer."""
    began = time.monotonic()
    answer = session.run(query)
    return (time.monotonic() - began) * 1_000, answer


def equal(ours, theirs):
    if ours[0] == "error" or theirs[0] == "error":
        return ours == theirs
    # Rows that tie may come in any order.
    return sorted(map(str, ours[1])) == sorted(map(str, theirs[1]))


def run(servers, args):
    sessions = [peer.Session(server) for server in servers]
    for session in sessions:
        session.must(f"set statement_timeout = {args.seconds * 1000}")
    lines, wrong = [], 0
    for number, query in queries().items():
        if args.only and number not in args.only:
            continue
        times, same, rows = [[], []], True, 0
        for turn in range(args.turns):
            answers = []
            for side, session in enumerate(sessions):
                took, answer = ask(session, query)
                times[side].append(took)
                answers.append(answer)
            same = equal(*answers)
            rows = len(answers[1][1]) if answers[1][0] != "error" else -1
            if not same or answers[0][0] == "error":
                print(f"Q{number}: ours {str(answers[0])[:300]}\n theirs {str(answers[1])[:300]}")
                break
        wrong += not same
        ours, theirs = map(statistics.median, times)
        lines.append({"experiment": "tpch", "query": number, "scale": args.scale, "equal": same,
                      "rows": rows, "ms": round(ours, 1), "postgres_ms": round(theirs, 1),
                      "least_ms": round(min(times[0]), 1), "most_ms": round(max(times[0]), 1),
                      "ratio": round(ours / theirs, 3), "memory": args.memory})
        print(f"Q{number:<3} {'equal' if same else 'DIFFERS':8} {rows:7} {ours:10.1f} {theirs:10.1f} "
              f"{ours / theirs:7.2f}", flush=True)
    total = [sum(line[key] for line in lines) for key in ("ms", "postgres_ms")]
    print(f"total {'':16} {total[0]:10.1f} {total[1]:10.1f} {total[0] / total[1]:7.2f}, "
          f"{len(lines) - wrong} of {len(lines)} answers equal")
    peer.append_lines(args.json, lines)
    for session in sessions:
        session.close()
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default="target/release/rightlink")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--memory", default="4G")
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--only", type=lambda text: [int(one) for one in text.split(",")])
    parser.add_argument("--json")
    parser.add_argument("--dir", default="/tmp")
    args = parser.parse_args()
    servers = []
    try:
        servers.append(peer.Rightlink(pathlib.Path(args.binary).resolve(), args.dir,
                                      memory=args.memory))
        servers.append(peer.Postgres(args.dir, {**SETTINGS, "shared_buffers": args.memory + "B"}))
        load(servers, args.scale)
        wrong = run(servers, args)
        servers[0].verify()
    finally:
        for server in servers:
            server.close()
    print(f"load average {os.getloadavg()[0]:.2f}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
