"""What PostgreSQL 15 has and our server refuses by name, and a comparison without it.

A row of a catalog is left aside only if our server refuses what it describes when it is used: each
type, function, operator, cast, collation, operator class and relation that our catalogs do not
list is tried, and an error that says that it is not there is asked for. What our server lets pass
is not left aside. On both servers a schema `held` gets a view of each catalog without these rows,
and `held_query` makes a query read the views.

Does not do: what `information_schema` reads.
"""

import re

import psycopg

# Errors of what is not there, and of what is refused: no function, no object, no relation, no
# schema, no column, not supported; syntax, where the name of a type is not one.
REFUSED = {"42883", "42704", "42P01", "3F000", "42703", "0A000"}
# What is looked for in our catalogs: the columns that tell what an object is.
LISTED = {
    "pg_type": "oid",
    "pg_proc": "oid",
    "pg_operator": "oid",
    "pg_class": "oid",
    "pg_opclass": "oid",
    "pg_opfamily": "oid",
    "pg_am": "oid",
    "pg_language": "oid",
    "pg_cast": "oid",
    "pg_namespace": "oid",
    "pg_extension": "oid",
    "pg_conversion": "oid",
    "pg_ts_parser": "oid",
    "pg_ts_template": "oid",
    "pg_ts_dict": "oid",
    "pg_ts_config": "oid",
}
# Columns of catalogs that refer to rows that may be left aside.
REFERS = {
    "pg_am": [("oid", "pg_am")],
    "pg_amop": [
        ("amopfamily", "pg_opfamily"), ("amopopr", "pg_operator"),
        ("amoplefttype", "pg_type"), ("amoprighttype", "pg_type"),
    ],
    "pg_amproc": [
        ("amprocfamily", "pg_opfamily"), ("amproc", "pg_proc"),
        ("amproclefttype", "pg_type"), ("amprocrighttype", "pg_type"),
    ],
    "pg_attribute": [("attrelid", "pg_class")],
    "pg_cast": [("oid", "pg_cast"), ("castsource", "pg_type"), ("casttarget", "pg_type")],
    "pg_class": [("oid", "pg_class")],
    "pg_collation": [],
    "pg_constraint": [("conrelid", "pg_class")],
    "pg_conversion": [("oid", "pg_conversion")],
    "pg_database": [("oid", "pg_database")],
    "pg_depend": [],
    "pg_description": [],
    "pg_extension": [("oid", "pg_extension")],
    "pg_index": [("indexrelid", "pg_class"), ("indrelid", "pg_class")],
    "pg_init_privs": [],
    "pg_language": [("oid", "pg_language")],
    "pg_namespace": [("oid", "pg_namespace")],
    "pg_opclass": [("oid", "pg_opclass")],
    "pg_operator": [("oid", "pg_operator")],
    "pg_opfamily": [("oid", "pg_opfamily")],
    "pg_proc": [("oid", "pg_proc")],
    "pg_range": [("rngtypid", "pg_type")],
    "pg_rewrite": [("ev_class", "pg_class"), ("oid", "pg_rewrite")],
    "pg_trigger": [("oid", "pg_trigger")],
    "pg_ts_config": [("oid", "pg_ts_config")],
    "pg_ts_dict": [("oid", "pg_ts_dict")],
    "pg_ts_parser": [("oid", "pg_ts_parser")],
    "pg_ts_template": [("oid", "pg_ts_template")],
    "pg_type": [("oid", "pg_type"), ("typrelid", "pg_class"), ("typelem", "pg_type")],
}
SIZES = "pg_table_size|pg_relation_size|pg_total_relation_size|pg_indexes_size"
SIZES += "|pg_database_size|pg_tablespace_size"
STAND_INS = {
    "any": "integer", "anyelement": "integer", "anyarray": "integer[]", "anynonarray": "integer",
    "anyenum": "mood", "anycompatible": "integer", "anycompatiblearray": "integer[]",
    "anycompatiblenonarray": "integer", "record": "pair", "record[]": "pair[]", '"any"': "integer",
}
SUPPORT = ("internal", "trigger", "event_trigger", "index_am_handler", "table_am_handler",
           "fdw_handler", "tsm_handler", "language_handler", "cstring")


class Lacking:
    """Rows that are left aside: by catalog and number, each with a reason."""

    def __init__(self, postgres, ours):
        self.postgres, self.ours = postgres, ours
        self.rows = []
        self.suspects = {name: self.only(name, column) for name, column in LISTED.items()}
        for look in (self.relations, self.types, self.functions, self.operators, self.casts,
                     self.collations, self.methods, self.rest, self.columns):
            look()

    def only(self, catalog, column):
        """Numbers that only PostgreSQL has."""
        ask = f"select {column} from pg_catalog.{catalog} where oid < 16384"
        numbers = [{row[0] for row in one.execute(ask).fetchall()}
                   for one in (self.postgres, self.ours)]
        return sorted(numbers[0] - numbers[1])

    def refuses(self, statement, server=None):
        """Does our server know nothing of what a statement names?"""
        try:
            with (server or self.ours).transaction(force_rollback=True):
                (server or self.ours).execute(statement)
        except psycopg.Error as error:
            return error.sqlstate in REFUSED or error.sqlstate == "42601"
        return False

    def ask(self, query, numbers):
        return self.postgres.execute(query, [numbers]).fetchall()

    def add(self, catalog, number, reason, part=0):
        self.rows.append((catalog, int(number), part, reason))

    def relations(self):
        ask = """select oid, oid::regclass::text, relkind, relnamespace::regnamespace::text
            from pg_class where oid = any(%s)"""
        later = []
        for number, name, kind, schema in self.ask(ask, self.suspects["pg_class"]):
            if schema == "pg_toast":
                continue
            if kind in "iI":
                later.append(number)
            elif self.refuses(f"select from {name} limit 0"):
                self.add("pg_class", number, "relations")
        gone = [row[1] for row in self.rows]
        ask = "select indexrelid from pg_index where indexrelid = any(%s) and indrelid = any(%s)"
        for (number,) in self.postgres.execute(ask, [later, gone]).fetchall():
            self.add("pg_class", number, "relations")
        if self.refuses("create table pg_toast.t (a integer)"):
            ask = "select oid from pg_class where relnamespace = 99"
            for (number,) in self.postgres.execute(ask).fetchall():
                self.add("pg_class", number, "TOAST tables")
            self.add("pg_namespace", 99, "TOAST tables")

    def types(self):
        ask = """select oid, format_type(oid, null), typrelid <> 0 or typelem in
            (select oid from pg_type where typrelid <> 0) from pg_type where oid = any(%s)"""
        gone = {row[1] for row in self.rows}
        relations = "select oid from pg_type where typrelid = any(%s) or typelem in " \
            "(select oid from pg_type where typrelid = any(%s))"
        found = self.postgres.execute(relations, [list(gone), list(gone)]).fetchall()
        of_relations = {number for (number,) in found}
        for number, name, is_row in self.ask(ask, self.suspects["pg_type"]):
            if number in of_relations:
                self.add("pg_type", number, "relations")
            elif not is_row and self.refuses(f"select null::{name}"):
                self.add("pg_type", number, "types")
        if self.refuses("select null::positive[]"):
            ask = "select typarray from pg_type where typtype = 'd' and typarray >= 16384"
            for (number,) in self.postgres.execute(ask).fetchall():
                self.add("pg_type", number, "arrays of domains")

    def functions(self):
        ask = """select oid, proname, pronamespace::regnamespace::text, prokind,
            array(select format_type(one, null) from unnest(proargtypes) one),
            format_type(prorettype, null), proretset, provariadic <> 0,
            coalesce((select aggnumdirectargs from pg_aggregate where aggfnoid = p.oid
                and aggkind <> 'n'), -1)
            from pg_proc p where oid = any(%s)"""
        gone = {row[1] for row in self.rows if row[0] == "pg_type"}
        told = """select oid from pg_proc where prorettype = any(%s)
            or coalesce(proallargtypes, proargtypes::oid[]) && %s::oid[]"""
        nearest = self.postgres.execute(told, [list(gone), list(gone)]).fetchall()
        for (number,) in set(nearest) - {(one,) for one in self.suspects["pg_proc"]}:
            self.add("pg_proc", number, "types")
        for row in self.ask(ask, self.suspects["pg_proc"]):
            number, name, schema, kind, types, result, is_set, _, direct = row
            if any(one in SUPPORT for one in (*types, result)):
                self.add("pg_proc", number, "functions for the server's own use")
                continue
            values = [f"null::{STAND_INS.get(one, one)}" for one in types]
            call = f'{schema}."{name}"({", ".join(values)})'
            if direct >= 0:
                call = f'{schema}."{name}"({", ".join(values[:direct])}) within group ' \
                    f'(order by {", ".join(values[direct:]) or "1"})'
            elif kind == "a" and not values:
                call = f'{schema}."{name}"(*)'
            elif kind == "w":
                call += " over ()"
            elif kind == "p":
                continue
            call = f"select * from {call} x" if is_set else f"select {call}"
            if self.refuses(call):
                self.add("pg_proc", number, "functions")

    def operators(self):
        ask = """select oid, oprname, format_type(nullif(oprleft, 0), null),
            format_type(oprright, null) from pg_operator where oid = any(%s)"""
        for number, name, left, right in self.ask(ask, self.suspects["pg_operator"]):
            left, right = (STAND_INS.get(one, one) for one in (left, right))
            left = f"null::{left}" if left else ""
            if self.refuses(f"select {left} operator(pg_catalog.{name}) null::{right}"):
                self.add("pg_operator", number, "operators")

    def casts(self):
        ask = """select oid, format_type(castsource, null), format_type(casttarget, null)
            from pg_cast where oid = any(%s)"""
        for number, source, target in self.ask(ask, self.suspects["pg_cast"]):
            if self.refuses(f"select (null::{source})::{target}"):
                self.add("pg_cast", number, "types")

    def collations(self):
        ask = "select oid, collname from pg_collation where oid < 16384"
        ours = {name for _, name in self.ours.execute(ask).fetchall()}
        for number, name in self.postgres.execute(ask).fetchall():
            if name not in ours and self.refuses(f"""select 'a' < 'b' collate "{name}" """):
                self.add("pg_collation", number, "collations of other locales")

    def methods(self):
        ask = "select oid, amname from pg_am where oid = any(%s)"
        for number, name in self.ask(ask, self.suspects["pg_am"]):
            if self.refuses(f"create index on seen using {name} (a)"):
                self.add("pg_am", number, "access methods")
        ask = """select c.oid, opcname, amname, format_type(opcintype, null), opcfamily
            from pg_opclass c join pg_am a on a.oid = opcmethod where c.oid = any(%s)"""
        for number, name, method, kind, _ in self.ask(ask, self.suspects["pg_opclass"]):
            kind = STAND_INS.get(kind, kind)
            with_class = f"create temp table held_key (a {kind}); " \
                f"create index on held_key using {method} (a {name})"
            if self.refuses(with_class):
                self.add("pg_opclass", number, "operator classes")
        gone = [row[1] for row in self.rows if row[0] == "pg_opclass"]
        ask = """select oid from pg_opfamily f where oid = any(%s) and not exists
            (select from pg_opclass where opcfamily = f.oid and oid <> all(%s))"""
        numbers = self.suspects["pg_opfamily"]
        for (number,) in self.postgres.execute(ask, [numbers, gone]).fetchall():
            self.add("pg_opfamily", number, "operator classes")

    def rest(self):
        """Text search, encodings, languages, extensions, databases."""
        if self.refuses("select to_tsvector('a')"):
            for name in ("pg_ts_parser", "pg_ts_template", "pg_ts_dict", "pg_ts_config"):
                for number in self.suspects[name]:
                    self.add(name, number, "text search")
        if self.refuses("create trigger t after insert on seen execute function f()"):
            for (number,) in self.postgres.execute("select oid from pg_trigger").fetchall():
                self.add("pg_trigger", number, "triggers of foreign keys")
        if self.refuses("select convert('a', 'latin1', 'utf8')"):
            for number in self.suspects["pg_conversion"]:
                self.add("pg_conversion", number, "conversions of encodings")
        made = "create function pg_temp.made() returns int language plpgsql as 'begin return 1; end'"
        if self.refuses(made):
            for name in ("pg_language", "pg_extension"):
                for number in self.suspects[name]:
                    self.add(name, number, "PL/pgSQL")
        for name in ("pg_settings_u", "pg_settings_n"):
            if self.refuses("update pg_settings set setting = '' where false"):
                ask = "select oid from pg_rewrite where rulename = %s"
                for (number,) in self.ask(ask, name):
                    self.add("pg_rewrite", number, "changes of pg_settings")
        ask = "select oid from pg_database where datname <> current_database()"
        if self.refuses("create database held"):
            for (number,) in self.postgres.execute(ask).fetchall():
                self.add("pg_database", number, "other databases")

    def columns(self):
        """Columns of system relations whose type is refused, and system columns of tables."""
        gone = {row[1] for row in self.rows if row[0] == "pg_type"}
        ask = """select attrelid, attnum, t.oid, format_type(t.oid, null), typtype = 'p'
            from pg_attribute a join pg_type t on t.oid = atttypid
            where attrelid < 16384 and attnum > 0 and typtype in ('b', 'p')"""
        refused = {}
        for number, part, kind, name, is_pseudo in self.postgres.execute(ask).fetchall():
            if kind not in refused:
                refused[kind] = kind in gone or is_pseudo or self.refuses(f"select null::{name}")
            if refused[kind]:
                self.add("pg_attribute", number, "types of columns of catalogs", part)
        ask = """select attrelid, attrelid::regclass::text, attnum, attname from pg_attribute
            join pg_class c on c.oid = attrelid
            where attnum < 0 and relkind <> 't' and relname not like 'sql!_%' escape '!'"""
        for number, relation, part, name in self.postgres.execute(ask).fetchall():
            if self.refuses(f"select {name} from {relation}"):
                self.add("pg_attribute", number, "system columns", part)


# Relations of ours that PostgreSQL 15 has not: later ones, those of extensions, and our own.
OWN = ("pg_stat_io", "pg_stat_statements", "rightlink_snapshots", "rightlink_stats",
       "rightlink_vacuums")


def own_rows(lacking):
    """The rows about relations that PostgreSQL refuses, for our server to leave aside."""
    rows = [row for row in lacking.rows
            if row[0] == "pg_proc" or row[0] == "pg_attribute" and row[1] < 16384]
    for name in OWN:
        if not lacking.refuses(f"select from pg_catalog.{name} limit 0", lacking.postgres):
            continue
        ask = "select c.oid, t.oid, t.typarray from pg_class c, pg_type t " \
            "where t.typrelid = c.oid and c.relname = %s and c.oid < 16384"
        for relation, of_row, of_array in lacking.ours.execute(ask, [name]).fetchall():
            rows.append(("pg_class", relation, 0, "relations of ours"))
            rows += [("pg_type", one, 0, "relations of ours") for one in (of_row, of_array)]
    return rows


def view(server, catalog, reasons):
    """A view of a catalog without what is left aside."""
    reasons = f"({reasons} or reason = 'held')"
    gone = f"select number from held.lacking where {reasons} and catalog ="
    kept = [f"x.{column} not in ({gone} '{of}')" for column, of in REFERS[catalog]]
    if catalog == "pg_attribute":
        both = f"select number, part from held.lacking where {reasons} and catalog ="
        kept.append(f"(x.attrelid, x.attnum::integer) not in ({both} 'pg_attribute')")
    if catalog == "pg_collation":
        kept.append(f"x.oid not in ({gone} 'pg_collation')")
    pairs = {
        "pg_depend": [("classid", "objid"), ("refclassid", "refobjid")],
        "pg_description": [("classoid", "objoid")],
        "pg_init_privs": [("classoid", "objoid")],
    }
    for of_class, of_object in pairs.get(catalog, []):
        both = f"select number, classid from held.lacking where {reasons} and classid <> 0"
        kept.append(f"(x.{of_object}, x.{of_class}) not in ({both})")
    names = [row[0] for row in server.execute(
        "select attname from pg_attribute where attrelid = %s::regclass and attnum > 0 "
        "and attname <> 'attmissingval' order by attnum", [f"pg_catalog.{catalog}"]).fetchall()]
    stored = ("relpages", "relfrozenxid", "relminmxid")
    shown = {one: f"0 as {one}" for one in stored} | {
        "reltoastrelid": f"case when x.reltoastrelid in ({gone} 'pg_class') then 0::oid "
        "else x.reltoastrelid end as reltoastrelid",
        "typarray": f"case when x.typarray in ({gone} 'pg_type') then 0::oid else x.typarray "
        "end as typarray",
    }
    columns = ", ".join(shown.get(one, f"x.{one}") for one in names)
    return f"create view held.{catalog} as select {columns}, x.tableoid from " \
        f"pg_catalog.{catalog} x where {' and '.join(kept) or 'true'}"


# What the schema adds itself.
OF_ITSELF = """insert into held.lacking select tableoid::regclass::text, oid, 0, 'held', tableoid from (
    select c.tableoid, c.oid from pg_class c, pg_namespace n
        where n.oid = relnamespace and nspname = 'held'
    union select t.tableoid, t.oid from pg_type t, pg_namespace n
        where n.oid = typnamespace and nspname = 'held'
    union select p.tableoid, p.oid from pg_proc p, pg_namespace n
        where n.oid = pronamespace and nspname = 'held'
    union select r.tableoid, r.oid from pg_rewrite r, pg_class c, pg_namespace n
        where n.oid = relnamespace and nspname = 'held' and c.oid = ev_class
    union select n.tableoid, n.oid from pg_namespace n where nspname = 'held') own"""


def hold(server, rows, reasons):
    """Makes the schema `held`."""
    drop(server)
    server.execute("create schema held")
    server.execute("create table held.lacking (catalog name, number oid, part integer, "
                   "reason name, classid oid)")
    numbers = dict(server.execute(
        "select relname::text, oid from pg_class where relnamespace = 11").fetchall())
    with server.cursor().copy("copy held.lacking from stdin") as copy:
        for catalog, number, part, reason in rows:
            own = 0 if catalog == "pg_attribute" else numbers[catalog]
            copy.write_row((catalog, number, part, reason, own))
    for kind in ("oid", "name"):
        server.execute(f"create function held.size({kind}) returns bigint language sql "
                       "as 'select 0::bigint'")
    for catalog in REFERS:
        server.execute(view(server, catalog, reasons))
    server.execute(OF_ITSELF)


def drop(server):
    server.execute("set client_min_messages = warning")
    server.execute("drop schema if exists held cascade")


NAMES = re.compile(
    r"('(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*)|(?<![\w.])(pg_catalog\.)?(" + "|".join(REFERS) +
    r")\b(?!\s*\()(\s*\.)?", re.S | re.I)
SIZED = re.compile(rf"\b(?:pg_catalog\.)?(?:{SIZES})\s*\(", re.I)


def held_query(query):
    """The query, over the views; sizes count nothing."""

    def one(found):
        kept, schema, name, dot = found.groups()
        if kept or dot and not schema:
            return found[0]
        return f"held.{name}{dot or ''}"

    return SIZED.sub("held.size(", NAMES.sub(one, query))
