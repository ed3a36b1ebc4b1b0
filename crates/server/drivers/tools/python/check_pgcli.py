"""pgcli: its statements and backslash commands, and the words that it completes with:
`check_pgcli.py PORT DATABASE`, on an empty database. Its prompt needs a terminal and is left out."""

import logging
import sys

import pgcli
import psycopg
from pgcli.completion_refresher import CompletionRefresher
from pgcli.pgexecute import PGExecute
from pgspecial.main import PGSpecial
from prompt_toolkit.document import Document
from prompt_toolkit.completion import CompleteEvent

OBJECTS = """
create schema app;
create type app.mood as enum ('sad', 'glad');
create table app.people (id serial primary key, name text not null, mood app.mood default 'sad');
create table app.pets (id int primary key, owner_id int references app.people (id), name text);
create view app.owners as select p.name, count(*) as pets from app.people p
  join app.pets t on t.owner_id = p.id group by p.name;
create function app.twice(n int, add int default 0) returns int language sql as 'select n * 2 + add';
comment on table app.people is 'those who own';
set search_path = app, public;
insert into people (name) select 'Name ' || n from generate_series(1, 20) n;
insert into pets select n, n % 5 + 1, 'Pet ' || n from generate_series(1, 12) n;
"""


def rows(session, statement):
    """The rows of the last part of a message."""
    found = []
    for _, cursor, _, status, *rest in session.run(statement, pgspecial=SPECIAL):
        found = list(cursor) if cursor is not None else []
    return found


SPECIAL = PGSpecial()


def statements(session):
    for _ in session.run(OBJECTS):
        pass
    assert rows(session, "select name, pets from owners order by 1 limit 2") == [("Name 1", 2), ("Name 2", 3)]
    assert rows(session, "update people set mood = 'glad' where id < 4 returning id") == [(1,), (2,), (3,)]
    try:
        rows(session, "select nothing from people")
    except psycopg.errors.UndefinedColumn as error:
        assert error.diag.statement_position == "8"
    else:
        raise AssertionError("nothing was refused")
    for part in ["begin", "delete from pets", "rollback"]:
        rows(session, part)
    assert rows(session, "select count(*) from pets") == [(12,)]
    plan = rows(session, session.explain_prefix() + "select * from people where id = 3")
    assert plan, "a plan"


def commands(session):
    """What backslash commands tell."""
    names = {row[1] for row in rows(session, "\\dt app.*")}
    assert names == {"people", "pets"}, names
    assert {row[1] for row in rows(session, "\\dv app.*")} == {"owners"}
    assert {row[1] for row in rows(session, "\\ds app.*")} == {"people_id_seq"}
    assert {row[1] for row in rows(session, "\\di app.*")} == {"people_pkey", "pets_pkey"}
    columns = rows(session, "\\d app.people")
    assert [tuple(row)[:2] for row in columns] == [("id", "integer"), ("name", "text"), ("mood", "app.mood")] or [
        tuple(row)[:2] for row in columns
    ] == [("id", "integer"), ("name", "text"), ("mood", "mood")], columns
    status = [part[3] for part in session.run("\\d app.people", pgspecial=SPECIAL)][-1]
    assert '"people_pkey" PRIMARY KEY, btree (id)' in status and "Referenced by" in status, status
    assert any("twice" in row for row in rows(session, "\\df app.*"))
    assert any("mood" in str(row) for row in rows(session, "\\dT app.*"))
    assert any("app" in row for row in rows(session, "\\dn"))
    assert any("those who own" in str(row) for row in rows(session, "\\dt+ app.*"))
    assert "n * 2 + add" in str(rows(session, "\\sf app.twice"))
    for command in ["\\l", "\\du", "\\dx", "\\dp", "\\dD", "\\dm", "\\db", "\\ddp", "\\dF", "\\dE"]:
        for part in session.run(command, pgspecial=SPECIAL):
            assert part[5], (command, part)


def words(session):
    """What it completes with."""
    assert set(session.schemata()) >= {"app", "public", "pg_catalog"}
    assert set(session.tables()) >= {("app", "people"), ("app", "pets")}
    assert ("app", "owners") in set(session.views())
    columns = {tuple(row)[:4] for row in session.table_columns()}
    assert ("app", "people", "name", "text") in columns, columns
    keys = [key for key in session.foreignkeys() if key.childschema == "app"]
    assert [(key.parenttable, key.childtable, key.childcolumn) for key in keys] == [("people", "pets", "owner_id")]
    (own,) = [one for one in session.functions() if one.func_name == "twice"]
    assert (own.arg_names, own.return_type) == (("n", "add"), "integer"), own
    assert ("app", "mood") in {tuple(one)[:2] for one in session.datatypes()}
    assert "n * 2 + add" in session.function_definition("app.twice")
    assert "count(*)" in session.view_definition("app.owners")
    refresher, made = CompletionRefresher(), []
    refresher._bg_refresh(session, SPECIAL, [made.append], settings={"search_path_filter": False})

    def offered(text):
        found = made[0].get_completions(Document(text, len(text)), CompleteEvent())
        return {word.text for word in found}

    assert any("people" in word for word in offered("select * from peo")), offered("select * from peo")
    assert "mood" in offered("select p.m from app.people p where p.mo")
    joined = offered("select * from app.people join ")
    assert any("owner_id = people.id" in word for word in joined), joined


def main():
    # It writes what fails to its log, which is nowhere here.
    logging.getLogger("pgcli").addHandler(logging.NullHandler())
    port, database = sys.argv[1:3]
    session = PGExecute(database, "rightlink", None, "127.0.0.1", port)
    statements(session)
    commands(session)
    words(session)
    for _ in session.run("drop schema app cascade"):
        pass
    print(f"pgcli {pgcli.__version__}: statements, backslash commands, completion")


main()
