#!/usr/bin/env python3
"""Dumps a database of Rightlink with pg_dump, and restores it into PostgreSQL and into Rightlink.

`dump.sql` makes one of each kind of object that a dump has. The dump is a script for psql, and an
archive for pg_restore. Each restored database must have the rows of the first one, and a dump of
each restored database of Rightlink must be the dump that it was made of. A dump that PostgreSQL
makes of what was restored into it must restore into Rightlink, too.

Does not do: roles and privileges (`privileges.py`).
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import peer

SCHEMA = pathlib.Path(__file__).with_name("dump.sql")

# Relations of users. A view that counts a sequence up tells another number each time.
RELATIONS = """
select c.oid::regclass, c.relkind from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'v', 'S') and n.nspname not in ('pg_catalog', 'information_schema')
    and n.nspname not like 'pg_toast%' and c.relname <> 'asked'
order by n.nspname, c.relname"""


def run(name, server, *args, database="postgres"):
    """Runs a program of PostgreSQL; what it prints."""
    parts = server.connection
    command = [str(peer.BIN / name), "-h", parts["host"], "-p", parts["port"], "-U", parts["user"],
               "-d", database, *map(str, args)]
    done = subprocess.run(command, text=True, capture_output=True, check=False,
                          env={**os.environ, "PGTZ": "UTC"})
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr}")
    return done.stdout


def psql(server, *args, database="postgres"):
    return run("psql", server, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", *args,
               database=database)


def contents(server, database="postgres"):
    """The rows of each table and view, in one order, and where each sequence is."""
    found = {}
    for line in psql(server, "-c", RELATIONS, database=database).splitlines():
        relation, kind = line.rsplit("|", 1)
        columns = "last_value, is_called" if kind == "S" else "*"
        rows = psql(server, "-c", f"select {columns} from {relation}", database=database)
        found[relation] = sorted(rows.splitlines())
    return found


def dump(server, path, *args, database="postgres"):
    run("pg_dump", server, "-f", path, *args, database=database)
    return path


def script(server, path):
    """A dump as lines, without those that have a new key each time."""
    lines = dump(server, path).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith(("\\restrict", "\\unrestrict"))]


def check_equal(what, first, second):
    """Ends with an error unless both are equal."""
    if first == second:
        print(f"equal: {what}", flush=True)
        return
    if isinstance(first, dict):
        first, second = ([f"{key}: {value}" for key, value in of.items()] for of in (first, second))
    for line in first:
        if line not in second:
            print(f"only in the first: {line}")
    for line in second:
        if line not in first:
            print(f"only in the second: {line}")
    raise SystemExit(f"different: {what}")


def drive(work, ours, theirs):
    """Restores dumps; `ours` makes a new server of Rightlink."""
    first = ours()
    psql(first, "-f", SCHEMA)
    plain, archive = work / "plain.sql", work / "archive"
    lines, rows = script(first, plain), contents(first)
    dump(first, archive, "-F", "custom")

    psql(theirs, "-c", "create role rightlink", "-c", "create database archived")
    psql(theirs, "-f", plain)
    check_equal("rows in PostgreSQL", rows, contents(theirs))
    run("pg_restore", theirs, "--exit-on-error", archive, database="archived")
    check_equal("rows of an archive in PostgreSQL", rows, contents(theirs, "archived"))

    second = ours()
    psql(second, "-f", plain)
    check_equal("rows in Rightlink", rows, contents(second))
    check_equal("second dump", lines, script(second, work / "second.sql"))
    third = ours()
    run("pg_restore", third, "--exit-on-error", archive)
    check_equal("rows of an archive in Rightlink", rows, contents(third))
    check_equal("second dump of an archive", lines, script(third, work / "third.sql"))

    fourth = ours()
    psql(fourth, "-f", dump(theirs, work / "theirs.sql", "--no-owner"))
    check_equal("rows of PostgreSQL's dump in Rightlink", rows, contents(fourth))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default="target/release/rightlink")
    parser.add_argument("--dir", default="/tmp")
    args = parser.parse_args()
    servers = []

    def ours():
        servers.append(peer.Rightlink(args.binary, args.dir))
        return servers[-1]

    work = pathlib.Path(tempfile.mkdtemp(prefix="dump-", dir=args.dir))
    servers.append(peer.Postgres(args.dir, {"fsync": "off", "timezone": "'UTC'"}))
    try:
        drive(work, ours, servers[0])
    finally:
        for server in servers:
            server.close()
        shutil.rmtree(work)


if __name__ == "__main__":
    sys.exit(main())
