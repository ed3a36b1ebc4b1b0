#!/usr/bin/env python3
"""Writes what PostgreSQL 15 answers to the specs in crates/server/isolation into `expected` there.

    apt-get install postgresql-15
    bench/postgres/isolation.py [SPEC...]

Does not do: comparing; `.ci/wire` runs the same specs against `rightlink serve` and compares.
"""

import os
import pathlib
import subprocess
import sys

import peer

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "crates/server/isolation"
TESTER = peer.BIN.parent / "lib/pgxs/src/test/isolation/isolationtester"


def main():
    specs = [pathlib.Path(name) for name in sys.argv[1:]] or sorted(FOLDER.glob("specs/*.spec"))
    server = peer.Postgres("/tmp", {"fsync": "off", "deadlock_timeout": "100ms"})
    environment = dict(os.environ, PGHOST=str(server.home), PGPORT=str(server.port),
                       PGUSER="postgres")
    failed = 0
    try:
        for spec in specs:
            done = subprocess.run([str(TESTER), "dbname=postgres"], env=environment, text=True,
                                  stdin=open(spec, encoding="utf-8"), stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, check=False)
            if done.returncode != 0 or done.stderr:
                failed += 1
                print(f"{spec.name}: {done.returncode}\n{done.stderr}")
                continue
            (FOLDER / "expected" / f"{spec.stem}.out").write_text(done.stdout, encoding="utf-8")
    finally:
        server.close()
    print(f"{len(specs)} specs, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
