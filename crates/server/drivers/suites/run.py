"""Runs a driver's own suite of tests against a server and says how much of it passes.

    run.py asyncpg|pgx|sqlalchemy --port PORT --cache DIR [--least PERCENT]

Beside this script lies a list for each suite: names of tests that are left out, as patterns of
fnmatch, each under the reason. Everything else counts. The server is one that lets everybody in,
with the databases `test` and `postgres`. The run fails if less than PERCENT of what counts passes.
"""

import argparse
import fnmatch
import json
import os
import pathlib
import shutil
import subprocess
import sys
import xml.etree.ElementTree

ASYNCPG = "0.30.0"
PGX = "v5.7.5"
SQLALCHEMY = "2.0.58"
HERE = pathlib.Path(__file__).resolve().parent


def excluded(name):
    """Patterns with the reason that each stands under."""
    reason, patterns = None, {}
    for line in (HERE / f"{name}.txt").read_text().splitlines():
        if line.startswith("# "):
            reason = line[2:]
        elif line.strip():
            assert reason, f"{line} has no reason"
            patterns[line.strip()] = reason
    return patterns


def python_suite(home, package, beside):
    """The interpreter of a new environment with a package, whose source is unpacked beside it."""
    python = home / "venv/bin/python"
    if not (home / "unpacked").exists():
        subprocess.run([sys.executable, "-m", "venv", home / "venv"], check=True)
        pip = [home / "venv/bin/pip", "-q"]
        subprocess.run([*pip, "install", package, *beside], check=True)
        source = ["download", "--no-deps", "--no-binary", ":all:", package]
        subprocess.run([*pip, *source, "-d", home], check=True)
        [archive] = home.glob("*.tar.gz")
        unpack = ["tar", "xzf", archive, "--one-top-level=unpacked", "--strip-components=1"]
        subprocess.run(unpack, cwd=home, check=True)
    return python


def asyncpg(cache, port):
    """Outcomes of asyncpg's tests by name. One of whose parts fails has failed."""
    home = cache / f"asyncpg-{ASYNCPG}"
    beside = ["pytest", "pytest-subtests", "pytest-timeout", "distro"]
    python = python_suite(home, f"asyncpg=={ASYNCPG}", beside)
    if not (home / "tests").exists():
        # Beside the package's source the tests would import that instead of what is installed.
        shutil.copytree(home / "unpacked/tests", home / "tests")
    where = {"PGHOST": "127.0.0.1", "PGPORT": str(port), "PGUSER": "postgres"}
    report = home / "report.xml"
    command = [python, "-m", "pytest", "tests", "-q", "--timeout", "60", f"--junitxml={report}"]
    command += ["--ignore", "tests/test__sourcecode.py", "-p", "no:cacheprovider"]
    subprocess.run(command, cwd=home, env=os.environ | where, stdout=subprocess.DEVNULL)
    return reported(report)


def sqlalchemy(cache, port):
    """Outcomes of the tests that every dialect of SQLAlchemy has, and of PostgreSQL's own."""
    home = cache / f"sqlalchemy-{SQLALCHEMY}"
    beside = ["psycopg2-binary", "pytest", "pytest-timeout"]
    python = python_suite(home, f"SQLAlchemy=={SQLALCHEMY}", beside)
    # It begins by making extensions, which are refused by name, and would end there.
    start = home / "unpacked/lib/sqlalchemy/dialects/postgresql/provision.py"
    text = start.read_text()
    for extension in ["citext", "hstore"]:
        text = text.replace(f'    ("{extension}", (13,)),\n', "")
    start.write_text(text)
    at = ["-h", "127.0.0.1", "-p", str(port), "-U", "rightlink", "-d", "test"]
    for schema in ["test_schema", "test_schema_2"]:
        make = f"create schema if not exists {schema}"
        subprocess.run(["psql", "-X", "-q", *at, "-c", make], check=True)
    url = f"postgresql+psycopg2://rightlink@127.0.0.1:{port}/test"
    outcomes = {}
    # Thousands of tests of ranges, which are refused by name, would take as many seconds to fail.
    for tests in [["test/dialect/test_suite.py"], ["test/dialect/postgresql", "-k", "not Range"]]:
        report = home / "report.xml"
        command = [python, "-m", "pytest", *tests, "-q", "--timeout", "60", "--dburi", url]
        command += [f"--junitxml={report}", "--maxfail=100000", "-p", "no:cacheprovider"]
        command += ["-p", "no:logging"]
        subprocess.run(command, cwd=home / "unpacked", stdout=subprocess.DEVNULL)
        outcomes |= reported(report)
    return outcomes


def reported(report):
    """Outcomes of tests by name, as pytest reports them."""
    outcomes = {}
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        name = case.get("classname").split(".")[-1] + "." + case.get("name").split(" ")[0]
        if case.find("skipped") is not None:
            outcomes.setdefault(name, "skipped")
        elif case.find("failure") is not None or case.find("error") is not None:
            outcomes[name] = "failed"
        elif outcomes.get(name) != "failed":
            outcomes[name] = "passed"
    return outcomes


def pgx(cache, port):
    """Outcomes of pgx's tests by name; of a test with parts these alone."""
    home = cache / f"pgx-{PGX}"
    if not home.exists():
        get = ["go", "mod", "download", "-json", f"github.com/jackc/pgx/v5@{PGX}"]
        found = json.loads(subprocess.run(get, check=True, capture_output=True).stdout)
        shutil.copytree(found["Dir"], home)
        subprocess.run(["chmod", "-R", "u+w", home], check=True)
    where = f"host=127.0.0.1 port={port} user=rightlink database=test"
    make = "create domain uint64 as numeric(20,0)"
    at = ["-h", "127.0.0.1", "-p", str(port), "-U", "rightlink", "-d", "test"]
    subprocess.run(["psql", "-X", "-q", *at, "-c", make])
    command = ["go", "test", "-p", "1", "-timeout", "240s", "-json", "./..."]
    env = os.environ | {"PGX_TEST_DATABASE": where}
    lines = subprocess.run(command, cwd=home, env=env, capture_output=True, text=True).stdout
    outcomes = {}
    for line in lines.splitlines():
        event = json.loads(line) if line.startswith("{") else {}
        outcome = {"pass": "passed", "fail": "failed", "skip": "skipped"}.get(event.get("Action"))
        if outcome and event.get("Test"):
            package = event["Package"].removeprefix("github.com/jackc/pgx/v5").strip("/")
            outcomes[f"{package or 'pgx'}.{event['Test']}"] = outcome
    parents = {name.rsplit("/", at)[0] for name in outcomes for at in range(1, name.count("/") + 1)}
    return {name: outcome for name, outcome in outcomes.items() if name not in parents}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    suites = {"asyncpg": asyncpg, "pgx": pgx, "sqlalchemy": sqlalchemy}
    parser.add_argument("suite", choices=suites)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--cache", type=pathlib.Path, required=True)
    parser.add_argument("--least", type=float, default=95.0)
    given = parser.parse_args()
    given.cache.mkdir(parents=True, exist_ok=True)
    outcomes = suites[given.suite](given.cache.resolve(), given.port)
    patterns = excluded(given.suite)
    left_out = {name for name in outcomes for one in patterns if fnmatch.fnmatchcase(name, one)}
    counted = {n: o for n, o in outcomes.items() if n not in left_out and o != "skipped"}
    failed = sorted(name for name, outcome in counted.items() if outcome == "failed")
    for name in failed:
        print(f"failed: {name}")
    assert len(counted) > 100, f"only {len(counted)} tests ran"
    share = 100.0 * (len(counted) - len(failed)) / len(counted)
    print(
        f"{given.suite}: {len(counted) - len(failed)} of {len(counted)} tests pass, {share:.1f} %; "
        f"{len(left_out)} are left out"
    )
    sys.exit(0 if share >= given.least else 1)


if __name__ == "__main__":
    main()
