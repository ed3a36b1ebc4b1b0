#!/usr/bin/env python3
"""PySpark over `rightlink serve`: reads a table by partitions, joins, aggregates, and writes back.

    pip install 'pyspark==3.5.*' 'psycopg[binary]'          # and Java 17
    cargo build --release -p rightlink-cli
    examples/spark/shop.py [--jar postgresql-42.7.7.jar] [--binary FILE] [--dir /tmp]

Starts a server with two tables, runs Spark in this process, and compares what Spark found and
wrote with what SQL says. The first difference ends the program. Without `--jar`, Spark fetches
PostgreSQL's JDBC driver from Maven.

Does not do: a cluster of Spark; one snapshot for all partitions, each of which is a transaction.
"""

import argparse
import pathlib
import signal
import sys

import psycopg
from pyspark.sql import SparkSession, functions

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench/postgres"))
import peer  # noqa: E402

DRIVER = "org.postgresql:postgresql:42.7.7"
CUSTOMERS, ORDERS, PARTITIONS = 1_000, 20_000, 4
TABLES = (
    "create table customer (id int primary key, name varchar(40) not null, city text not null, "
    "since date not null)",
    "create table orders (id bigint primary key, customer int not null, at timestamptz not null, "
    "total numeric(12, 2) not null, note varchar(20), weight float8, paid boolean, photo bytea)",
    "insert into customer select g, 'name ' || g, (array['Rome', 'Oslo', 'Bern', 'Lima'])[1 + g % 4], "
    f"date '2020-01-01' + g from generate_series(1, {CUSTOMERS}) g",
    f"insert into orders select g, 1 + g % {CUSTOMERS}, timestamptz '2026-01-01 00:00+00' + "
    "g * interval '1 minute', g * 37 % 10000 / 100.0, case when g % 2 = 0 then 'note ' || g % 10 end, "
    f"g / 3.0, g % 3 = 0, decode(md5(g::text), 'hex') from generate_series(1, {ORDERS}) g",
)
BY_CITY = ("select city, count(*), sum(total) from orders join customer c on c.id = customer "
           "group by city order by city")


def expect(what, found, wanted):
    if found != wanted:
        raise SystemExit(f"{what}: {found!r} instead of {wanted!r}")
    print(f"{what}: as SQL says")


def start_spark(jar):
    builder = SparkSession.builder.master("local[2]").appName("shop")
    builder = builder.config("spark.jars", jar) if jar else builder.config(
        "spark.jars.packages", DRIVER)
    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false",
                "spark.sql.session.timeZone": "UTC",
                "spark.driver.memory": "1g", "spark.driver.bindAddress": "127.0.0.1",
                "spark.driver.host": "127.0.0.1", "spark.sql.shuffle.partitions": PARTITIONS}
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


class Store:
    """The server as Spark reaches it by JDBC."""

    def __init__(self, spark, server):
        self.spark = spark
        self.options = {"url": f"jdbc:postgresql://127.0.0.1:{server.port}/postgres",
                        "user": "postgres", "driver": "org.postgresql.Driver"}

    def read(self, table, **options):
        reader = self.spark.read.format("jdbc").options(**self.options, **options)
        return reader.option("dbtable", table).option("fetchsize", 1000).load()

    def write(self, frame, table, mode, **options):
        writer = frame.write.format("jdbc").options(**self.options, **options).mode(mode)
        writer.option("dbtable", table).option("batchsize", 1000).save()


def work(store, connection):
    def rows(query):
        return connection.execute(query).fetchall()

    by_id = store.read("orders", partitionColumn="id", lowerBound="1", upperBound=str(ORDERS + 1),
                       numPartitions=str(PARTITIONS))
    sizes = by_id.rdd.glom().map(len).collect()
    expect("rows of each partition", sizes, [ORDERS // PARTITIONS] * PARTITIONS)
    by_time = store.read("orders", partitionColumn="at", lowerBound="2026-01-01 00:00:00",
                         upperBound="2026-01-15 00:00:00", numPartitions="3")
    expect("rows by partitions of time", by_time.count(), ORDERS)

    customers = store.read("customer")
    by_city = by_id.join(customers, by_id.customer == customers.id).groupBy("city").agg(
        functions.count("*").alias("orders"), functions.sum("total").alias("total"))
    found = [tuple(row) for row in by_city.orderBy("city").collect()]
    expect("a join and its groups", found, rows(BY_CITY))
    some = by_id.filter("total > 90 and note is not null and at >= '2026-01-05'")
    expect("a filter that the server applies",
           tuple(some.agg(functions.count("*"), functions.sum("total")).first()),
           rows("select count(*), sum(total) from orders where total > 90 and note is not null "
                "and at >= '2026-01-05 00:00+00'")[0])

    for mode, times in (("overwrite", 1), ("append", 2), ("overwrite", 1)):
        store.write(by_city, "by_city", mode)
        expect(f"groups written by {mode}", rows("select * from by_city order by city"),
               [row for row in rows(BY_CITY) for _ in range(times)])
    store.write(by_id, "copied", "overwrite", createTableColumnTypes="note varchar(20)")
    store.write(by_id.filter("id <= 100"), "copied", "overwrite", truncate="true")
    expect("rows after TRUNCATE", rows("select count(*) from copied"), [(100,)])
    store.write(by_id.filter("id > 100"), "copied", "append")
    expect("rows that differ in the copy", rows(
        "select count(*) from copied c full join orders o using (id) "
        "where row(c.customer, c.at, c.total, c.note, c.weight, c.paid, c.photo) "
        "is distinct from row(o.customer, o.at, o.total, o.note, o.weight, o.paid, o.photo)"),
        [(0,)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jar", help="PostgreSQL's JDBC driver")
    parser.add_argument("--binary", default=ROOT / "target/release/rightlink")
    parser.add_argument("--dir", default="/tmp", help="where the server keeps its files")
    args = parser.parse_args()
    # What is started is stopped at SIGTERM too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    server = peer.Rightlink(args.binary, args.dir)
    try:
        with psycopg.connect(**server.connection, autocommit=True) as connection:
            for statement in TABLES:
                connection.execute(statement)
            spark = start_spark(args.jar)
            try:
                work(Store(spark, server), connection)
            finally:
                spark.stop()
        server.verify()
        print("verify finds nothing")
    finally:
        server.close()


if __name__ == "__main__":
    main()
