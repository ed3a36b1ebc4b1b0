#!/usr/bin/env python3
"""Random statements about roles, membership, ownership and privileges, the same to `rightlink serve`
and to PostgreSQL 15: every answer and every error code must be equal.

    apt-get install postgresql-15; pip install 'psycopg[binary]'
    cargo build --release -p rightlink-cli
    bench/postgres/privileges.py [--statements 50000] [--seed 1] [--binary FILE] [--show 20]

A round makes six roles, of which some are members of others, with and without INHERIT, and a
schema, tables, a view and a sequence that some of them own. Then it grants and revokes as one role
or another, and has each role try each action: the matrix of roles, objects and actions. What
catalogs and functions tell of it is asked in between.

Does not do: privileges on columns, functions and types, which are refused by name; LOCK of a view,
which locks no tables below it; a search path that passes over schemas which a role may not use.
"""

import sys

import peer

ROLES = ("o", "d", "m", "n", "x", "y")
RELATIONS = ("s.t", "s.u", "s.v", "p", "s.q")
TABLES = ("s.t", "s.u", "p")
TABLE = ("select", "insert", "update", "delete", "truncate", "references", "trigger")
ACTIONS = (
    "select count(*) from {t}", "select 1 from {t} limit 0", "insert into {t} values (1, 2)",
    "insert into {t} values (1, 2) returning a", "update {t} set a = 1", "update {t} set a = a + 1",
    "update {t} set a = 1 where b = 2", "delete from {t}", "delete from {t} where a = 99",
    "delete from {t} returning b", "truncate {t}", "select * from {t} for update",
    "select a from {t} for share", "lock table {t} in access share mode", "lock table {t}",
    "insert into {t} (a) select a from s.u", "update {t} set a = k.a from s.u k where k.b = 77",
    "with w as (delete from {t} returning a) select count(*) from w", "copy {t} to stdout",
    "analyze {t}", "comment on table {t} is 'c'", "alter table {t} alter column a set default 1",
    "create index on {t} (a)", "explain (costs off) select 1 from {t} limit 0",
)
SEQUENCE = (
    "select nextval('s.q') > 0", "select setval('s.q', 5)", "select last_value > 0 from s.q",
    "alter sequence s.q increment 1", "insert into s.w (b) values (1)",
    "insert into s.w values (default, 1)", "insert into s.w values (3, 1)",
)
OTHERS = (
    "create table s.made (a int); drop table s.made", "create table made (a int); drop table made",
    "create schema made; drop schema made", "create temp table tmp (a int); drop table tmp",
    "create view s.mv as select 1; drop view s.mv", "create role made; drop role made",
    "create sequence s.ms; drop sequence s.ms", "create table s.k (a int references p (a)); drop table s.k",
    "select count(*) from pg_authid where length(rolname) = 1", "create type s.e as enum ('a'); drop type s.e", "checkpoint",
    "alter schema s rename to r", "drop table s.u", "drop view s.v",
)


def named(text):
    """An expression in which the owner of the database has one name on both."""
    return f"replace(replace({text}::text, 'rightlink', '!'), 'postgres', '!')"


class Round(peer.Chooser):
    """The statements of one round; equal seeds make equal ones."""

    acting = None

    def begin(self):
        for role in ROLES:
            inherit = self.pick("", "", " noinherit")
            more = self.pick("", "", " createrole", " superuser") if role == "y" else ""
            yield f"create role {role}{inherit}{more}"
        for _ in range(4):
            yield f"grant {self.role()} to {self.role()}{self.pick('', ' with admin option')}"
        yield f"create schema s authorization {self.pick('o', 'd', 'current_user')}"
        yield "create table p (a int primary key, b int)"
        yield f"grant usage on schema s to {self.grantee()}"
        for table in ("t", "u"):
            yield f"create table s.{table} (a int, b int)"
            yield f"insert into s.{table} values (1, 2), (3, 4)"
        yield "create table s.w (a serial, b int)"
        yield "create view s.v as select a, b from s.t where b < 1000"
        yield "create sequence s.q"
        for relation in RELATIONS:
            if self.chance(0.6):
                kind = {"s.v": "view", "s.q": "sequence"}.get(relation, "table")
                yield f"alter {kind} {relation} owner to {self.role()}"

    def end(self):
        yield "reset role"
        yield "drop view s.v"
        for role in ROLES:
            yield f"reassign owned by {role} to current_user"
        yield "drop schema s cascade"
        yield "drop table p"
        for role in ROLES:
            yield f"drop owned by {role}"
        for role in ROLES:
            yield f"drop role {role}"

    def role(self):
        return self.random.choice(ROLES)

    def grantee(self):
        return self.pick("public", self.role(), self.role(), self.role())

    def privileges(self):
        if self.chance(0.25):
            return self.pick("all", "all privileges")
        return ", ".join(self.random.sample(TABLE, self.random.randrange(1, 4)))

    def objects(self):
        """Privileges and what they are on."""
        chance = self.random.random()
        if chance < 0.6:
            return self.privileges(), self.pick("s.t", "s.u", "s.v", "p", "table s.t, p", "s.w")
        if chance < 0.7:
            return self.pick("usage", "select", "update", "all", "usage, select"), "sequence s.q"
        if chance < 0.75:
            return self.pick("usage", "all"), "sequence s.w_a_seq"
        if chance < 0.9:
            if self.chance(0.3):
                return "create", "schema public"
            return self.pick("usage", "create", "all", "usage, create"), "schema s"
        if chance < 0.95:
            return self.pick("select", "all"), "all tables in schema s"
        return self.pick("create", "temp", "connect"), "database postgres"

    def change(self):
        chance = self.random.random()
        if chance < 0.15:
            return f"grant {self.role()} to {self.role()}{self.pick('', ' with admin option')}"
        if chance < 0.25:
            return (f"revoke {self.pick('', 'admin option for ')}{self.role()} from {self.role()}"
                    f"{self.pick('', ' cascade')}")
        if chance < 0.3:
            return (f"alter default privileges {self.pick('', 'for role ' + self.role())} "
                    f"{self.pick('', 'in schema s')} grant {self.pick('select', 'insert, update')} "
                    f"on tables to {self.grantee()}")
        if chance < 0.33:
            return f"alter role {self.role()} {self.pick('inherit', 'noinherit', 'createrole')}"
        if chance < 0.36:
            return f"alter {self.pick('table s.t', 'schema s', 'view s.v')} owner to {self.role()}"
        privileges, objects = self.objects()
        if chance < 0.75:
            # What a role gives itself on the database keeps it in PostgreSQL for ever.
            option = "" if objects.startswith("database") else self.pick("", "", " with grant option")
            return f"grant {privileges} on {objects} to {self.grantee()}{option}"
        return (f"revoke {self.pick('', '', 'grant option for ')}{privileges} on {objects} from "
                f"{self.grantee()}{self.pick('', ' cascade', ' restrict')}")

    def question(self):
        role = self.grantee()
        relation = self.pick(*RELATIONS[:4])
        privilege = self.pick(*TABLE) + self.pick("", "", " with grant option")
        return self.pick(
            lambda: f"select has_table_privilege('{role}', '{relation}', '{privilege}')",
            lambda: f"select has_schema_privilege('{role}', 's', '{self.pick('usage', 'create')}')",
            lambda: f"select has_sequence_privilege('{role}', 's.q', '{self.pick('usage', 'select')}')",
            lambda: f"select has_any_column_privilege('{relation}', 'select, insert')",
            lambda: f"select has_column_privilege('{role}', '{relation}', 'a', 'select')",
            lambda: f"select pg_has_role('{self.role()}', '{self.role()}', "
                    f"'{self.pick('member', 'usage', 'member with admin option')}')",
            lambda: f"select relname, {named('pg_get_userbyid(relowner)')}, {named('relacl')} "
                    "from pg_class where relname in ('t', 'u', 'v', 'p', 'q', 'w', 'w_a_seq') and relkind in "
                    "('r', 'v', 'S') order by 1",
            lambda: f"select nspname, {named('pg_get_userbyid(nspowner)')}, {named('nspacl')} "
                    "from pg_namespace where nspname = 's'",
            lambda: "select r.rolname, m.rolname, admin_option from pg_auth_members a join "
                    "pg_roles r on r.oid = roleid join pg_roles m on m.oid = member where "
                    "length(r.rolname) = 1 order by 1, 2",
            lambda: "select rolname, rolsuper, rolinherit, rolcreaterole, rolcanlogin from pg_roles "
                    "where length(rolname) = 1 order by 1",
            lambda: "select grantee, table_name, privilege_type, is_grantable from "
                    "information_schema.table_privileges where table_schema = 's' and "
                    "length(grantee) = 1 order by 1, 2, 3, 4",
            lambda: "select current_user, session_user, current_role",
            lambda: f"select tablename, {named('tableowner')} from pg_tables where "
                    "schemaname = 's' order by 1",
            lambda: "select role_name from information_schema.enabled_roles where "
                    "length(role_name) = 1 order by 1",
        )()

    def action(self):
        chance = self.random.random()
        if chance < 0.65:
            action = self.pick(*ACTIONS)
            tables = TABLES if action.startswith(("alter", "lock")) else RELATIONS[:4]
            return action.format(t=self.pick(*tables))
        if chance < 0.85:
            return self.pick(*SEQUENCE)
        return self.pick(*OTHERS)

    def act(self, statement):
        """Remembers who acts, for a reader of a difference."""
        Round.acting = statement
        return statement

    def tries(self):
        """A role tries an action, which leaves nothing behind."""
        yield self.act(f"set role {self.pick(self.role(), self.role(), self.role(), 'none')}")
        for _ in range(4):
            yield "begin"
            yield self.action()
            yield "rollback"

    def statements(self):
        yield from self.begin()
        yield self.act("reset role")
        for _ in range(25):
            chance = self.random.random()
            if chance < 0.3:
                yield self.act(self.pick(f"set role {self.role()}", "reset role", "reset role"))
                yield self.change()
                yield self.change()
                yield self.question()
            elif chance < 0.45:
                yield self.question()
            else:
                yield from self.tries()
        yield from self.end()


if __name__ == "__main__":
    sys.exit(peer.compare(__doc__, peer.rounds(Round),
                          lambda: f"  ({Round.acting})"))
