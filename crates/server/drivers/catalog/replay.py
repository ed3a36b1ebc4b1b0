"""Sends the queries of queries.jsonl to a server and to PostgreSQL and compares the answers.

    replay.py (--binary FILE | --port PORT --postgres PORT) [--tables N] [--runs N] [--quick]
              [--show] [--least PERCENT] [--different N] [--most MILLISECONDS] [--ratio N]

With --binary it starts both servers. Otherwise both let `rightlink` in; ours has the database
`test`, PostgreSQL gets one of its own. The schema is made where it is missing. Rows are compared
without their order, objects by name, the version of the product by what `version()` tells. What
differs is compared once more without rows about what our server refuses (`lacking`), and without
bytes and pages, which are those of the store; such answers count apart, with the reasons. The exit
is 1 if less than PERCENT of the answers are equal, more than N differ beyond that, or a query takes
longer than allowed: more than MILLISECONDS and, where PostgreSQL takes that long itself, more than N
times its time.
"""

import argparse
import collections
import json
import pathlib
import re
import statistics
import sys
import tempfile
import time

import psycopg

import lacking
import objects
import schema

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[3] / "bench/postgres"))
import peer  # noqa: E402
DATABASE = "catalogs_replay"
# Arrays of these, and these: oid, regproc, regclass, regtype, regrole, regnamespace; integers.
NUMBERS = {26, 24, 2205, 2206, 4096, 4089, 20, 23, 1028, 2210, 30}


# The name of the constraint of a column that may not be null has the number of its table.
NOT_NULL = re.compile(r"^\d+_(\d+)(_\d+_not_null)$")


def connect(port, database, user="rightlink"):
    at = f"host=127.0.0.1 port={port} user={user} dbname={database}"
    return psycopg.connect(at, autocommit=True, prepare_threshold=None)


def make(one, tables):
    """Makes the schema unless it is there."""
    one.execute(schema.SEEN)
    if one.execute("select to_regclass('t000')").fetchone()[0] is not None:
        return
    for statement in schema.statements(tables):
        one.execute(statement)
    one.execute("analyze")


class Server:
    def __init__(self, *at):
        self.one, self.database = connect(*at), at[1]
        self.version = self.one.execute("select version()").fetchone()[0]

    def start_over(self):
        """Settings that a tool has left are no other's."""
        self.one.execute("reset all")
        self.one.execute("set statement_timeout = '60s'")

    def learn(self):
        self.labels = objects.labels(self.one.cursor())
        self.numbers = {label: number for number, label in self.labels.items()}

    def send(self, query):
        """The result or the error, and the milliseconds that it took."""
        start = time.perf_counter()
        try:
            cursor = self.one.execute(objects.unmark(query, self.numbers))
        except psycopg.Error as error:
            return str(error).splitlines()[0], (time.perf_counter() - start) * 1000
        return cursor.pgresult, (time.perf_counter() - start) * 1000

    def leave_aside(self, reasons):
        self.one.execute("select set_config('held.reasons', %s, false)", [",".join(reasons)])

    def hold(self, rows, reasons):
        lacking.hold(self.one, rows, reasons)

    def rows(self, result):
        """Rows as texts, with labels for numbers."""
        kinds = [result.ftype(at) for at in range(result.nfields)]

        def value(row, at):
            found = result.get_value(row, at)
            text = None if found is None else found.decode()
            if text == self.database:
                return "the database"
            if text == self.version and text.startswith("PostgreSQL 15."):
                return "the version"
            if text and kinds[at] in NUMBERS:
                text = re.sub(r"\b\d{5,10}\b", lambda n: self.labels.get(int(n[0]), n[0]), text)
            elif text and NOT_NULL.match(text):
                text = NOT_NULL.sub(lambda n: self.labels.get(int(n[1]), n[1]) + n[2], text)
            return text

        return [[value(row, at) for at in range(len(kinds))] for row in range(result.ntuples)]


def key(row):
    return [(one is None, one or "") for one in row]


def differences(theirs, ours):
    """The first few rows that only one has."""
    count = collections.Counter(map(tuple, theirs))
    count.subtract(map(tuple, ours))
    missing = [row for row, n in count.items() if n > 0]
    extra = [row for row, n in count.items() if n < 0]
    return missing, extra


def measured(servers, query, runs):
    """Medians of the servers, whose runs take turns."""
    times = [[], []]
    for _ in range(runs):
        for server, own in zip(servers, times):
            own.append(server.send(query)[1])
    return [statistics.median(own) for own in times]


class Comparison:
    """What both servers answer, and what becomes of the answers that differ."""

    def __init__(self, servers):
        self.servers = servers
        self.different = []
        self.reasons = {}

    def answers(self, query):
        return [server.send(query)[0] for server in self.servers]

    def differences(self, theirs, ours):
        rows = [server.rows(one) for server, one in zip(self.servers, (theirs, ours))]
        names = [[r.fname(at) for at in range(r.nfields)] for r in (theirs, ours)]
        missing, extra = differences(*rows)
        return missing, extra, names

    def are_equal(self, theirs, ours):
        missing, extra, names = self.differences(theirs, ours)
        return not missing and not extra and names[0] == names[1]

    def chooses(self, query, theirs, ours):
        """Do the answers differ in the row that DISTINCT ON leaves open alone?"""
        whole = re.sub(r"\bdistinct\s+on\s*\([^)]*\)", "", query, count=1, flags=re.I)
        if whole == query or theirs.ntuples != ours.ntuples:
            return False
        all_theirs, all_ours = self.answers(whole)
        if isinstance(all_theirs, str) or isinstance(all_ours, str):
            return False
        known = {tuple(row) for row in self.servers[0].rows(all_theirs)}
        shown = self.servers[1].rows(ours)
        return self.are_equal(all_theirs, all_ours) and known.issuperset(map(tuple, shown))

    def without_what_we_lack(self, row_of):
        """Compares the different ones again without rows that are explained."""
        for server in self.servers:
            server.start_over()
        found = lacking.Lacking(*(server.one for server in self.servers))
        reasons = sorted({row[3] for row in found.rows})
        chosen = "reason = any(string_to_array(current_setting('held.reasons'), ','))"
        self.servers[0].hold(found.rows, chosen)
        self.servers[1].hold(lacking.own_rows(found), "true")
        postgres = self.servers[0]
        still = []
        for tool, query in self.different:
            for server in self.servers:
                server.start_over()
            held = lacking.held_query(query)
            postgres.leave_aside(reasons)
            theirs, ours = self.answers(held)
            if isinstance(theirs, str) or isinstance(ours, str):
                still.append((tool, query, [str(theirs)], [str(ours)], ["", ""]))
                continue
            if not self.are_equal(theirs, ours):
                still.append((tool, query, *self.differences(theirs, ours)))
                continue
            row_of(tool)["but for"] += 1
            postgres.leave_aside([])
            whole = postgres.rows(postgres.send(held)[0])
            for reason in reasons:
                postgres.leave_aside([reason])
                gone, _ = differences(whole, postgres.rows(postgres.send(held)[0]))
                self.count(reason, len(gone))
            if lacking.SIZED.search(query) or "relpages" in query:
                self.count("sizes of what is stored", 1)
        for server in self.servers:
            lacking.drop(server.one)
        self.different = still

    def count(self, reason, rows):
        if rows:
            known = self.reasons.setdefault(reason, [0, 0])
            known[0] += 1
            known[1] += rows


def asked(given):
    for line in (HERE / "queries.jsonl").read_text().splitlines():
        tool, query = json.loads(line)
        if not given.tool or tool == given.tool:
            yield tool, query


def show(tool, query, missing, extra, names):
    print(f"=== {tool} differs: {len(missing)} missing, {len(extra)} extra\n{query}")
    print("names", *names if names[0] != names[1] else "")
    for mark, rows in (("-", missing), ("+", extra)):
        for one in rows[:3] if isinstance(rows[:1], str) else sorted(rows, key=key)[:3]:
            print(mark, str(one)[:600])
    print()


def replay(given, postgres, port, user):
    """1 if an answer is wrong or slow beyond what is allowed."""
    database = f"{DATABASE}_{given.tables}"
    with connect(postgres, "postgres", user) as one:
        if not one.execute("select 1 from pg_database where datname = %s", [database]).fetchone():
            one.execute(f"create database {database}")
    servers = [Server(postgres, database, user), Server(port, "test", user)]
    for server in servers:
        lacking.drop(server.one)
    for server in servers:
        make(server.one, given.tables)
        server.learn()
    both = Comparison(servers)
    table, slow, last = {}, [], None
    for tool, query in asked(given):
        if tool != last:
            last = tool
            for server in servers:
                server.start_over()
        theirs, ours = both.answers(query)
        if isinstance(theirs, str):
            continue
        row = table.setdefault(tool, collections.Counter())
        row["asked"] += 1
        if isinstance(ours, str):
            if given.show:
                print(f"=== {tool} fails: {ours}\n{query}\n")
            continue
        row["answered"] += 1
        if both.are_equal(theirs, ours):
            row["equal"] += 1
        elif both.chooses(query, theirs, ours):
            row["but for"] += 1
            both.count("a row of several that DISTINCT ON leaves open", 1)
        else:
            both.different.append((tool, query))
        if given.runs:
            times = measured(servers, query, given.runs)
            ratio = times[1] / times[0]
            row["worst"] = max(row["worst"], times[1])
            row["ratio"] = max(row["ratio"], ratio)
            row["over 50 ms"] += times[1] > 50
            row["over 2 times"] += ratio > 2
            slow.append((times[1], ratio, tool, query))
    both.without_what_we_lack(table.get)
    for tool, query, missing, extra, names in both.different:
        table[tool]["different"] += 1
        if given.show:
            show(tool, query, missing, extra, names)
    print(f"{given.tables} tables of ten indexes; times are medians of {given.runs} in ms")
    heads = ["asked", "answered", "equal", "but for", "different"]
    heads += ["worst", "ratio", "over 50 ms", "over 2 times"]
    print(f"{'tool':<12}" + "".join(f"{head:>13}" for head in heads))
    for tool, row in sorted(table.items()):
        print(f"{tool:<12}" + "".join(f"{row[head]:>13.5g}" for head in heads))
    total = {head: sum(row[head] for row in table.values()) for head in heads}
    total |= {head: max(row[head] for row in table.values()) for head in ("worst", "ratio")}
    print(f"{'all':<12}" + "".join(f"{total[head]:>13.5g}" for head in heads))
    slow.sort(reverse=True)
    for at, (ms, ratio, tool, query) in enumerate(slow):
        if at < 5 or given.show and (at < 12 or ratio > given.ratio):
            print(f"{ms:8.1f} ms, {ratio:5.1f} times: {tool}: {' '.join(query.split())[:110]}")
    print("equal but for rows of what is lacking:")
    for reason, (queries, rows) in sorted(both.reasons.items()):
        print(f"{queries:8} queries, {rows:6} rows: {reason}")
    late = [one for one in slow if one[0] > given.most and (one[1] > given.ratio)]
    share = 100.0 * total["equal"] / max(total["asked"], 1)
    print(f"{share:.1f} % equal; {total['but for']} equal but for rows of what is lacking; "
          f"{total['different']} different; {len(late)} queries too slow")
    is_enough = share >= given.least and total["different"] <= given.different
    return 0 if is_enough and not late else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", help="the command to start a server with")
    parser.add_argument("--dir", default=tempfile.gettempdir(), help="where to start servers")
    parser.add_argument("--port", type=int)
    parser.add_argument("--postgres", type=int)
    parser.add_argument("--tables", type=int, default=500)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="30 tables, one run")
    parser.add_argument("--show", action="store_true", help="show differences")
    parser.add_argument("--tool", help="only what this one asks")
    parser.add_argument("--least", type=float, default=0.0)
    parser.add_argument("--different", type=float, default=float("inf"), help="most that differ")
    parser.add_argument("--most", type=float, default=float("inf"))
    parser.add_argument("--ratio", type=float, default=2.0)
    given = parser.parse_args()
    if given.quick:
        given.tables, given.runs = 30, 1
    if not given.binary:
        sys.exit(replay(given, given.postgres, given.port, "rightlink"))
    sys.exit(peer.beside_postgres(
        given.binary, given.dir, lambda *ports: replay(given, *ports, "rightlink")))


if __name__ == "__main__":
    main()
