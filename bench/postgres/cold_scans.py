#!/usr/bin/env python3
"""Cold index scans through the page cache, for heaps in every order: PostgreSQL 15 and
`rightlink-bench index-scan --io buffered`, one order after the other in one run.

    apt-get install postgresql-15
    cargo build --release -p rightlink-bench
    bench/postgres/cold_scans.py [--bench target/release/rightlink-bench] [--rows 1000000]
        [--fuzz 0,64,...] [--turns 3] [--json FILE] [--dir /tmp]

The rows have the same shapes and orders on both sides, the server is that of `compare.py`. Both
read through a page cache that was emptied before, with the system's read-ahead as the machine has
it. PostgreSQL has planned the query before, so that no catalog is read in the time. A line for each
order and range: medians, and how many times as fast Rightlink is; then the geometric mean.

Does not do: SQL on our side (the experiment calls the engine); judging a machine that is busy.
"""

import argparse
import json
import math
import os
import pathlib
import shutil
import signal
import statistics
import sys
import tempfile

import compare

FUZZ = "0,64,1024,16384,65536,262144,1000000,-1"
PERCENTS = (1, 10)


def main():
    args = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    args.add_argument("--bench", default="target/release/rightlink-bench")
    args.add_argument("--rows", type=int, default=1_000_000)
    args.add_argument("--fuzz", default=FUZZ)
    args.add_argument("--turns", type=int, default=3)
    args.add_argument("--json")
    args.add_argument("--dir", default=tempfile.gettempdir())
    args = args.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    server = compare.Server(args.dir)
    lines = []
    try:
        for fuzz in map(int, args.fuzz.split(",")):
            order = "random()" if fuzz < 0 else f"i + {fuzz} * (random() - 0.5)"
            times = compare.scans(server, args.rows, args.turns, order)
            cells = compare.ours(
                args.bench, args.dir, "index-scan", "--rows", str(args.rows), "--fuzz", str(fuzz),
                "--fillfactor", "20", "--cache", "cold", "--io", "buffered", "--selectivity",
                ",".join(map(str, PERCENTS)), "--kind", "heap", "--direction", "forward",
                "--turns", str(args.turns))
            for percent in PERCENTS:
                mine = next(cell["ms"] for cell in cells if cell["prefetch"] == "adaptive"
                            and cell["selectivity"] == percent)
                other = statistics.median(times[percent])
                lines.append({"fuzz": fuzz, "percent": percent, "rows": args.rows,
                              "postgresql_ms": other, "rightlink_ms": mine})
                print(f"fuzz {fuzz:8} {percent:3} %: PostgreSQL {other:8.1f} ms, "
                      f"Rightlink {mine:8.1f} ms: {other / mine:.2f}", flush=True)
    finally:
        server.stop()
        shutil.rmtree(server.home)
    logs = [math.log(line["postgresql_ms"] / line["rightlink_ms"]) for line in lines]
    print(f"geometric mean {math.exp(sum(logs) / len(logs)):.2f}; "
          f"load average {os.getloadavg()[0]:.2f}")
    if args.json:
        text = "".join(json.dumps(line) + "\n" for line in lines)
        pathlib.Path(args.json).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
