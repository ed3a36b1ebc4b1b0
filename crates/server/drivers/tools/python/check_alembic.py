"""SQLAlchemy with Alembic: revisions made by comparison, forward and back, where nothing is left to
change afterwards, and an ORM over the tables: `check_alembic.py PORT DATABASE`, on an empty database.
"""

import contextlib
import io
import sys
import tempfile
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import alembic
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, joinedload, mapped_column, relationship

ENV = """
from alembic import context
own = context.config.attributes
with own["engine"].connect() as connection:
    context.configure(connection, target_metadata=own["metadata"], compare_type=True,
                      compare_server_default=True, include_schemas=True)
    with context.begin_transaction():
        context.run_migrations()
"""
TEMPLATE = '''"""${message}"""
from alembic import op
import sqlalchemy as sa
from sqlalchemy import Text
from sqlalchemy.dialects import postgresql
${imports if imports else ""}
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
def upgrade():
    ${upgrades if upgrades else "pass"}
def downgrade():
    ${downgrades if downgrades else "pass"}
'''


# As PostgreSQL calls them, so that a revision can drop them.
NAMES = {
    "pk": "%(table_name)s_pkey",
    "fk": "%(table_name)s_%(column_0_name)s_fkey",
    "uq": "%(table_name)s_%(column_0_name)s_key",
}


def first():
    """The tables of the first revision."""
    metadata = sa.MetaData(naming_convention=NAMES)
    sa.Table(
        "author", metadata,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(50), nullable=False),
        sa.Column("mood", sa.Enum("glad", "sad", name="mood")),
    )
    sa.Table(
        "book", metadata,
        sa.Column("id", sa.Integer, sa.Identity(), primary_key=True),
        sa.Column("author_id", sa.ForeignKey("author.id"), nullable=False),
        sa.Column("title", sa.String(80), server_default="untitled"),
        sa.Column("pages", sa.Integer),
    )
    return metadata


class Base(DeclarativeBase):
    metadata = sa.MetaData(naming_convention=NAMES)


class Author(Base):
    __tablename__ = "author"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(sa.String(50), unique=True)
    mood: Mapped[str] = mapped_column(sa.Enum("glad", "sad", name="mood"), nullable=True)
    mail: Mapped[str] = mapped_column(sa.Text, nullable=True, comment="where letters go")
    born: Mapped[datetime] = mapped_column(sa.DateTime(timezone=True), server_default=sa.func.now())
    books: Mapped[list["Book"]] = relationship(back_populates="author", cascade="all, delete-orphan")


class Book(Base):
    __tablename__ = "book"
    id: Mapped[int] = mapped_column(sa.Identity(), primary_key=True)
    author_id: Mapped[int] = mapped_column(sa.ForeignKey("author.id", ondelete="CASCADE"))
    title: Mapped[str] = mapped_column(sa.String(200), server_default="untitled", nullable=True)
    pages: Mapped[int] = mapped_column(sa.BigInteger, nullable=True)
    price: Mapped[Decimal] = mapped_column(sa.Numeric(10, 2), server_default="0")
    twice: Mapped[Decimal] = mapped_column(sa.Numeric(12, 2), sa.Computed("price * 2", persisted=True))
    tags: Mapped[list] = mapped_column(pg.ARRAY(sa.Text), server_default="{}")
    data: Mapped[dict] = mapped_column(pg.JSONB, server_default="{}")
    span: Mapped[timedelta] = mapped_column(sa.Interval, nullable=True)
    number: Mapped[str] = mapped_column(pg.UUID, server_default=sa.text("gen_random_uuid()"))
    author: Mapped[Author] = relationship(back_populates="books")
    __table_args__ = (
        sa.CheckConstraint("pages > 0", name="book_has_pages"),
        sa.UniqueConstraint("author_id", "title", name="book_of_author"),
        sa.Index("book_dear", sa.text("price DESC"), postgresql_where=sa.text("price > 100")),
        sa.Index("book_low_title", sa.func.lower(title.column)),
        sa.Index("book_hash", "title", postgresql_using="hash"),
        sa.Index("book_like", "title", postgresql_ops={"title": "text_pattern_ops"}),
        sa.Index("book_with", "pages", postgresql_include=["price"]),
    )


class Sale(Base):
    __tablename__ = "sale"
    book_id: Mapped[int] = mapped_column(sa.ForeignKey("book.id"), primary_key=True)
    day: Mapped[datetime] = mapped_column(sa.Date, primary_key=True)
    count: Mapped[int] = mapped_column(sa.SmallInteger)


def changes(engine, metadata):
    """Whatever Alembic would still change."""
    with engine.connect() as connection:
        options = {"compare_type": True, "compare_server_default": True}
        return compare_metadata(MigrationContext.configure(connection, opts=options), metadata)


def revisions(engine, folder):
    """Two revisions made by comparison, forward and back, over rows."""
    scripts = Path(folder, "scripts")
    Path(scripts, "versions").mkdir(parents=True)
    Path(scripts, "env.py").write_text(ENV)
    Path(scripts, "script.py.mako").write_text(TEMPLATE)
    config = Config()
    config.set_main_option("script_location", str(scripts))
    config.attributes |= {"engine": engine, "metadata": first()}
    command.revision(config, "first", autogenerate=True)
    command.upgrade(config, "head")
    assert changes(engine, first()) == []
    with engine.begin() as connection:
        connection.execute(sa.text("insert into author (name, mood) values ('Ann', 'glad')"))
        connection.execute(sa.text("insert into book (author_id, pages) values (1, 9)"))
    config.attributes["metadata"] = Base.metadata
    command.revision(config, "second", autogenerate=True)
    text = next(path for path in Path(scripts, "versions").glob("*second.py")).read_text()
    for call in ["create_table('sale'", "'book_has_pages'", "'book_of_author'", "alter_column('book', 'title'"]:
        # Checks of tables that are there are not compared, by Alembic's own account.
        assert (call in text) == (call != "'book_has_pages'"), call
    command.upgrade(config, "head")
    command.check(config)
    with engine.connect() as connection:
        row = connection.execute(sa.text("select title, pages, price, twice, tags from book")).one()
    assert row == ("untitled", 9, Decimal("0.00"), Decimal("0.00"), [])
    command.downgrade(config, "-1")
    assert changes(engine, first()) == []
    command.upgrade(config, "head")
    command.downgrade(config, "base")
    assert sa.inspect(engine).get_table_names() == ["alembic_version"]
    with engine.begin() as connection:
        connection.execute(sa.text("drop type if exists mood"))
        connection.execute(sa.text("drop table alembic_version"))


def inspection(engine):
    """Tables as the inspector tells them."""
    known = sa.inspect(engine)
    assert sorted(known.get_table_names()) == ["author", "book", "sale"]
    columns = {column["name"]: column for column in known.get_columns("book")}
    assert str(columns["price"]["type"]) == "NUMERIC(10, 2)"
    assert columns["twice"]["computed"]["persisted"]
    assert columns["id"]["identity"]["start"] == 1
    assert isinstance(columns["tags"]["type"], pg.ARRAY) and isinstance(columns["data"]["type"], pg.JSONB)
    (key,) = known.get_foreign_keys("book")
    assert (key["referred_table"], key["options"]) == ("author", {"ondelete": "CASCADE"})
    indexes = {index["name"]: index for index in known.get_indexes("book")}
    assert indexes["book_low_title"]["expressions"] == ["lower(title::text)"]
    assert indexes["book_with"]["dialect_options"]["postgresql_include"] == ["price"]
    assert "price > " in indexes["book_dear"]["dialect_options"]["postgresql_where"]
    assert known.get_enums()[0]["labels"] == ["glad", "sad"]
    assert known.get_columns("author")[3]["comment"] == "where letters go"
    reflected = sa.MetaData()
    reflected.reflect(engine)
    assert set(reflected.tables) == {"author", "book", "sale"}


def rows(engine):
    """The ORM: joins, aggregates, windows, upserts, savepoints, and what is refused."""
    with Session(engine) as session:
        authors = [Author(name=f"Author {n}", mood="glad" if n % 2 else "sad") for n in range(10)]
        for n, author in enumerate(authors):
            author.books = [
                Book(title=f"Book {n}.{m}", pages=10 * m + 1, price=Decimal(m * 60), tags=["a", str(m)], data={"n": n, "in": {"m": m}}, span=timedelta(days=m))
                for m in range(4)
            ]
        session.add_all(authors)
        session.commit()
        found = session.scalars(sa.select(Author).options(joinedload(Author.books)).order_by(Author.id)).unique().all()
        assert [len(author.books) for author in found] == [4] * 10
        total = sa.func.sum(Book.price).label("total")
        query = sa.select(Author.name, total, sa.func.count()).join(Book).group_by(Author.name).having(total > 0)
        assert len(session.execute(query.order_by(Author.name)).all()) == 10
        rank = sa.func.row_number().over(partition_by=Book.author_id, order_by=Book.price.desc())
        inner = sa.select(Book.id, rank.label("n")).subquery()
        assert session.scalar(sa.select(sa.func.count()).select_from(inner).where(inner.c.n == 1)) == 10
        assert session.scalar(sa.select(sa.func.count(Book.id)).where(Book.tags.contains(["3"]))) == 10
        deep = Book.data["in"]["m"].as_integer() == 2
        assert session.scalar(sa.select(sa.func.count(Book.id)).where(deep)) == 10
        lateral = sa.select(Book.title).where(Book.author_id == Author.id).order_by(Book.id.desc()).limit(1).lateral()
        last = session.execute(sa.select(Author.name, lateral.c.title).join(lateral, sa.true())).all()
        assert len(last) == 10 and all(title.endswith(".3") for _, title in last)
        chain = sa.select(sa.literal(1).label("n")).cte(recursive=True)
        chain = chain.union_all(sa.select(chain.c.n + 1).where(chain.c.n < 50))
        assert session.scalar(sa.select(sa.func.sum(chain.c.n))) == 1275
        upsert = pg.insert(Author).values(name="Author 1", mood="sad")
        upsert = upsert.on_conflict_do_update(index_elements=["name"], set_={"mood": upsert.excluded.mood})
        assert session.scalar(upsert.returning(Author.mood)) == "sad"
        changed = session.execute(sa.update(Book).where(Book.price > 100).values(price=Book.price + 1))
        assert changed.rowcount == 20
        assert session.scalar(sa.select(Book.twice).where(Book.title == "Book 0.3")) == Decimal("362.00")
        session.commit()
        try:
            with session.begin_nested():
                session.add(Author(name="Author 1"))
                session.flush()
        except IntegrityError as error:
            assert error.orig.diag.constraint_name == "author_name_key", error
        else:
            raise AssertionError("nothing was refused")
        for bad in [Book(author_id=999, title="x"), Book(author_id=1, title="y", pages=0)]:
            try:
                with session.begin_nested():
                    session.add(bad)
                    session.flush()
            except IntegrityError:
                continue
            raise AssertionError("nothing was refused")
        locked = session.scalars(sa.select(Book).where(Book.author_id == 1).with_for_update(skip_locked=True)).all()
        assert len(locked) == 4
        session.delete(session.get(Author, 1))
        session.commit()
        assert session.scalar(sa.select(sa.func.count(Book.id))) == 36
        assert session.get(Author, 2).born < datetime.now(timezone.utc) + timedelta(hours=1)
        streamed = session.scalars(sa.select(Book.id).order_by(Book.id).execution_options(yield_per=7))
        assert len(list(streamed)) == 36


def main():
    port, database = sys.argv[1:3]
    for driver in ["psycopg", "psycopg2"]:
        engine = sa.create_engine(f"postgresql+{driver}://rightlink@127.0.0.1:{port}/{database}")
        said = contextlib.redirect_stdout(io.StringIO())
        with tempfile.TemporaryDirectory() as folder, said:
            revisions(engine, folder)
        Base.metadata.create_all(engine)
        assert changes(engine, Base.metadata) == []
        inspection(engine)
        rows(engine)
        Base.metadata.drop_all(engine)
        assert sa.inspect(engine).get_table_names() == [] and sa.inspect(engine).get_enums() == []
        engine.dispose()
    print(f"SQLAlchemy {sa.__version__}, Alembic {alembic.__version__}: revisions, check, ORM")


main()
