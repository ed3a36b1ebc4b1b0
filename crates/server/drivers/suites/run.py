"""Runs a driver's own suite of tests against a server and says how much of it passes.

    run.py asyncpg|pgx --port PORT --cache DIR [--least PERCENT]

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


def asyncpg(cache, port):
    """Outcomes of asyncpg's tests by name. One of whose parts fails has failed."""
    home = cache / f"asyncpg-{ASYNCPG}"
    python = home / "venv/bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", home / "venv"], check=True)
        pip = [home / "venv/bin/pip", "-q"]
        wanted = [f"asyncpg=={ASYNCPG}", "pytest", "pytest-subtests", "pytest-timeout", "distro"]
        subprocess.run([*pip, "install", *wanted], check=True)
        source = ["download", "--no-deps", "--no-binary", ":all:", f"asyncpg=={ASYNCPG}"]
        subprocess.run([*pip, *source, "-d", home], check=True)
        subprocess.run(["tar", "xzf", f"asyncpg-{ASYNCPG}.tar.gz"], cwd=home, check=True)
        # Beside the package's source the tests would import that instead of what is installed.
        shutil.move(home / f"asyncpg-{ASYNCPG}/tests", home / "tests")
    where = {"PGHOST": "127.0.0.1", "PGPORT": str(port), "PGUSER": "postgres"}
    report = home / "report.xml"
    command = [python, "-m", "pytest", "tests", "-q", "--timeout", "60", f"--junitxml={report}"]
    command += ["--ignore", "tests/test__sourcecode.py", "-p", "no:cacheprovider"]
    subprocess.run(command, cwd=home, env=os.environ | where, stdout=subprocess.DEVNULL)
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
    parser.add_argument("suite", choices=["asyncpg", "pgx"])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--cache", type=pathlib.Path, required=True)
    parser.add_argument("--least", type=float, default=95.0)
    given = parser.parse_args()
    given.cache.mkdir(parents=True, exist_ok=True)
    run = {"asyncpg": asyncpg, "pgx": pgx}[given.suite]
    outcomes = run(given.cache.resolve(), given.port)
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
