"""psycopg 3 and SQLAlchemy core against a server at PGHOST and PGPORT, with PGUSER and PGPASSWORD.

Each step asserts what PostgreSQL would answer; the first that differs ends the program.
"""

import threading
import time

import psycopg
import sqlalchemy as sa


def psycopg_works():
    with psycopg.connect(sslmode="require", dbname="test") as conn:
        conn.execute("drop table if exists p")
        conn.execute("create table p (id int8 primary key, name text, price numeric, at timestamptz)")
        with conn.cursor().copy("copy p (id, name) from stdin") as copy:
            for number in range(1000):
                copy.write_row((number, f"n{number}"))
        assert conn.execute("select count(*) from p").fetchone() == (1000,)
        for prepare in (False, True):
            row = conn.execute("select name from p where id = %s", (7,), prepare=prepare).fetchone()
            assert row == ("n7",), row
        binary = conn.cursor(binary=True).execute("select id, name from p where id = %s", (8,))
        assert binary.fetchone() == (8, "n8")
        changed = conn.execute("update p set price = %s where id < 10", ("12.50",))
        assert changed.rowcount == 10
        assert str(conn.execute("select price from p where id = 3").fetchone()[0]) == "12.50"
        arrays(conn)
        with conn.cursor().copy("copy p (id) to stdout") as copy:
            copy.set_types(["int8"])
            assert sum(row[0] for row in copy.rows()) == 999 * 500
        conn.commit()
        errors(conn)
        cancel(conn)
        with conn.pipeline():
            for number in range(2000, 2010):
                conn.execute("insert into p (id) values (%s)", (number,))
        assert conn.execute("select count(*) from p where id >= 2000").fetchone() == (10,)
        cursor = conn.cursor("named")
        cursor.execute("select id from p order by id")
        assert [row[0] for row in cursor.fetchmany(3)] == [0, 1, 2]


def arrays(conn):
    query = "select id from p where id = any(%s) order by id"
    for prepare in (False, True):
        rows = conn.execute(query, ([3, 1, 5000],), prepare=prepare).fetchall()
        assert rows == [(1,), (3,)], rows
    conn.execute("drop table if exists p_arrays")
    conn.execute("create table p_arrays (id int, tags text[], numbers int[])")
    for binary in (False, True):
        conn.execute("insert into p_arrays values (%s, %s, %s)", (1, ["a", None, "b c"], [[1, 2], [3, 4]]))
        cursor = conn.cursor(binary=binary)
        row = cursor.execute("select tags, numbers, numbers[2][1] from p_arrays").fetchone()
        assert row == (["a", None, "b c"], [[1, 2], [3, 4]], 3), row
    conn.execute("drop table p_arrays")


def errors(conn):
    expected = [
        ("insert into p (id) values (1)", psycopg.errors.UniqueViolation),
        ("select 1 / 0", psycopg.errors.DivisionByZero),
        ("select nothing from p", psycopg.errors.UndefinedColumn),
        ("select * from nothing", psycopg.errors.UndefinedTable),
        ("selec", psycopg.errors.SyntaxError),
    ]
    for sql, kind in expected:
        try:
            conn.execute(sql)
        except kind:
            conn.rollback()
        else:
            raise AssertionError(sql)


def cancel(conn):
    threading.Timer(0.2, conn.cancel).start()
    start = time.monotonic()
    try:
        conn.execute("select pg_sleep(60)")
    except psycopg.errors.QueryCanceled:
        conn.rollback()
    else:
        raise AssertionError("a query went on")
    assert time.monotonic() - start < 5


def sqlalchemy_works():
    engine = sa.create_engine("postgresql+psycopg:///test?sslmode=require")
    table = sa.Table(
        "q",
        sa.MetaData(),
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("name", sa.Text),
        sa.Column("on", sa.Date),
    )
    with engine.begin() as conn:
        conn.execute(sa.text("drop table if exists q"))
        conn.execute(sa.schema.CreateTable(table))
        conn.execute(table.insert(), [{"id": n, "name": f"n{n}"} for n in range(100)])
    with engine.connect() as conn:
        query = sa.select(table.c.name).where(table.c.id.in_([1, 2])).order_by(table.c.id.desc())
        assert conn.execute(query).scalars().all() == ["n2", "n1"]
        query = sa.select(sa.func.count(), sa.func.max(table.c.id)).select_from(table)
        assert conn.execute(query).one() == (100, 99)
        query = table.update().where(table.c.id == 5).values(name="five").returning(table.c.name)
        assert conn.execute(query).scalar_one() == "five"
        try:
            conn.execute(table.insert(), {"id": 5})
        except sa.exc.IntegrityError as error:
            assert error.orig.sqlstate == "23505"
        else:
            raise AssertionError("a key was there twice")


psycopg_works()
print("psycopg", psycopg.__version__, "works")
sqlalchemy_works()
print("SQLAlchemy", sa.__version__, "works")
