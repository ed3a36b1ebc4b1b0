"""Polars: frames written to tables and read again, by way of ADBC and of SQLAlchemy:
`check_polars.py PORT DATABASE`, on an empty database."""

import sys
from datetime import date, datetime, timedelta
from decimal import Decimal

import polars as pl
import sqlalchemy as sa


def frame(count):
    """Values of every kind, some of them missing."""
    ids = range(count)
    return pl.DataFrame(
        {
            "id": pl.Series(ids, dtype=pl.Int64),
            "small": pl.Series([n % 9 if n % 4 else None for n in ids], dtype=pl.Int16),
            "kind": [f"k{n % 5}" for n in ids],
            "amount": [n / 8 if n % 3 else None for n in ids],
            "on": [n % 2 == 0 for n in ids],
            "day": [date(2024, 1, 1) + timedelta(days=n) for n in ids],
            "at": [datetime(2024, 1, 1) + timedelta(minutes=n, microseconds=n) for n in ids],
            "bytes": [bytes([n % 256, 0]) for n in ids],
        }
    )


def check(uri, engine):
    rows = frame(4_000)
    assert rows.write_database("t", uri, engine="adbc") in (-1, 4_000)
    assert pl.read_database_uri("select * from t order by id", uri, engine="adbc").equals(rows)
    with engine.connect() as connection:
        by_name = pl.read_database("select * from t order by id", connection)
        assert by_name.select("id", "kind", "amount", "on", "day", "at").equals(
            rows.select("id", "kind", "amount", "on", "day", "at")
        )
        batches = pl.read_database(
            "select id from t order by id", connection, iter_batches=True, batch_size=900
        )
        assert [batch.height for batch in batches] == [900, 900, 900, 900, 400]
        asked = pl.read_database(
            sa.text("select id from t where kind = :k and day < :d order by 1"),
            connection,
            execute_options={"parameters": {"k": "k3", "d": date(2024, 3, 1)}},
        )
        expected = rows.filter(pl.col("kind") == "k3", pl.col("day") < date(2024, 3, 1))
        assert asked["id"].to_list() == expected["id"].to_list()
    prices = pl.DataFrame({"kind": [f"k{n}" for n in range(5)], "price": [Decimal(n) for n in range(5)]})
    prices.write_database("prices", engine, engine="sqlalchemy")
    query = """select p.kind, sum(t.amount * p.price::float8) as total, count(*) as n
               from t join prices p on p.kind = t.kind group by p.kind order by p.kind"""
    ours = pl.read_database_uri(query, uri, engine="adbc")
    theirs = (
        rows.join(prices.with_columns(pl.col("price").cast(pl.Float64)), on="kind")
        .group_by("kind")
        .agg(total=(pl.col("amount") * pl.col("price")).sum(), n=pl.len())
        .sort("kind")
    )
    assert ours["n"].to_list() == theirs["n"].to_list()
    assert all(abs(x - y) < 1e-6 for x, y in zip(ours["total"], theirs["total"], strict=True))
    rows.tail(10).with_columns(pl.col("id") + 10_000).write_database(
        "t", uri, engine="adbc", if_table_exists="append"
    )
    assert pl.read_database_uri("select max(id) as m from t", uri, engine="adbc")["m"][0] == 13_999
    frame(3).write_database("t", uri, engine="adbc", if_table_exists="replace")
    assert pl.read_database_uri("select * from t order by id", uri, engine="adbc").equals(frame(3))
    try:
        frame(3).write_database("t", uri, engine="adbc", if_table_exists="fail")
    except Exception as error:
        assert "t" in str(error)
    else:
        raise AssertionError("nothing was refused")
    with engine.begin() as connection:
        connection.execute(sa.text("drop table t, prices"))


def main():
    port, database = sys.argv[1:3]
    place = f"rightlink@127.0.0.1:{port}/{database}"
    engine = sa.create_engine(f"postgresql+psycopg://{place}")
    check(f"postgresql://{place}", engine)
    engine.dispose()
    print(f"Polars {pl.__version__}: frames by ADBC and by SQLAlchemy")


main()
