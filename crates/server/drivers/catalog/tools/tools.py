"""What Python's tools ask of catalogs: `tools.py TOOL PORT DATABASE` runs one."""

import asyncio
import contextlib
import io
import os
import sys
import tempfile

TOOL, PORT, DATABASE = sys.argv[1:4]
URL = f"rightlink@127.0.0.1:{PORT}/{DATABASE}"


def sqlalchemy():
    import sqlalchemy as sa

    engine = sa.create_engine(f"postgresql+psycopg2://{URL}")
    inspector = sa.inspect(engine)
    for schema in [None, "app"]:
        inspector.get_table_names(schema=schema)
        inspector.get_view_names(schema=schema)
        inspector.get_materialized_view_names(schema=schema)
        inspector.get_temp_table_names()
        inspector.get_sequence_names(schema=schema)
        inspector.get_enums(schema=schema)
        inspector.get_domains(schema=schema)
    inspector.get_schema_names()
    inspector.default_schema_name
    for get in ["columns", "pk_constraint", "foreign_keys", "indexes", "unique_constraints"]:
        getattr(inspector, f"get_{get}")("t001")
        getattr(inspector, f"get_multi_{get}")()
        getattr(inspector, f"get_{get}")("t004", schema="app")
    for get in ["check_constraints", "table_comment", "table_options"]:
        getattr(inspector, f"get_{get}")("t001")
        getattr(inspector, f"get_multi_{get}")()
    inspector.get_view_definition("v000")
    inspector.has_table("t001")
    inspector.has_sequence("seq1")
    inspector.has_index("t001", "t001_i1")
    inspector.get_table_oid("t001")
    sa.MetaData().reflect(engine, views=True)
    other = sa.MetaData()
    sa.Table("fresh", other, sa.Column("id", sa.Integer, primary_key=True), sa.Column("e", sa.Enum("a", "b", name="fresh_e")))
    other.create_all(engine)
    other.drop_all(engine)


def alembic():
    import sqlalchemy as sa
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    with sa.create_engine(f"postgresql+psycopg2://{URL}").connect() as connection:
        options = {"compare_type": True, "compare_server_default": True}
        context = MigrationContext.configure(connection, opts=options)
        context.get_current_revision()
        compare_metadata(context, sa.MetaData())


def django():
    from django.conf import settings

    base = {"ENGINE": "django.db.backends.postgresql", "NAME": DATABASE, "USER": "rightlink"}
    settings.configure(
        DATABASES={"default": base | {"HOST": "127.0.0.1", "PORT": PORT}},
        INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth"],
        DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    )
    import django as it

    it.setup()
    from django.core.management import call_command
    from django.db import connection

    with contextlib.redirect_stdout(io.StringIO()):
        call_command("inspectdb", include_views=True)
    with connection.cursor() as cursor:
        look = connection.introspection
        look.table_names(cursor, include_views=True)
        for table in ["t000", "t001"]:
            look.get_table_list(cursor)
            look.get_table_description(cursor, table)
            look.get_sequences(cursor, table)
            look.get_relations(cursor, table)
            look.get_constraints(cursor, table)
            look.get_primary_key_column(cursor, table)
    call_command("migrate", verbosity=0)
    from django.db import connection as again

    with again.cursor() as cursor:
        names = [one for one in again.introspection.table_names(cursor) if one[:2] in ("au", "dj")]
        cursor.execute("drop table " + ", ".join(names) + " cascade")


def pandas():
    import pandas as pd
    import sqlalchemy as sa

    engine = sa.create_engine(f"postgresql+psycopg://{URL}")
    pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}).to_sql("frame", engine, if_exists="replace")
    pd.read_sql_table("frame", engine)
    pd.read_sql("t001", engine)
    pd.DataFrame({"a": [1]}).to_sql("frame", engine, if_exists="append")
    with engine.begin() as connection:
        connection.exec_driver_sql("drop table frame")


def asyncpg():
    import asyncpg as driver

    async def run():
        at = {"host": "127.0.0.1", "port": int(PORT), "user": "rightlink", "database": DATABASE}
        connection = await driver.connect(**at)
        await connection.fetch("select feels, tags, c4 from t001")
        await connection.fetch("select row(1, 'a')::pair, array[row(1, 'a')::pair]")
        await connection.set_type_codec("pair", encoder=str, decoder=str, format="text") if 0 else None
        await connection.set_builtin_type_codec("positive", codec_name="int") if 0 else None
        await connection.set_type_codec("mood", encoder=str, decoder=str, format="text")
        await connection.fetch("select array[]::mood[]")
        await connection.reset()
        await connection.close()

    asyncio.run(run())


def psycopg():
    import psycopg as driver
    from psycopg.types import TypeInfo
    from psycopg.types.composite import CompositeInfo
    from psycopg.types.enum import EnumInfo
    from psycopg.types.range import RangeInfo
    from psycopg.types.multirange import MultirangeInfo

    with driver.connect(f"host=127.0.0.1 port={PORT} user=rightlink dbname={DATABASE}") as one:
        TypeInfo.fetch(one, "positive")
        EnumInfo.fetch(one, "mood")
        EnumInfo.fetch(one, "app.level")
        CompositeInfo.fetch(one, "pair")
        RangeInfo.fetch(one, "int4range")
        MultirangeInfo.fetch(one, "int4multirange")


def pgcli():
    from pgcli.pgexecute import PGExecute

    one = PGExecute(DATABASE, "rightlink", None, "127.0.0.1", PORT)
    for ask in ["tables", "views", "schemata", "table_columns", "view_columns", "databases"]:
        list(getattr(one, ask)())
    list(one.foreignkeys())
    list(one.functions())
    list(one.datatypes())
    one.full_databases()
    one.view_definition("v000")
    for command in ["\\d", "\\dt", "\\di", "\\d t001", "\\dn", "\\du", "\\l", "\\df", "\\dT", "\\ds", "\\dv", "\\dx", "\\dp", "\\dD", "\\dF", "\\dm"]:
        with contextlib.suppress(Exception):
            list(one.run(command))


def peewee():
    from playhouse.reflection import generate_models, print_model
    import peewee as pw

    base = pw.PostgresqlDatabase(DATABASE, host="127.0.0.1", port=int(PORT), user="rightlink")
    base.get_tables()
    base.get_views()
    base.get_columns("t001")
    base.get_indexes("t001")
    base.get_foreign_keys("t001")
    base.get_primary_keys("t001")
    base.sequence_exists("seq1")
    generate_models(base)


def adbc():
    import adbc_driver_postgresql.dbapi as dbapi

    with dbapi.connect(f"postgresql://{URL}") as one:
        one.adbc_get_objects().read_all()
        one.adbc_get_objects(depth="tables").read_all()
        one.adbc_get_objects(depth="catalogs").read_all()
        one.adbc_get_table_schema("t001")
        one.adbc_get_table_types()


def polars():
    import polars as pl

    pl.read_database_uri("select id, name, feels from t001", f"postgresql://{URL}", engine="adbc")
    frame = pl.DataFrame({"a": [1, 2]})
    frame.write_database("frame", f"postgresql+psycopg2://{URL}", engine="sqlalchemy", if_table_exists="replace")
    import sqlalchemy as sa

    with sa.create_engine(f"postgresql+psycopg2://{URL}").begin() as connection:
        connection.exec_driver_sql("drop table frame")


globals()[TOOL]()
