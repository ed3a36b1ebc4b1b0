// TypeORM against a server: `typeorm.js PORT DATABASE`. Migrations make and change tables by hand
// and are undone; entities make tables, a second version of them changes these by `synchronize`,
// after which no query is left over. Then rows are written, joined, locked and taken back. Left out
// are serializable transactions, ranges and GIN indexes.
require("reflect-metadata");
const assert = require("node:assert");
const typeorm = require("typeorm");
const { DataSource, EntitySchema, MigrationExecutor, Table, TableColumn, TableForeignKey } =
  typeorm;
const { TableCheck, TableIndex, TableUnique, View } = typeorm;
const { at, check } = require("./shared");

let db;

// Opens the database with other entities or migrations.
async function open(more) {
  if (db) await db.destroy();
  db = new DataSource({ type: "postgres", host: at.host, port: at.port, username: at.user,
    database: at.database, uuidExtension: "pgcrypto", installExtensions: false, ...more });
  await db.initialize();
}

class Shelves1700000000001 {
  async up(runner) {
    const id = { name: "id", type: "int", isPrimary: true, isGenerated: true,
      generationStrategy: "increment" };
    await runner.createTable(new Table({ name: "halls", columns: [id,
      { name: "name", type: "varchar", length: "40", isUnique: true }] }), true);
    await runner.createTable(new Table({ name: "shelf", columns: [id,
      { name: "place", type: "varchar", length: "10" },
      { name: "hall", type: "int", isNullable: true },
      { name: "kind", type: "enum", enum: ["low", "high"], enumName: "shelf_kind",
        default: "'low'" },
      { name: "notes", type: "text", isArray: true, default: "'{}'" },
      { name: "made", type: "timestamptz", default: "now()", comment: "in the workshop" }] }));
    await runner.query("insert into halls (name) values ('east'), ('west')");
    await runner.query("insert into shelf (place, hall) values ('7', 1), ('12', 2)");
  }

  async down(runner) {
    await runner.dropTable("shelf");
    await runner.dropTable("halls");
  }
}

class Changes1700000000002 {
  async up(runner) {
    await runner.renameTable("shelf", "shelves");
    await runner.renameColumn("shelves", "hall", "hall_id");
    await runner.changeColumn("shelves", "kind", new TableColumn({ name: "kind", type: "enum",
      enum: ["low", "high", "top"], enumName: "shelf_kind", default: "'high'" }));
    await runner.addColumn("shelves", new TableColumn({ name: "width", type: "numeric",
      precision: 6, scale: 2, default: 1.5 }));
    await runner.createForeignKey("shelves", new TableForeignKey({ name: "shelves_hall",
      columnNames: ["hall_id"], referencedTableName: "halls", referencedColumnNames: ["id"],
      onDelete: "CASCADE", deferrable: "INITIALLY DEFERRED" }));
    await runner.createIndex("shelves", new TableIndex({ name: "shelves_place",
      columnNames: ["place", "hall_id"], isUnique: true, where: "width > 1" }));
    await runner.createUniqueConstraint("shelves", new TableUnique({ name: "shelves_spot",
      columnNames: ["place"] }));
    await runner.createCheckConstraint("shelves", new TableCheck({ name: "shelves_wide",
      expression: "width > 0" }));
    await runner.createView(new View({ name: "wide", expression:
      "select place from shelves where width > 1" }));
  }

  async down(runner) {
    await runner.query("drop view wide");
    await runner.dropCheckConstraint("shelves", "shelves_wide");
    await runner.dropUniqueConstraint("shelves", "shelves_spot");
    await runner.dropIndex("shelves", "shelves_place");
    await runner.dropForeignKey("shelves", "shelves_hall");
    await runner.dropColumn("shelves", "width");
    await runner.changeColumn("shelves", "kind", new TableColumn({ name: "kind", type: "enum",
      enum: ["low", "high"], enumName: "shelf_kind", default: "'low'" }));
    await runner.renameColumn("shelves", "hall_id", "hall");
    await runner.renameTable("shelves", "shelf");
  }
}

// Does something with a connection of its own.
async function withRunner(work) {
  const runner = db.createQueryRunner();
  try {
    return await work(runner);
  } finally {
    await runner.release();
  }
}

const table = (name) => withRunner((runner) => runner.getTable(name));
const types = (found) => Object.fromEntries(found.columns.map((column) =>
  [column.name, column.type + (column.isArray ? "[]" : "")]));

async function migrates() {
  await open({ migrations: [Shelves1700000000001, Changes1700000000002] });
  const executor = new MigrationExecutor(db);
  const waiting = await executor.getPendingMigrations();
  assert.deepStrictEqual(waiting.map((step) => step.name),
    ["Shelves1700000000001", "Changes1700000000002"]);
  assert.strictEqual(await db.showMigrations(), true);
  await executor.executeMigration(waiting[0]);
  const shelf = await table("shelf");
  assert.deepStrictEqual(types(shelf), { id: "integer", place: "character varying",
    hall: "integer", kind: "enum", notes: "text[]", made: "timestamp with time zone" });
  const { kind, made, id, place } = Object.fromEntries(shelf.columns.map((one) => [one.name, one]));
  assert.deepStrictEqual([kind.enum, kind.default, kind.enumName],
    [["low", "high"], "'low'", "shelf_kind"]);
  assert.deepStrictEqual([made.default, made.comment], ["now()", "in the workshop"]);
  assert.deepStrictEqual([id.isGenerated, id.generationStrategy, place.length],
    [true, "increment", "10"]);
  await executor.executePendingMigrations();
  assert.deepStrictEqual((await executor.getExecutedMigrations()).map((step) => step.name).sort(),
    ["Changes1700000000002", "Shelves1700000000001"]);
  assert.strictEqual(await db.showMigrations(), false);
}

async function readsTables() {
  const found = await table("shelves");
  const columns = Object.fromEntries(found.columns.map((one) => [one.name, one]));
  const { kind, width } = columns;
  assert.deepStrictEqual([kind.enum, kind.default], [["low", "high", "top"], "'high'"]);
  assert.deepStrictEqual([width.type, width.precision, width.scale, width.default],
    ["numeric", 6, 2, "1.5"]);
  const [key] = found.foreignKeys;
  assert.deepStrictEqual([key.name, key.columnNames, key.referencedTableName,
    key.referencedColumnNames, key.onDelete, key.onUpdate, key.deferrable],
  ["shelves_hall", ["hall_id"], "halls", ["id"], "CASCADE", "NO ACTION", "INITIALLY DEFERRED"]);
  assert.deepStrictEqual(found.indices.map((one) => [one.name, one.columnNames, one.isUnique,
    one.where]), [["shelves_place", ["place", "hall_id"], true, "(width > (1)::numeric)"]]);
  assert.deepStrictEqual(found.uniques.map((one) => [one.name, one.columnNames]),
    [["shelves_spot", ["place"]]]);
  assert.deepStrictEqual(found.checks.map((one) => one.name), ["shelves_wide"]);
  await withRunner(async (runner) => {
    assert.strictEqual(await runner.hasTable("shelf"), false);
    assert.strictEqual(await runner.hasColumn("shelves", "hall_id"), true);
    assert.strictEqual(await runner.getCurrentSchema(), "public");
    assert.strictEqual(await runner.getCurrentDatabase(), at.database);
    assert.strictEqual(await runner.hasSchema("none"), false);
    assert.deepStrictEqual(await runner.query("select * from wide order by 1"),
      [{ place: "12" }, { place: "7" }]);
  });
  const twice = db.query("insert into shelves (place, kind) values ('7', 'top')");
  await assert.rejects(twice, { name: "QueryFailedError", code: "23505" });
}

async function migratesBack() {
  await db.undoLastMigration();
  const shelf = await table("shelf");
  assert.deepStrictEqual(types(shelf), { id: "integer", place: "character varying",
    hall: "integer", kind: "enum", notes: "text[]", made: "timestamp with time zone" });
  assert.deepStrictEqual([shelf.indices, shelf.foreignKeys, shelf.uniques, shelf.checks],
    [[], [], [], []]);
  assert.deepStrictEqual(await db.query("select place, hall, kind from shelf order by id"),
    [{ place: "7", hall: 1, kind: "low" }, { place: "12", hall: 2, kind: "low" }]);
  await db.undoLastMigration();
  assert.strictEqual(await table("halls"), undefined);
  const run = await db.runMigrations({ transaction: "each" });
  assert.strictEqual(run.length, 2);
  await db.undoLastMigration();
  await db.undoLastMigration();
  await withRunner((runner) => runner.dropTable("migrations"));
}

const id = { type: Number, primary: true, generated: true };
const uuid = { type: "uuid", primary: true, generated: "uuid" };
const name = { type: String, length: 80, unique: true };
const books = { type: "one-to-many", target: "book", inverseSide: "author" };
const author = { type: "many-to-one", target: "author", inverseSide: "books", nullable: false,
  onDelete: "CASCADE" };
const first = [
  new EntitySchema({ name: "author", columns: { id, name,
    mood: { type: "enum", enum: ["glad", "sad"], default: "glad" },
    tags: { type: "text", array: true, nullable: true } }, relations: { books } }),
  new EntitySchema({ name: "book", columns: { id: uuid,
    title: { type: String }, price: { type: "int", nullable: true },
    data: { type: "jsonb", nullable: true } }, relations: { author } }),
];

// More columns, indexes, checks and values of an enum, other types, and a table between two others.
const genres = { type: "many-to-many", target: "genre", inverseSide: "books", joinTable: true,
  cascade: true };
const second = [
  new EntitySchema({ name: "author", columns: { id, name,
    mood: { type: "enum", enum: ["calm", "glad", "sad"], default: "sad" },
    tags: { type: "text", array: true, default: [] },
    kinds: { type: "enum", enum: ["prose", "verse"], array: true, nullable: true },
    born: { type: "date", nullable: true },
    home: { type: "simple-json", nullable: true } },
  relations: { books }, indices: [{ name: "author_born", columns: ["born", "name"] }] }),
  new EntitySchema({ name: "book", columns: { id: uuid,
    title: { type: "text", comment: "as on the cover" },
    price: { type: "numeric", precision: 10, scale: 2, default: 1 },
    data: { type: "jsonb", nullable: true, default: { pages: 0 } },
    cover: { type: "bytea", nullable: true, select: false },
    length: { type: "interval", nullable: true },
    made: { type: "timestamptz", createDate: true },
    changed: { type: "timestamptz", updateDate: true, precision: 3 },
    gone: { type: "timestamptz", deleteDate: true },
    version: { type: "int", version: true } },
  relations: { author, genres },
  uniques: [{ name: "book_once", columns: ["author", "title"] }],
  indices: [{ name: "book_dear", columns: ["price"], where: "price > 10" }],
  checks: [{ name: "book_price", expression: "price > 0" }] }),
  new EntitySchema({ name: "genre", columns: { name: { type: String, primary: true } },
    relations: { books: { type: "many-to-many", target: "book", inverseSide: "genres" } } }),
  new EntitySchema({ name: "dear", type: "view", columns: { title: { type: String },
    name: { type: String } }, expression: 'select b.title, a.name from book b ' +
    'join author a on a.id = b."authorId" where b.price > 50' }),
];

// The statements that would bring tables to what the entities say.
const left = async () => (await db.driver.createSchemaBuilder().log()).upQueries
  .map((one) => one.query);

async function synchronizes() {
  await open({ entities: first });
  assert.ok((await left()).length >= 4);
  await db.synchronize();
  assert.deepStrictEqual(await left(), []);
  const ann = await db.getRepository("author").save({ name: "Ann", tags: ["old"] });
  await db.getRepository("book").save({ title: "first", price: 7, author: ann });
  await open({ entities: second });
  const statements = await left();
  assert.ok(statements.some((one) => one.includes("book_once")), statements);
  await db.query("delete from book");
  await db.synchronize();
  assert.deepStrictEqual(await left(), []);
  await db.synchronize();
  assert.deepStrictEqual((await db.getRepository("author").find()).map((one) => [one.id, one.mood,
    one.tags, one.kinds]), [[1, "glad", ["old"], null]]);
  await db.query("delete from author");
}

async function readsEntities() {
  const book = await table("book");
  assert.deepStrictEqual(types(book), { id: "uuid", title: "text", price: "numeric",
    data: "jsonb", cover: "bytea", length: "interval", made: "timestamp with time zone",
    changed: "timestamp with time zone", gone: "timestamp with time zone", version: "integer",
    authorId: "integer" });
  const columns = Object.fromEntries(book.columns.map((one) => [one.name, one]));
  assert.deepStrictEqual([columns.id.generationStrategy, columns.changed.precision,
    columns.title.comment, columns.data.default], ["uuid", 3, "as on the cover",
    "'{\"pages\": 0}'"]);
  assert.deepStrictEqual(book.uniques.map((one) => [one.name, [...one.columnNames].sort()]),
    [["book_once", ["authorId", "title"]]]);
  assert.deepStrictEqual(book.checks.map((one) => [one.name, one.expression]),
    [["book_price", "(price > (0)::numeric)"]]);
  assert.deepStrictEqual(book.indices.map((one) => one.name), ["book_dear"]);
  const [view] = await withRunner((runner) => runner.getViews(["dear"]));
  assert.match(view.expression, /^select b.title, a.name from book b/);
  const between = await table("book_genres_genre");
  assert.deepStrictEqual(between.foreignKeys.map((key) => key.referencedTableName).sort(),
    ["book", "genre"]);
  assert.strictEqual(between.indices.length, 2);
  assert.deepStrictEqual(between.primaryColumns.map((one) => one.name).sort(),
    ["bookId", "genreName"]);
}

const repository = (name) => db.getRepository(name);

async function writesRows() {
  const authors = await repository("author").save([
    { name: "Ann", mood: "calm", tags: ["a", "b c", 'd"e'], kinds: ["verse", "prose"],
      born: "1911-02-03", home: { town: "Ulm" } },
    { name: "Bob", born: "1912-02-03" }, { name: "Cid" },
  ]);
  assert.deepStrictEqual(authors.map((one) => one.mood), ["calm", "sad", "sad"]);
  for (let n = 1; n <= 12; n += 1) {
    const names = n % 2 ? ["crime", "love"] : ["war"];
    const book = await repository("book").save({ title: `t${n}`, price: n + 0.25,
      author: authors[n % 3 ? 0 : 1], genres: names.map((name) => ({ name })),
      data: { n, deep: { odd: n % 2 === 1 } }, cover: Buffer.from([0, n, 255]),
      length: `${n} hours` });
    assert.deepStrictEqual([book.version, book.made instanceof Date], [1, true]);
  }
  const ann = await repository("author").findOneByOrFail({ name: "Ann" });
  assert.deepStrictEqual([ann.tags, ann.kinds, ann.born, ann.home],
    [["a", "b c", 'd"e'], ["verse", "prose"], "1911-02-03", { town: "Ulm" }]);
  const book = await repository("book").findOneBy({ title: "t4" });
  assert.deepStrictEqual([book.price, book.length.hours, book.data.deep, book.cover],
    ["4.25", 4, { odd: false }, undefined]);
  book.price = 6;
  assert.strictEqual((await repository("book").save(book)).version, 2);
  await repository("book").increment({ title: "t4" }, "price", 0.5);
  const [{ price }] = await repository("book").find({ where: { title: "t4" },
    select: { price: true } });
  assert.strictEqual(price, "6.50");
  const update = await db.createQueryBuilder().update("book").set({ price: 99 })
    .where("title in (:...names)", { names: ["t1", "t2"] }).returning(["title", "price"]).execute();
  assert.deepStrictEqual([update.affected, update.raw.map((row) => row.price)],
    [2, ["99.00", "99.00"]]);
}

async function reads() {
  const { ILike, ArrayContains, Between, In, MoreThan, Not, Raw } = typeorm;
  const found = await repository("author").find({ relations: { books: { genres: true } },
    where: { books: { price: MoreThan(11) } },
    order: { name: "ASC", books: { title: "DESC", genres: { name: "ASC" } } } });
  assert.deepStrictEqual(found.map((one) => [one.name, one.books.map((book) =>
    [book.title, ...book.genres.map((genre) => genre.name)])]), [
    ["Ann", [["t2", "war"], ["t11", "crime", "love"], ["t1", "crime", "love"]]],
    ["Bob", [["t12", "war"]]],
  ]);
  const apart = await repository("author").find({ relations: { books: true },
    relationLoadStrategy: "query", order: { id: "ASC" } });
  assert.deepStrictEqual(apart.map((one) => one.books.length), [8, 4, 0]);
  const sums = await repository("book").createQueryBuilder("b").innerJoin("b.author", "a")
    .select("a.name", "name").addSelect("count(*)", "n").addSelect("sum(b.price)", "sum")
    .groupBy("a.name").having("count(*) > :n", { n: 1 }).orderBy("a.name").getRawMany();
  assert.deepStrictEqual(sums, [{ name: "Ann", n: "8", sum: "246.75" },
    { name: "Bob", n: "4", sum: "31.00" }]);
  const titles = async (where) => (await repository("book").find({ where, order: { made: "ASC" } }))
    .map((book) => book.title);
  assert.deepStrictEqual(await titles({ title: ILike("T1%"), price: Between(10, 12) }),
    ["t10", "t11"]);
  assert.deepStrictEqual(await titles({ title: Not(In(["t1", "t2"])), author: { name: "Bob" } }),
    ["t3", "t6", "t9", "t12"]);
  assert.deepStrictEqual(await titles({ data: Raw((name) => `${name} @> :part`,
    { part: { n: 7, deep: { odd: true } } }) }), ["t7"]);
  const tagged = await repository("author").find({ where: { tags: ArrayContains(["b c"]) } });
  assert.deepStrictEqual(tagged.map((one) => one.name), ["Ann"]);
  const lonely = await repository("author").createQueryBuilder("a")
    .where((q) => `not exists ${q.subQuery().select("1").from("book", "b")
      .where('b."authorId" = a.id').getQuery()}`).getMany();
  assert.deepStrictEqual(lonely.map((one) => one.name), ["Cid"]);
  assert.deepStrictEqual([await repository("book").sum("price", {}),
    await repository("book").maximum("price", { author: { name: "Bob" } }),
    await repository("book").exists({ where: { title: "t7" } })], [277.75, 12.25, true]);
  assert.deepStrictEqual((await repository("dear").find({ order: { title: "ASC" } }))
    .map((row) => [row.title, row.name]), [["t1", "Ann"], ["t2", "Ann"]]);
  const cte = await db.createQueryBuilder().addCommonTableExpression(
    'select "authorId", count(*)::int as n from book group by 1', "counted")
    .select("n").from("counted", "c").orderBy("n").getRawMany();
  assert.deepStrictEqual(cte, [{ n: 4 }, { n: 8 }]);
}

async function pages() {
  const [page, count] = await repository("book").findAndCount({ where: { author: { name: "Ann" } },
    relations: { genres: true }, order: { made: "ASC" }, skip: 6, take: 3 });
  assert.deepStrictEqual([count, page.map((book) => [book.title, book.genres.length])],
    [8, [["t10", 1], ["t11", 2]]]);
  const [some, all] = await repository("author").createQueryBuilder("a")
    .leftJoinAndSelect("a.books", "b").orderBy("a.name", "DESC").addOrderBy("b.title", "ASC")
    .skip(1).take(1).getManyAndCount();
  assert.deepStrictEqual([all, some[0].name, some[0].books.map((book) => book.title)],
    [3, "Bob", ["t12", "t3", "t6", "t9"]]);
}

async function inserts() {
  const authors = repository("author");
  await authors.upsert([{ name: "Dan", mood: "sad" }, { name: "Eve" }], ["name"]);
  const again = await authors.upsert({ name: "Dan", mood: "glad" },
    { conflictPaths: ["name"], skipUpdateIfNoValuesChanged: true });
  const dan = await authors.findOneBy({ name: "Dan" });
  assert.deepStrictEqual([dan.mood, again.identifiers[0].id], ["glad", dan.id]);
  const ignored = await authors.createQueryBuilder().insert()
    .values({ name: "Dan", mood: "calm" }).orIgnore().execute();
  assert.deepStrictEqual(ignored.raw, []);
  assert.strictEqual((await authors.delete({ name: typeorm.In(["Dan", "Eve"]) })).affected, 2);
}

async function refuses() {
  const kind = (code, constraint) => (error) => {
    assert.ok(error instanceof typeorm.QueryFailedError, error);
    assert.deepStrictEqual([error.driverError.code, error.driverError.constraint],
      [code, constraint]);
    return true;
  };
  const names = (await table("author")).uniques.map((one) => one.name);
  assert.strictEqual(names.length, 1);
  await assert.rejects(repository("author").insert({ name: "Ann" }), kind("23505", names[0]));
  const [key] = (await table("book")).foreignKeys;
  await assert.rejects(repository("book").insert({ title: "x", author: { id: 999 } }),
    kind("23503", key.name));
  const ann = await repository("author").findOneBy({ name: "Ann" });
  await assert.rejects(repository("book").insert({ title: "x", price: -1, author: ann }),
    kind("23514", "book_price"));
  await assert.rejects(repository("book").insert({ author: ann }), kind("23502", undefined));
  await assert.rejects(repository("author").findOneByOrFail({ name: "Zoe" }),
    typeorm.EntityNotFoundError);
}

async function restores() {
  const books = repository("book");
  const book = await books.findOneBy({ title: "t9" });
  await books.softRemove(book);
  assert.deepStrictEqual([await books.count(), await books.count({ withDeleted: true })], [11, 12]);
  await books.restore({ id: book.id });
  assert.strictEqual(await books.count(), 12);
  await books.remove(await books.findOneBy({ title: "t9" }));
  assert.strictEqual(await books.count({ withDeleted: true }), 11);
  const [{ count }] = await db.query("select count(*) from book_genres_genre");
  assert.strictEqual(count, "16");
}

async function takesBack() {
  await assert.rejects(db.transaction(async (manager) => {
    await manager.getRepository("author").insert({ name: "gone" });
    throw new Error("back");
  }), /back/);
  await db.transaction(async (outer) => {
    await outer.getRepository("author").insert({ name: "outer" });
    await assert.rejects(outer.transaction(async (inner) => {
      await inner.getRepository("author").insert({ name: "inner" });
      await inner.getRepository("author").insert({ name: "outer" });
    }), typeorm.QueryFailedError);
    await outer.transaction((inner) => inner.getRepository("author").insert({ name: "second" }));
  });
  const names = ["outer", "second", "inner", "gone"].map((name) => ({ name }));
  const found = await repository("author").find({ where: names, order: { name: "ASC" } });
  assert.deepStrictEqual(found.map((one) => one.name), ["outer", "second"]);
  await db.transaction("REPEATABLE READ", async (manager) => {
    assert.strictEqual(await manager.count("author"), 5);
    await repository("author").insert({ name: "later" });
    assert.strictEqual(await manager.count("author"), 5);
  });
  assert.strictEqual(await repository("author").count(), 6);
  await repository("author").delete({ name: typeorm.In(["outer", "second", "later"]) });
}

async function locks() {
  const query = (manager) => manager.getRepository("author").createQueryBuilder("a")
    .orderBy("a.id");
  await db.transaction(async (one) => {
    const ann = await query(one).setLock("pessimistic_write").where("a.name = 'Ann'").getOne();
    assert.strictEqual(ann.name, "Ann");
    await db.transaction(async (two) => {
      const free = await query(two).setLock("for_no_key_update").setOnLocked("skip_locked")
        .getMany();
      assert.deepStrictEqual(free.map((row) => row.name), ["Bob", "Cid"]);
    });
    await assert.rejects(db.transaction((two) => query(two).setLock("pessimistic_read")
      .setOnLocked("nowait").getMany()), (error) => error.driverError.code === "55P03");
  });
  const lock = { mode: "optimistic", version: 9 };
  await assert.rejects(repository("book").findOne({ where: { title: "t4" }, lock }),
    typeorm.OptimisticLockVersionMismatchError);
}

async function ends() {
  const rows = await repository("author").createQueryBuilder("a").select("a.name").orderBy("a.id")
    .getMany();
  assert.deepStrictEqual(rows.map((row) => row.name), ["Ann", "Bob", "Cid"]);
  await repository("author").delete({ name: "Ann" });
  assert.strictEqual(await repository("book").count(), 3);
  await db.dropDatabase();
  assert.strictEqual(await table("book"), undefined);
  assert.deepStrictEqual(await db.query("select typname from pg_type where typtype = 'e'"), []);
  await db.destroy();
}

check("typeorm", [migrates, readsTables, migratesBack, synchronizes, readsEntities, writesRows,
  reads, pages, inserts, refuses, restores, takesBack, locks, ends]);
