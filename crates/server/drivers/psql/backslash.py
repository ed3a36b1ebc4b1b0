"""Runs psql's own commands against PostgreSQL 15 and a server of ours, and compares what they print.

    backslash.py (--binary FILE | --port PORT --postgres PORT) [--show] [--most N]

`objects.sql` is made on both; each line of `backslash.sql` is sent to both. Blanks are compared as
one, since widths follow the widest row, and so are sizes on disk, which are those of the store.
Then psql runs under a terminal, and a tabulator is pressed behind each line of `complete.txt`: the
completion, or the list of them, is compared. Differences that `LACKING` gives a reason for are told
apart. The exit is 1 if more than N other commands differ.
"""

import argparse
import concurrent.futures
import difflib
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[3] / "bench/postgres"))
import peer  # noqa: E402
MARK = "==== "
SIZE = re.compile(r"\b\d+ (bytes|kB|MB)(?= |$)")

# Commands (a pattern), lines of their answers that are left aside on both sides, and why.
LACKING = [
    (r"\\d.*", r"\| (xid|aclitem\[\]|pg_node_tree|text\[\]|text|bigint) \|.*",
     "types of catalogs that nobody keeps anything in: xid, aclitem, pg_node_tree"),
    (r"\\d\+ pg_tables|\\sv pg_tables", r".*", "views of the system are no queries here"),
    (r"\\d[aA].*|\\dC.*|\\dfS.*", r"money|xml|xid8|range|macaddr|tsvector|tsquery|record_image_ops|"
     r"record_ops|brin|gin|gist|aclitem|\bcid\b|\bxid\b", "types and access methods that are refused"),
    (r"\\dC.*", r"reg(collation|config|dictionary|oper)\b|pg_(dependencies|mcv_list|ndistinct|node_tree)"
     r"|\b(box|circle|lseg|path|point|polygon)\b", "types that are refused"),
    (r"\\dC.*", r"\| (varchar|interval|numeric|timetz|time|timestamptz|timestamp)? ?\|",
     "functions that cut values to lengths cannot be called"),
    (r"\\dAp.*", r"^(btree|hash) \| (integer|text)_ops", "support functions cannot be called"),
    (r"\\dcS.*", r"utf8_to_iso_8859_1", "conversions of encodings cannot be called"),
    (r"\\dconfig.*", r".*", "settings of the server are others"),
    (r"\\dF.*", r".*", "text search is refused"),
    (r"\\dL.*|\\dx.*", r"plpgsql|Objects in extension|Object description", "PL/pgSQL is refused"),
    (r"\\dnS", r"pg_toast", "there are no TOAST tables"),
    (r"\\l", r"template|postgres|^\|", "there is one database"),
    (r"\\sf lower", r".*", "PostgreSQL has lower() of ranges, too"),
    (r"\\errverbose", r"^LOCATION", "a place in PostgreSQL's source"),
]


def environment(port, database):
    return {**os.environ, "PGHOST": "127.0.0.1", "PGPORT": str(port), "PGUSER": "rightlink",
            "PGDATABASE": database, "PSQL_PAGER": "", "PAGER": "cat", "TERM": "dumb",
            "COLUMNS": "200", "PSQLRC": "/dev/null", "PSQL_HISTORY": "/dev/null"}


def psql(port, database, script):
    done = subprocess.run(["psql", "-X", "-q", "-f", "-"], input=script, text=True,
                          env=environment(port, database), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=300, check=False)
    return done.stdout


def answers(port, commands):
    """What psql prints for each command."""
    script = "set search_path = app, public;\n"
    for at, command in enumerate(commands):
        script += f"\\echo {MARK}{at}\n{command}\n"
    found = [[] for _ in commands]
    at = None
    for line in psql(port, "test", script).splitlines():
        if line.startswith(MARK):
            at = int(line[len(MARK):])
        elif at is not None:
            found[at].append(line)
    return found


def normal(lines):
    """Lines as they are compared."""
    plain = [re.sub(r"\s+", " ", SIZE.sub("", line)).strip() for line in lines]
    plain = [re.sub(r"^psql:<stdin>:\d+: ", "", line) for line in plain]
    return [line for line in plain if not re.fullmatch(r"[-+ ]*", line)]


def without(lines, command):
    """Lines without those that tell of what is refused, and without the count below them."""
    patterns = [pattern for key, pattern, _ in LACKING if re.fullmatch(key, command)]
    kept = [line for line in lines if not any(re.search(one, line) for one in patterns)]
    return [line for line in kept if not re.fullmatch(r"\(\d+ rows?\)", line)]


class Terminal:
    """psql under a terminal."""

    def __init__(self, port):
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            os.execvpe("psql", ["psql", "-X"], environment(port, "test"))
        self.until("test=# ")
        self.send("set search_path = app, public;\r")
        self.until("test=# ")

    def send(self, text):
        os.write(self.file, text.encode())

    def until(self, end, seconds=10.0):
        """What comes until `end` does."""
        seen, last = b"", time.monotonic() + seconds
        while not seen.endswith(end.encode()) and time.monotonic() < last:
            if select.select([self.file], [], [], 0.05)[0]:
                seen += os.read(self.file, 65536)
        return seen.decode(errors="replace")

    def quiet(self, wait=0.2):
        """What comes until nothing does for a while."""
        seen = b""
        while select.select([self.file], [], [], wait)[0]:
            seen += os.read(self.file, 65536)
        return seen.decode(errors="replace")

    def complete(self, text):
        """What two tabulators make of a text."""
        self.send(text)
        self.quiet(0.1)
        self.send("\t\t")
        seen = self.quiet()
        # Leave the line: to its end, and away with all of it.
        self.send("\x05\x15")
        self.quiet(0.1)
        if "--More--" in seen or "possibilities" in seen:
            self.send("n")
            self.quiet(0.1)
        seen = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\x07", "", seen)
        return sorted(set(re.split(r"\s{1,}|\r|\n", seen)) - {"", "test=#"})

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.file)


def report(kind, name, theirs, ours, show):
    print(f"{kind} {name}: {len(theirs)} and {len(ours)} lines")
    if show:
        for line in difflib.unified_diff(theirs, ours, lineterm="", n=0):
            if not line.startswith(("---", "+++", "@@")):
                print("   ", line[:150])


def compare(given, postgres, port):
    psql(postgres, "postgres", "create database test")
    for one in (postgres, port):
        print(psql(one, "test", (HERE / "objects.sql").read_text()), end="")
    commands = (HERE / "backslash.sql").read_text().splitlines()
    equal = aside = different = 0
    for command, theirs, ours in zip(commands, answers(postgres, commands), answers(port, commands)):
        theirs, ours = normal(theirs), normal(ours)
        if theirs == ours:
            equal += 1
        elif without(theirs, command) == without(ours, command):
            aside += 1
        else:
            different += 1
            left = (without(theirs, command), without(ours, command))
            report("differs:", command, *left, given.show)
    print(f"{len(commands)} commands: {equal} equal, {aside} but for what is refused, "
          f"{different} different")
    lines = (HERE / "complete.txt").read_text().splitlines()
    terminals = [Terminal(one) for one in (postgres, port)]
    unlike = 0
    with concurrent.futures.ThreadPoolExecutor() as pool:
        completed = pool.map(lambda one: [one.complete(line) for line in lines], terminals)
    for line, theirs, ours in zip(lines, *completed):
        if theirs != ours:
            unlike += 1
            report("completes otherwise:", line, theirs, ours, given.show)
    for terminal in terminals:
        terminal.close()
    print(f"{len(lines)} completions: {len(lines) - unlike} equal, {unlike} different")
    return different + unlike > given.most


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", help="the command to start a server with")
    parser.add_argument("--dir", default=tempfile.gettempdir(), help="where to start servers")
    parser.add_argument("--port", type=int)
    parser.add_argument("--postgres", type=int)
    parser.add_argument("--show", action="store_true", help="show differences")
    parser.add_argument("--most", type=int, default=0, help="how many may differ")
    given = parser.parse_args()
    if not given.binary:
        sys.exit(compare(given, given.postgres, given.port))
    sys.exit(peer.beside_postgres(given.binary, given.dir, lambda *ports: compare(given, *ports)))


if __name__ == "__main__":
    main()
