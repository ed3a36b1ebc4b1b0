"""What the scripts here share: servers of both kinds in directories of their own, and sessions that
say what a statement gave as text.

Needs psycopg for sessions (`pip install 'psycopg[binary]'`). Does not do: anything by itself.
"""

import argparse
import collections
import itertools
import json
import os
import pathlib
import random
import shutil
import socket
import subprocess
import tempfile
import time

BIN = pathlib.Path("/usr/lib/postgresql/15/bin")


def free_port():
    """A TCP port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def drop_page_cache(folder):
    """Writes the files below `folder`, and drops what the page cache has of them."""
    for path in pathlib.Path(folder).rglob("*"):
        if path.is_file():
            handle = os.open(path, os.O_RDONLY)
            os.fsync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)


def beside_postgres(binary, folder, compare):
    """Starts PostgreSQL and a server of ours, both of which let `rightlink` in, has `compare` look
    at them, checks our database and gives what `compare` gave."""
    started = []
    try:
        started.append(Postgres(folder, {"fsync": "off"}, user="rightlink", locale="C"))
        started.append(Rightlink(binary, folder, "256M", ("--database", "test")))
        found = compare(*(server.port for server in started))
        started[1].verify()
    finally:
        for server in started:
            server.close()
    return found


class Group:
    """A control group of memory: its processes and the page cache of their files share a limit."""

    def __init__(self, name):
        root = pathlib.Path("/sys/fs/cgroup")
        first = (root / "memory").is_dir()
        self.path = (root / "memory" if first else root) / f"rightlink-{name}-{os.getpid()}"
        self.file = self.path / ("memory.limit_in_bytes" if first else "memory.max")
        self.path.mkdir()

    def limit(self, limit_bytes):
        """Lowers the limit; a group is made without one."""
        self.file.write_text(str(limit_bytes), encoding="ascii")

    def join(self):
        """Puts this process, and what it starts, into the group."""
        (self.path / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")

    def close(self):
        for _ in range(100):
            try:
                self.path.rmdir()
                return
            except OSError:
                # A process that ended is still on its way out.
                time.sleep(0.05)


class Postgres:
    """A PostgreSQL server, gone when it is closed. Its processes call `enter` first, if given;
    `programs` is the directory of its programs, `user` its superuser."""

    def __init__(self, folder, settings, enter=None, programs=BIN, user="postgres", locale="C.UTF-8"):
        self.enter = enter
        self.programs = pathlib.Path(programs)
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="peer-postgres-", dir=folder))
        self.data = self.home / "data"
        self.port = free_port()
        if os.geteuid() == 0:
            shutil.chown(self.home, "postgres", "postgres")
        self.user = user
        self.tool("initdb", "-D", self.data, "-A", "trust", "-U", user,
                  f"--locale={locale}", "--encoding=UTF8")
        lines = [f"{name} = {value}" for name, value in settings.items()]
        lines += ["listen_addresses = '127.0.0.1'", f"port = {self.port}",
                  f"unix_socket_directories = '{self.home}'"]
        with open(self.data / "postgresql.auto.conf", "a", encoding="utf-8") as out:
            out.write("\n".join(lines) + "\n")
        self.start()

    def start(self, **settings):
        """Starts the server, with `settings` beyond those it was made with."""
        more = " ".join(f"-c {name}={value}" for name, value in settings.items())
        self.tool("pg_ctl", "-D", self.data, "-l", self.home / "log", "-o", more, "-w", "start")

    def stop(self):
        if (self.data / "postmaster.pid").exists():
            self.tool("pg_ctl", "-D", self.data, "-m", "fast", "-w", "stop")

    def tool(self, name, *args):
        command = [str(self.programs / name), *map(str, args)]
        if os.geteuid() == 0:
            command = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *command]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=self.home,
                       preexec_fn=self.enter)

    @property
    def connection(self):
        return {"host": str(self.home), "port": str(self.port), "user": self.user,
                "dbname": "postgres"}

    def close(self):
        try:
            self.stop()
        finally:
            shutil.rmtree(self.home, ignore_errors=True)


class Rightlink:
    """Our server, gone when it is closed. Its process calls `enter` first, if given."""

    def __init__(self, binary, folder, memory="128M", flags=(), enter=None):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="peer-rightlink-", dir=folder))
        self.port = free_port()
        self.binary = binary
        self.memory = memory
        self.flags = flags
        self.enter = enter
        self.start()

    def start(self):
        listening = self.home / f".s.PGSQL.{self.port}"
        # A killed server leaves its socket behind.
        listening.unlink(missing_ok=True)
        self.process = subprocess.Popen(
            [str(self.binary), "serve", str(self.home / "db"), "--create", "--listen",
             f"127.0.0.1:{self.port}", "--socket", str(self.home), "--port", str(self.port),
             "--memory", self.memory, *self.flags],
            stdout=subprocess.DEVNULL, preexec_fn=self.enter)
        for _ in range(200):
            if listening.exists():
                return
            time.sleep(0.05)
        raise SystemExit("rightlink serve does not listen")

    @property
    def connection(self):
        return {"host": str(self.home), "port": str(self.port), "user": "postgres",
                "dbname": "postgres"}

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait()

    def kill(self):
        """Ends the server as a crash does; `start` starts it again."""
        self.process.kill()
        self.process.wait()

    def verify(self):
        """Stops the server and verifies the database."""
        self.stop()
        subprocess.run([str(self.binary), "verify", str(self.home / "db")], check=True,
                       stdout=subprocess.DEVNULL)

    def close(self):
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)


class Session:
    """A connection that gives what a statement gave as text."""

    def __init__(self, server):
        import psycopg
        from psycopg import pq
        self.pq = pq
        parts = [f"{name}='{value}'" for name, value in server.connection.items()]
        self.connection = psycopg.connect(" ".join(parts), autocommit=True)

    def run(self, sql):
        """('error', sqlstate), or (tag, rows with None for null)."""
        result = self.connection.pgconn.exec_(sql.encode())
        status = self.pq.ExecStatus(result.status)
        if status == self.pq.ExecStatus.FATAL_ERROR:
            state = result.error_field(self.pq.DiagnosticField.SQLSTATE)
            return ("error", state.decode() if state else "?")
        rows = []
        for row in range(result.ntuples):
            values = [result.get_value(row, column) for column in range(result.nfields)]
            rows.append([None if value is None else value.decode() for value in values])
        tag = result.command_status
        return ((tag or b"").decode(), rows)

    def must(self, sql):
        """Runs a statement that has to succeed."""
        done = self.run(sql)
        if done[0] == "error":
            raise SystemExit(f"{done[1]}: {sql}")

    def close(self):
        self.connection.close()


def psql(server, script):
    """Runs the script in one session: milliseconds of each statement after `\\timing on`."""
    parts = server.connection
    command = ["psql", "-X", "-q", "-t", "-v", "ON_ERROR_STOP=1", "-h", parts["host"], "-p",
               parts["port"], "-U", parts["user"], "-d", parts["dbname"]]
    done = subprocess.run(command, input=script, text=True, check=True, stdout=subprocess.PIPE)
    times = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("Time: ")]
    return [float(time) for time in times]


def append_lines(path, lines):
    """Adds figures to a file of JSON lines, if one is named."""
    if path:
        with open(path, "a", encoding="utf-8") as out:
            out.writelines(json.dumps(line) + "\n" for line in lines)


def compare(about, statements_of, note=lambda: ""):
    """The command of a script that sends random statements to both: `statements_of(seed)` gives
    them without end; `note()` says what a reader of a difference needs to know besides. Returns
    whether any answer or error code was different."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--statements", type=int, default=50_000)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--binary", default="target/release/rightlink")
    parser.add_argument("--show", type=int, default=20)
    parser.add_argument("--dir", default="/tmp")
    args = parser.parse_args()
    count = collections.Counter()
    ours = Rightlink(args.binary, args.dir)
    theirs = Postgres(args.dir, {"fsync": "off", "timezone": "'UTC'", "jit": "off"})
    try:
        mine, other = Session(ours), Session(theirs)
        for sql in itertools.islice(statements_of(args.seed), args.statements):
            answer, expected = mine.run(sql), other.run(sql)
            count["error" if expected[0] == "error" else "rows"] += 1
            if answer != expected:
                count["different"] += 1
                if count["different"] <= args.show:
                    print(f"{sql}{note()}\n  ours:   {answer}\n  theirs: {expected}", flush=True)
        mine.close()
        other.close()
        ours.verify()
    finally:
        ours.close()
        theirs.close()
    print(f"seed {args.seed}: {dict(count)}")
    return count["different"] != 0


def expressions(maker):
    """A query of each expression that `maker` makes, without end."""
    while True:
        yield f"select {maker.expression()}"


def rounds(round_of):
    """The statements of one round after the other, without end, for `compare`."""
    def statements_of(seed):
        for number in itertools.count():
            yield from round_of(f"{seed} {number}").statements()
    return statements_of


def literal(text):
    """A text as SQL writes it, null for None."""
    return "null" if text is None else "'" + text.replace("'", "''") + "'"


class Chooser:
    """What makers of statements choose by; equal seeds choose equally."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, *choices):
        return self.random.choice(choices)

    def chance(self, share):
        """True in this share of calls, from 0 to 1."""
        return self.random.random() < share
