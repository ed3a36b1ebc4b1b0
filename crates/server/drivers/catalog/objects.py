"""Numbers of objects by name: they differ between servers, names do not."""

import re

# Each gives numbers and labels.
ASK = {
    "class": "select c.oid, n.nspname || '.' || c.relname from pg_class c, pg_namespace n "
    "where n.oid = c.relnamespace and c.oid >= 16384",
    "type": "select t.oid, n.nspname || '.' || t.typname from pg_type t, pg_namespace n "
    "where n.oid = t.typnamespace and t.oid >= 16384",
    "namespace": "select oid, nspname from pg_namespace where oid >= 16384",
    "constraint": "select oid, conname || ' ' || conrelid::regclass || ' ' || contypid::regtype "
    "from pg_constraint where oid >= 16384",
    "default": "select oid, adrelid::regclass || ' ' || adnum from pg_attrdef",
    "rule": "select oid, ev_class::regclass || ' ' || rulename from pg_rewrite where oid >= 16384",
    "database": "select oid, datname from pg_database where datname = current_database()",
    "collation": "select oid, collname from pg_collation where oid >= 12000",
    "role": "select oid, 'user' from pg_roles where rolname = current_user",
}
MARK = re.compile(r"\{oid (\w+ [^}]*)\}")


def labels(cursor):
    """Labels by number."""
    found = {}
    for kind, ask in ASK.items():
        cursor.execute(ask)
        for number, label in cursor.fetchall():
            found.setdefault(int(number), f"{kind} {label}")
    return found


def mark(text, known):
    """A query with labels for the numbers that it names."""

    def one(found):
        label = known.get(int(found[0]))
        return f"{{oid {label}}}" if label else found[0]

    return re.sub(r"(?<![\w.])\d{5,6}(?![\w.])", one, text)


def unmark(text, numbers):
    """The query again, with the numbers of another server; 0 for what it has not."""
    return MARK.sub(lambda found: str(numbers.get(found[1], 0)), text)
