"""pandas: frames written to tables and read again, joined and grouped, by way of SQLAlchemy and of
ADBC: `check_pandas.py PORT DATABASE`, on an empty database."""

import sys

import adbc_driver_postgresql.dbapi as adbc
import pandas as pd
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError


def frame(count):
    """Values of every kind that a frame has, some of them missing."""
    ids = range(count)
    return pd.DataFrame(
        {
            "id": pd.array(ids, dtype="int64"),
            "kind": [["red", "green", "blue"][n % 3] for n in ids],
            "amount": [n / 4 if n % 5 else None for n in ids],
            "small": pd.array([n % 7 if n % 4 else None for n in ids], dtype="Int16"),
            "on": [n % 2 == 0 for n in ids],
            "at": pd.date_range("2024-01-01", periods=count, freq="h", tz="UTC"),
            "day": pd.date_range("2024-01-01", periods=count, freq="D"),
            "text": ['a "quote", a \\ and\nlines' if n % 11 == 0 else f"ä{n}" for n in ids],
        }
    )


def equal(found, expected):
    """Are the rows the same, whatever pandas calls their types?"""
    found = found.sort_values("id").reset_index(drop=True)[list(expected.columns)]
    assert len(found) == len(expected)
    for name in expected.columns:
        ours, theirs = found[name].tolist(), expected[name].tolist()
        for x, y in zip(ours, theirs, strict=True):
            both_missing = pd.isna(x) and pd.isna(y)
            assert both_missing or x == y, (name, x, y)


def by_sqlalchemy(url):
    engine = sa.create_engine(url)
    rows = frame(2_500)
    types = {"amount": sa.Numeric(10, 2, asdecimal=False), "small": sa.SmallInteger, "text": sa.Text}
    rows.to_sql("sales", engine, index=False, dtype=types, method="multi", chunksize=500)
    equal(pd.read_sql_table("sales", engine), rows)
    equal(pd.concat(pd.read_sql("select * from sales", engine, chunksize=700)), rows)
    more = frame(2_600).tail(100)
    more.to_sql("sales", engine, index=False, if_exists="append")
    assert pd.read_sql("select count(*) as n from sales", engine)["n"][0] == 2_600
    kinds = pd.DataFrame({"kind": ["red", "green", "blue"], "price": [1, 2, 3]}).set_index("kind")
    kinds.to_sql("kinds", engine)
    query = sa.text(
        "select k.kind, count(*) as n, sum(s.amount * k.price) as total, avg(s.small) as small "
        "from sales s join kinds k on k.kind = s.kind where s.at < :until group by 1 order by 1"
    )
    ours = pd.read_sql(query, engine, params={"until": pd.Timestamp("2024-03-01", tz="UTC")})
    theirs = frame(2_600).merge(kinds.reset_index(), on="kind")
    theirs = theirs[theirs["at"] < pd.Timestamp("2024-03-01", tz="UTC")]
    theirs["total"] = theirs["amount"] * theirs["price"]
    theirs = theirs.groupby("kind").agg(n=("id", "count"), total=("total", "sum"), small=("small", "mean"))
    assert ours["n"].tolist() == theirs["n"].tolist()
    for name in ["total", "small"]:
        pairs = zip(ours[name].astype(float), theirs[name], strict=True)
        assert all(abs(x - y) < 1e-6 for x, y in pairs), name
    frame(10).to_sql("sales", engine, index=False, if_exists="replace")
    assert pd.read_sql("select max(id) as n from sales", engine)["n"][0] == 9
    with engine.begin() as connection:
        connection.execute(sa.text("alter table sales add primary key (id)"))
    try:
        with engine.begin() as connection:
            frame(20).to_sql("sales", connection, index=False, if_exists="append")
    except pd.errors.DatabaseError as error:
        assert isinstance(error.__cause__, IntegrityError)
    else:
        raise AssertionError("nothing was refused")
    assert pd.read_sql("select count(*) as n from sales", engine)["n"][0] == 10
    with engine.connect() as connection, connection.begin() as transaction:
        frame(20).tail(10).to_sql("sales", connection, index=False, if_exists="append")
        transaction.rollback()
    assert pd.read_sql("select count(*) as n from sales", engine)["n"][0] == 10
    sa.MetaData().reflect(engine)
    with engine.begin() as connection:
        connection.execute(sa.text("drop table sales, kinds"))
    engine.dispose()


def by_adbc(url):
    rows = frame(3_000)
    with adbc.connect(url) as connection:
        rows.to_sql("moved", connection, index=False)
        connection.commit()
        equal(pd.read_sql("select * from moved", connection), rows)
        equal(pd.read_sql_table("moved", connection), rows)
        rows.tail(5).to_sql("moved", connection, index=False, if_exists="append")
        counted = pd.read_sql("select kind, count(*) as n from moved group by kind", connection)
        assert counted["n"].sum() == 3_005
        with connection.cursor() as cursor:
            cursor.execute("drop table moved")
        connection.commit()


def main():
    port, database = sys.argv[1:3]
    place = f"rightlink@127.0.0.1:{port}/{database}"
    for driver in ["psycopg", "psycopg2"]:
        by_sqlalchemy(f"postgresql+{driver}://{place}")
    by_adbc(f"postgresql://{place}")
    print(f"pandas {pd.__version__}: frames by SQLAlchemy and by ADBC")


main()
