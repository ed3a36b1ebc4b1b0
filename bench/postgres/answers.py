#!/usr/bin/env python3
"""Does PostgreSQL 15 answer what the files in crates/sql/tests/slt say that it answers?

    apt-get install postgresql-15; pip install 'psycopg[binary]'
    bench/postgres/answers.py [FILE...]

Every file gets a database of its own. Records that expect 0A000 are left out: they say what is not
built. What differs is printed, unless the line before the record gives the reason: `# deviation:`.
"""

import pathlib
import sys

import peer

FILES = pathlib.Path(__file__).resolve().parents[2] / "crates/sql/tests/slt"


def records(path):
    """(line, head, sql, expected, is it a known deviation?)"""
    block, known = [], False
    lines = path.read_text(encoding="utf-8").splitlines() + [""]
    for at, line in enumerate(lines, 1):
        if not block and (not line.strip() or line.startswith("#")):
            known = line.startswith("# deviation:") or known and not line.strip()
            continue
        if line:
            block.append((at, line))
            continue
        (first, head), body = block[0], [text for _, text in block[1:]]
        cut = body.index("----") if "----" in body else len(body)
        yield first, head, "\n".join(body[:cut]), body[cut + 1:], known
        block, known = [], False


def differs(head, expected, answer):
    words = head.split()
    if "error" in words[1:2]:
        return None if answer == ("error", words[2]) else f"PostgreSQL: {answer}"
    if answer[0] == "error":
        return f"PostgreSQL: {answer}"
    if words[0] == "statement":
        wanted = " ".join(words[1:])
        return None if wanted in ("ok", answer[0]) else f"PostgreSQL: {answer[0]}"
    shown = ["|".join("NULL" if v is None else v for v in row) for row in answer[1]]
    # The record's names of columns are not compared.
    expected = expected[1:] if "columns" in words else expected
    return None if shown == expected else "PostgreSQL:\n  " + "\n  ".join(shown)


def main():
    files = [pathlib.Path(name) for name in sys.argv[1:]] or sorted(FILES.glob("*.slt"))
    server = peer.Postgres("/tmp", {"fsync": "off", "timezone": "'UTC'"})
    wrong = looked = 0
    try:
        for path in files:
            if path.stem == "unsupported":
                continue
            session = peer.Session(server)
            for line, head, sql, expected, known in records(path):
                answer = session.run(sql)
                if head.endswith("0A000") or known:
                    if session.connection.info.transaction_status.name == "INERROR":
                        session.run("rollback")
                    continue
                looked += 1
                found = differs(head, expected, answer)
                if found:
                    wrong += 1
                    print(f"{path.name}:{line}: {head}\n{sql}\n{found}\n")
            session.run("rollback")
            session.run("drop schema public cascade; create schema public")
            session.close()
    finally:
        server.close()
    print(f"{looked} records, {wrong} differ")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
