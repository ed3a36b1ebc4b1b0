"""Writes queries.jsonl: what tools ask of the catalogs of a PostgreSQL server, from its log.

    capture.py --port PORT --log FILE --tools DIR [TOOL ...]

The server runs on this machine with wal_level = logical, lets everybody in, and logs to FILE with
`%m [%p] ` before each line. DIR has the tools: a virtual environment `py`, `node/node_modules`,
`java/pg.jar`, `java/hibernate/cp.txt` and `java/debezium/cp.txt` with the class paths of Hibernate and
of Debezium's embedded engine with its connector (2.7.4), `go/gorm`.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import psycopg

import objects
import schema

HERE = pathlib.Path(__file__).resolve().parent
DATABASE = "catalogs"
ENTRY = re.compile(r"^\d{4}-\d\d-\d\d [\d:.]+ \w+ \[\d+\] (\w+):  (.*)", re.S)
STATEMENT = re.compile(r"^(?:statement|execute [^:]*|parse [^:]*): (.*)", re.S)
CATALOGS = re.compile(
    r"\bpg_\w+|information_schema|current_schema|regclass|regtype|\bto_reg|_description\b|version\(", re.I
)
# Positions of the log, numbers of transactions and slots are nothing that catalogs tell alike.
MOVING = re.compile(r"\bpg_(current|last)_wal_\w+|\btxid_|\bpg_(create|drop)_\w*slot")
PYTHON = ["sqlalchemy", "alembic", "django", "pandas", "asyncpg", "psycopg", "pgcli", "peewee"]
PYTHON += ["adbc", "polars"]
NODE = ["knex", "sequelize", "typeorm"]
BACKSLASH = r"""\d \d+ \d+|t001 \dt \dt+ \dt|app.* \di \di+ \ds \ds+ \dv \dv+ \dm \dn \dn+ \dp \dp|t001 \l \l+ \du
\du+ \dg \db \db+ \dD \dD+ \dT \dT+ \df \df+ \da \dC \dc \dd \do \dO \dF \dFd \dFp \dFt \dx \dx+ \dy \dL
\dA \dA+ \dAc \dAf \dAo \dAp \des \det \deu \dew \drds \dRp \dRs \dX \dP \ddp \dconfig|work* \dE \dl
\d|t004 \d|app.t004 \d+|v000 \d|seq1 \d|t001_i7 \d+|t001_i8 \d|pair \d|t00* \sv|v000 \sf|lower
\dT+|mood \dT|app.* \df|*lower* \dS|pg_cl* \di|t001*""".split()
MOST = 110


def commands(tools, port):
    """The command of each tool."""
    at = ["-h", "127.0.0.1", "-p", str(port), "-U", "rightlink"]
    asks = [word for one in BACKSLASH for word in ("-c", one.replace("|", " "))]
    url = f"host=127.0.0.1 port={port} user=rightlink dbname={DATABASE} sslmode=disable"
    other = ["psql", "-X", "-q", *at, "-d", "postgres", "-v", f"port={port}"]
    other += ["-v", f"database={DATABASE}", "-v", f"at={url}"]
    paths = {name: tools / f"java/{name}/cp.txt" for name in ("hibernate", "debezium")}
    classes = {name: path.read_text().strip() if path.exists() else "" for name, path in paths.items()}
    compile_and_run = 'javac -d . -cp "$1" "$2" && java -cp ".:$1" "$3" "$4" "$5"'
    drizzle = f"--config={HERE}/tools/drizzle.config.js"
    kit = f"{tools}/node/node_modules/.bin/drizzle-kit"
    found = {
        "psql": ["psql", "-X", *at, "-d", DATABASE, *asks],
        "pg_dump": ["pg_dump", *at, "-s", DATABASE],
        "pgjdbc": ["java", "-cp", f"{tools}/java/pg.jar", HERE / "tools/Tools.java", str(port), DATABASE],
        "gorm": [tools / "go/gorm", url],
        "hibernate": [
            "sh", "-c", compile_and_run, "sh", classes["hibernate"], HERE / "tools/Hibernate.java",
            "Hibernate", str(port), DATABASE,
        ],
        "debezium": [
            "sh", "-c", compile_and_run, "sh", classes["debezium"], HERE / "tools/Debezium.java",
            "Debezium", str(port), DATABASE,
        ],
        "pgbench": ["sh", "-c", 'pgbench -q -i "$@" && pgbench -t 2 "$@"', "sh", *at, DATABASE],
        "postgres_fdw": [*other, "-f", HERE / "tools/fdw.sql"],
        "subscriber": [*other, "-f", HERE / "tools/subscriber.sql"],
        "drizzle": ["sh", "-c", f"{kit} pull {drizzle}; {kit} push --force {drizzle}; {kit} push --force {drizzle}"],
    }
    for name in PYTHON:
        found[name] = [tools / "py/bin/python", HERE / "tools/tools.py", name, str(port), DATABASE]
    for name in NODE:
        found[name] = ["node", HERE / "tools/tools.js", name, str(port), DATABASE]
    return found


def entries(text):
    """Kinds and texts of what a log tells."""
    lines = []
    for line in text.splitlines():
        if ENTRY.match(line):
            lines.append(line)
        elif lines:
            lines[-1] += "\n" + line.removeprefix("\t")
    return [ENTRY.match(line).groups() for line in lines]


def bound(query, parameters):
    """A query with its parameters in their places."""
    values = dict(re.findall(r"(\$\d+) = ('(?:[^']|'')*'|NULL)", parameters))
    return re.sub(r"\$\d+", lambda found: values.get(found[0], found[0]), query)


def queries(text):
    """Queries of catalogs that a log tells of."""
    found = []
    for kind, rest in entries(text):
        statement = STATEMENT.match(rest)
        if kind == "LOG" and statement:
            found.append(statement[1].strip())
        elif kind == "DETAIL" and found and rest.startswith("parameters: "):
            found[-1] = bound(found[-1], rest)
    asks = re.compile(r"^(--[^\n]*\n|/\*.*?\*/|\s)*\(?\s*(select|with|show|execute)\b", re.I | re.S)
    asked = [one for one in found if asks.match(one) and CATALOGS.search(one)]
    return [one for one in asked if not MOVING.search(one)]


def without_near_copies(found):
    """Each once, and of those that differ in constants alone two."""
    kept, shapes = [], {}
    for one in found:
        shape = re.sub(r"\{oid [^}]*\}|'[^']*'|\d+", "?", one)
        shapes[shape] = shapes.get(shape, 0) + 1
        if one not in kept and shapes[shape] <= 2:
            kept.append(one)
    return kept[:MOST]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--log", type=pathlib.Path, required=True)
    parser.add_argument("--tools", type=pathlib.Path, required=True)
    parser.add_argument("tool", nargs="*")
    given = parser.parse_args()
    at = f"host=127.0.0.1 port={given.port} user=rightlink"
    with psycopg.connect(f"{at} dbname=postgres", autocommit=True) as one:
        one.execute(f"drop database if exists {DATABASE}")
        one.execute(f"create database {DATABASE}")
    with psycopg.connect(f"{at} dbname={DATABASE}", autocommit=True) as one:
        for statement in schema.statements(6):
            one.execute(statement)
        one.execute(schema.SEEN)
        one.execute("insert into seen select g, g % 7 from generate_series(1, 20) g")
        one.execute("create publication told for table seen")
        one.execute("select pg_create_logical_replication_slot('listener', 'pgoutput')")
        one.execute(f"alter database {DATABASE} set log_statement = 'all'")
    kept = {}
    output = HERE / "queries.jsonl"
    if given.tool and output.exists():
        for line in output.read_text().splitlines():
            tool, query = json.loads(line)
            kept.setdefault(tool, []).append(query)
    for tool, command in commands(given.tools.resolve(), given.port).items():
        if given.tool and tool not in given.tool:
            continue
        with psycopg.connect(f"{at} dbname={DATABASE} options='-c log_statement=none'") as one:
            before = objects.labels(one.cursor())
        start = given.log.stat().st_size
        env = os.environ | {
            "NODE_PATH": str(given.tools.resolve() / "node/node_modules"),
            "DRIZZLE_URL": f"postgres://rightlink@127.0.0.1:{given.port}/{DATABASE}",
            "DRIZZLE_SCHEMA": str(HERE / "tools/drizzle.schema.js"),
        }
        with tempfile.TemporaryDirectory() as folder:
            run = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
        with given.log.open("rb") as log:
            log.seek(start)
            text = log.read().decode(errors="replace")
        kept[tool] = without_near_copies([objects.mark(one, before) for one in queries(text)])
        print(f"{tool}: {len(kept[tool])} queries, exit {run.returncode}")
        if run.returncode:
            print(run.stderr[-1500:], file=sys.stderr)
    with output.open("w") as file:
        for tool in sorted(kept):
            file.writelines(json.dumps([tool, query]) + "\n" for query in kept[tool])


if __name__ == "__main__":
    main()
