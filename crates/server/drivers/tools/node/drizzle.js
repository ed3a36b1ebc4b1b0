// Drizzle against a server: `drizzle.js PORT DATABASE`. drizzle-kit writes migrations for two
// versions of tables (drizzle.first.js, drizzle.second.js) and Drizzle's migrator runs them; then
// drizzle-kit finds nothing left to push, and reads back what it has written. Rows are written,
// joined, locked and taken back. Left out are renamed columns, for which drizzle-kit asks at a
// terminal, serializable transactions, ranges and GIN indexes.
const assert = require("node:assert");
const { execFileSync } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { DrizzleQueryError, TransactionRollbackError, and, arrayContains, asc, avg, count, desc, eq,
  exists, gt, ilike, inArray, lt, not, sql, sum } = require("drizzle-orm");
const { alias, unionAll } = require("drizzle-orm/pg-core");
const { drizzle } = require("drizzle-orm/node-postgres");
const { migrate } = require("drizzle-orm/node-postgres/migrator");
const { Pool } = require("pg");
const schema = require("./drizzle.second");
const { at, check, url } = require("./shared");

const { authors, bookGenres, books, dear, genres } = schema;
const pool = new Pool({ ...at, max: 4 });
const db = drizzle(pool, { schema });
// drizzle-kit writes below the directory that it runs in.
const place = fs.mkdtempSync(path.join(os.tmpdir(), "drizzle-"));
process.on("exit", () => fs.rmSync(place, { recursive: true }));

// Runs a command of drizzle-kit, and gives what it says.
function kit(...words) {
  const program = path.join(path.dirname(require.resolve("drizzle-kit")), "bin.cjs");
  try {
    return execFileSync(process.execPath, [program, ...words], { cwd: place, encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"], timeout: 60_000 });
  } catch (error) {
    throw new Error(`drizzle-kit ${words}: ${error.stdout} ${error.stderr}`);
  }
}

// A configuration for a version of the tables that has its files in a folder.
function configured(version, out) {
  const schema = path.join(__dirname, `drizzle.${version}.js`);
  const config = { dialect: "postgresql", out, schema,
    dbCredentials: { url }, schemaFilter: ["public", "store"], verbose: true };
  const name = `${version}-${path.basename(out)}.json`;
  fs.writeFileSync(path.join(place, name), JSON.stringify(config));
  return ["--config", name];
}

const steps = (version) => configured(version, "./steps");
const rows = async (query) => (await db.execute(query)).rows;

const columnsOf = (table) => rows(sql`select column_name as name, data_type as type
  from information_schema.columns where table_name = ${table} order by ordinal_position`);
const types = async (table) => Object.fromEntries((await columnsOf(table))
  .map((row) => [row.name, row.type]));

async function migratesOnce() {
  kit("generate", ...steps("first"), "--name", "first");
  await migrate(db, { migrationsFolder: path.join(place, "steps") });
  assert.deepStrictEqual(await types("books"), { id: "bigint", author_id: "integer",
    title: "character varying", price: "integer", data: "jsonb" });
  await db.execute(sql`insert into authors (name, tags) values ('old', '{a}')`);
  await db.execute(sql`insert into books (author_id, title, price) values (1, 'first', 7)`);
}

async function migratesTwice() {
  kit("generate", ...steps("second"), "--name", "second");
  const migrationsFolder = path.join(place, "steps");
  await migrate(db, { migrationsFolder });
  await migrate(db, { migrationsFolder });
  const done = await rows(sql`select count(*)::int as n from drizzle.__drizzle_migrations`);
  assert.deepStrictEqual(done, [{ n: 2 }]);
  assert.match(kit("check", ...steps("second")), /fine/);
  const again = kit("generate", ...steps("second"));
  assert.match(again, /No schema changes, nothing to migrate/);
  assert.deepStrictEqual(await types("books"), { id: "bigint", author_id: "integer", title: "text",
    price: "numeric", data: "jsonb", printed: "boolean", made: "timestamp with time zone",
    length: "interval", code: "uuid", double: "numeric" });
  const [old] = await db.select().from(books);
  assert.deepStrictEqual([old.title, old.price, old.double, old.printed],
    ["first", "7.00", "14.00", false]);
  await db.delete(books);
  await db.delete(authors);
}

// drizzle-kit finds in the catalogs what it has written there.
async function pushesNothing() {
  assert.match(kit("push", ...steps("second")), /No changes detected/);
}

function snapshot(folder, name) {
  const text = fs.readFileSync(path.join(place, folder, "meta", name), "utf8");
  // These are written in another way than they are read back.
  const left = ["typeSchema", "schemaTo"];
  return JSON.parse(text, (key, value) => {
    if (left.includes(key)) return undefined;
    if (typeof value !== "string") return value;
    return value.replace(/^(\w+) \(/, "$1(").replace(/^store\./, "");
  });
}

async function readsBack() {
  kit("introspect", ...configured("second", "./seen"));
  const said = snapshot("steps", "0001_snapshot.json");
  const seen = snapshot("seen", "0000_snapshot.json");
  said.tables["public.books"].columns.double.generated.as = "(price * (2)::numeric)";
  assert.deepStrictEqual(Object.keys(seen.tables).sort(), Object.keys(said.tables).sort());
  for (const [name, table] of Object.entries(said.tables)) {
    const found = seen.tables[name];
    for (const part of ["columns", "foreignKeys", "uniqueConstraints", "compositePrimaryKeys"]) {
      assert.deepStrictEqual(found[part], table[part], `${part} of ${name}`);
    }
    assert.deepStrictEqual(Object.keys(found.indexes).sort(), Object.keys(table.indexes).sort());
  }
  assert.deepStrictEqual(seen.enums, said.enums);
}

const nth = (n) => new Date(Date.UTC(2024, 0, n, 12, 30, 15, 250));

async function writesRows() {
  const made = await db.insert(authors).values([
    { name: "Ann", mood: "calm", tags: ["a", "b c", 'd"e'], moods: ["sad", "glad"],
      born: "1911-02-03" },
    { name: "Bob", tags: [], born: "1912-02-03" }, { name: "Cid", mood: null, tags: [] },
  ]).returning();
  assert.deepStrictEqual(made.map((row) => [row.name, row.mood, row.tags, row.moods, row.born]), [
    ["Ann", "calm", ["a", "b c", 'd"e'], ["sad", "glad"], "1911-02-03"],
    ["Bob", "glad", [], null, "1912-02-03"], ["Cid", null, [], null, null],
  ]);
  const kinds = await db.insert(genres).values(["crime", "love", "war"].map((name) => ({ name })))
    .returning();
  assert.deepStrictEqual(kinds.map((row) => row.id), [10, 11, 12]);
  for (let n = 1; n <= 12; n += 1) {
    const [book] = await db.insert(books).values({ authorId: made[n % 3 ? 0 : 1].id, title: `t${n}`,
      price: `${n}.25`, data: { n, deep: { odd: n % 2 === 1 } }, made: nth(n),
      length: `${n} hours` }).returning();
    assert.deepStrictEqual([book.double, book.made, book.length],
      [`${n * 2}.50`, nth(n), `${String(n).padStart(2, "0")}:00:00`]);
    const ids = n % 2 ? [10, 11] : [12];
    await db.insert(bookGenres).values(ids.map((genreId) => ({ bookId: book.id, genreId })));
  }
  const changed = await db.update(books).set({ price: "99", printed: sql`not ${books.printed}` })
    .where(inArray(books.title, ["t1", "t2"])).returning({ title: books.title, price: books.price,
      printed: books.printed });
  assert.deepStrictEqual(changed, [{ title: "t1", price: "99.00", printed: true },
    { title: "t2", price: "99.00", printed: true }]);
}

async function reads() {
  const other = alias(books, "other");
  const joined = await db.select({ name: authors.name, title: books.title, other: other.title })
    .from(books).innerJoin(authors, eq(authors.id, books.authorId))
    .leftJoin(other, and(eq(other.authorId, authors.id), eq(other.title, "t3")))
    .where(gt(books.price, "11")).orderBy(asc(books.id));
  assert.deepStrictEqual(joined, [{ name: "Ann", title: "t1", other: null },
    { name: "Ann", title: "t2", other: null }, { name: "Ann", title: "t11", other: null },
    { name: "Bob", title: "t12", other: "t3" }]);
  const sums = await db.select({ name: authors.name, n: count(), sum: sum(books.price),
    mean: sql`round(${avg(books.price)}, 3)`.mapWith(Number) }).from(authors)
    .leftJoin(books, eq(books.authorId, authors.id)).groupBy(authors.id)
    .having(gt(count(books.id), 1)).orderBy(authors.name);
  assert.deepStrictEqual(sums, [{ name: "Ann", n: 8, sum: "244.50", mean: 30.563 },
    { name: "Bob", n: 4, sum: "31.00", mean: 7.75 }]);
  const lonely = await db.select({ name: authors.name }).from(authors).where(not(exists(
    db.select({ one: sql`1` }).from(books).where(eq(books.authorId, authors.id)))));
  assert.deepStrictEqual(lonely, [{ name: "Cid" }]);
  const best = db.$with("best").as(db.select({ id: books.authorId,
    top: sql`max(${books.price})`.as("top") }).from(books).groupBy(books.authorId));
  const tops = await db.with(best).select({ name: authors.name, top: best.top }).from(best)
    .innerJoin(authors, eq(authors.id, best.id)).orderBy(desc(best.top));
  assert.deepStrictEqual(tops, [{ name: "Ann", top: "99.00" }, { name: "Bob", top: "12.25" }]);
  assert.deepStrictEqual(await db.select().from(dear).orderBy(dear.title),
    [{ title: "t1", price: "99.00" }, { title: "t2", price: "99.00" }]);
  const one = db.select({ title: books.title }).from(books).where(lt(books.price, "4"));
  const two = db.select({ title: genres.name }).from(genres).where(ilike(genres.name, "W%"));
  assert.deepStrictEqual(await unionAll(one, two).orderBy(sql`title`),
    [{ title: "t3" }, { title: "war" }]);
}

// Queries of relations become one statement of lateral joins and JSON.
async function readsRelations() {
  const found = await db.query.authors.findMany({ orderBy: asc(authors.name),
    columns: { name: true, moods: true },
    extras: { loud: sql`upper(${authors.name})`.as("loud") },
    with: { books: { where: gt(books.price, "10"), orderBy: desc(books.title), limit: 2,
      columns: { title: true, made: true, data: true },
      with: { genres: { with: { genre: { columns: { name: true } } } } } } } });
  assert.deepStrictEqual(found.map((row) => [row.loud, row.moods, row.books.map((book) =>
    [book.title, book.made, ...book.genres.map((link) => link.genre.name).sort()])]), [
    ["ANN", ["sad", "glad"], [["t2", nth(2), "war"], ["t11", nth(11), "crime", "love"]]],
    ["BOB", null, [["t12", nth(12), "war"]]], ["CID", null, []],
  ]);
  assert.deepStrictEqual(found[0].books[0].data, { n: 2, deep: { odd: false } });
  const book = await db.query.books.findFirst({ where: eq(books.title, "t6"),
    with: { author: true } });
  assert.deepStrictEqual([book.author.name, book.price], ["Bob", "6.25"]);
}

async function asksOfTypes() {
  const titles = async (where) => (await db.select().from(books).where(where).orderBy(books.made))
    .map((book) => book.title);
  assert.deepStrictEqual(await titles(sql`${books.data} @> ${{ deep: { odd: true } }}::jsonb and
    (${books.data}->>'n')::int < 6`), ["t1", "t3", "t5"]);
  assert.deepStrictEqual(await titles(gt(books.made, nth(10))), ["t11", "t12"]);
  assert.deepStrictEqual(await titles(gt(books.length, "10:30:00")), ["t11", "t12"]);
  const tagged = await db.select().from(authors).where(arrayContains(authors.tags, ["b c"]));
  assert.deepStrictEqual(tagged.map((row) => row.name), ["Ann"]);
  const sad = await db.select().from(authors).where(sql`'sad' = any(${authors.moods})`);
  assert.deepStrictEqual(sad.map((row) => row.name), ["Ann"]);
}

async function pages() {
  const dearer = gt(books.price, "5");
  assert.strictEqual(await db.$count(books, dearer), 10);
  const page = db.select({ title: books.title, all: sql`count(*) over ()`.mapWith(Number) })
    .from(books).where(dearer).orderBy(books.made).limit(sql.placeholder("n"))
    .offset(sql.placeholder("after")).prepare("page");
  assert.deepStrictEqual(await page.execute({ n: 2, after: 7 }),
    [{ title: "t10", all: 10 }, { title: "t11", all: 10 }]);
  assert.deepStrictEqual(await page.execute({ n: 5, after: 9 }), [{ title: "t12", all: 10 }]);
}

async function inserts() {
  const insert = (row) => db.insert(authors).values({ name: "Dan", tags: [], ...row });
  const target = { target: authors.name, set: { mood: sql`excluded.mood` },
    setWhere: sql`authors.mood <> 'sad'` };
  const upsert = (mood) => insert({ mood }).onConflictDoUpdate(target)
    .returning({ mood: authors.mood });
  assert.deepStrictEqual([await upsert("glad"), await upsert("sad"), await upsert("calm")],
    [[{ mood: "glad" }], [{ mood: "sad" }], []]);
  const ignored = await insert().onConflictDoNothing().returning();
  assert.deepStrictEqual(ignored, []);
  const loved = db.select({ bookId: books.id, genreId: sql`${genres.id}`.as("genre_id") })
    .from(books).innerJoin(authors, eq(authors.id, books.authorId))
    .innerJoin(genres, eq(genres.name, "love")).where(eq(authors.name, "Bob"));
  const added = await db.insert(bookGenres).select(loved).onConflictDoNothing().returning();
  assert.strictEqual(added.length, 2);
  const [gone] = await db.delete(authors).where(eq(authors.name, "Dan")).returning();
  assert.strictEqual(gone.mood, "sad");
}

// Errors are Drizzle's own, with node-postgres' as their cause.
async function refuses() {
  const kind = (code, constraint) => (error) => {
    assert.ok(error instanceof DrizzleQueryError, error);
    assert.deepStrictEqual([error.cause.code, error.cause.constraint], [code, constraint]);
    return true;
  };
  const [{ id }] = await db.select().from(authors).where(eq(authors.name, "Ann"));
  for (const name of ["Ann", "ANN"]) {
    await assert.rejects(db.insert(authors).values({ tags: [], name }),
      kind("23505", "authors_name"));
  }
  await assert.rejects(db.insert(books).values({ title: "x", authorId: 999 }),
    kind("23503", "books_author"));
  await assert.rejects(db.insert(books).values({ title: "x", authorId: id, price: "-1" }),
    kind("23514", "books_price"));
  await assert.rejects(db.insert(books).values({ title: null, authorId: id }),
    kind("23502", undefined));
  await assert.rejects(db.delete(genres), kind("23503", "book_genres_genre_id_genres_id_fk"));
  await assert.rejects(db.update(authors).set({ id: 77 }).where(eq(authors.id, id)),
    kind("23503", "books_author"));
}

async function takesBack() {
  await assert.rejects(db.transaction(async (t) => {
    await t.insert(authors).values({ tags: [], name: "gone" });
    t.rollback();
  }), TransactionRollbackError);
  await db.transaction(async (outer) => {
    await outer.insert(authors).values({ tags: [], name: "outer" });
    await assert.rejects(outer.transaction(async (inner) => {
      await inner.insert(authors).values({ tags: [], name: "inner" });
      await inner.insert(authors).values({ tags: [], name: "outer" });
    }), DrizzleQueryError);
    await outer.transaction((inner) => inner.insert(authors).values({ tags: [], name: "second" }));
  });
  const names = (await db.select().from(authors).orderBy(authors.name)).map((row) => row.name);
  assert.deepStrictEqual(names, ["Ann", "Bob", "Cid", "outer", "second"]);
  await db.transaction(async (t) => {
    assert.strictEqual(await t.$count(authors), 5);
    await db.insert(authors).values({ tags: [], name: "later" });
    assert.strictEqual(await t.$count(authors), 5);
    await assert.rejects(t.transaction((inner) => inner.delete(authors)),
      (error) => error.cause.code === "25006");
  }, { isolationLevel: "repeatable read", accessMode: "read only", deferrable: true });
  await db.delete(authors).where(inArray(authors.name, ["outer", "second", "later"]));
  assert.strictEqual(await db.$count(authors), 3);
}

async function locks() {
  const names = (t) => t.select({ name: authors.name }).from(authors).orderBy(authors.id);
  await db.transaction(async (one) => {
    assert.deepStrictEqual(await names(one).limit(1).for("update"), [{ name: "Ann" }]);
    await db.transaction(async (two) => {
      const free = await names(two).for("no key update", { skipLocked: true, of: authors });
      assert.deepStrictEqual(free, [{ name: "Bob" }, { name: "Cid" }]);
    });
    await assert.rejects(db.transaction((two) => names(two).for("share", { noWait: true })),
      (error) => error.cause.code === "55P03");
  });
}

async function ends() {
  await db.delete(authors).where(eq(authors.name, "Ann"));
  assert.deepStrictEqual([await db.$count(books), await db.$count(bookGenres)], [4, 8]);
  await db.execute(sql`drop view dear`);
  await db.execute(sql`drop schema store cascade`);
  await db.execute(sql`drop table books, authors`);
  await db.execute(sql`drop type mood`);
  // A push makes all of it anew.
  assert.match(kit("push", ...steps("second"), "--force"), /Changes applied/);
  assert.match(kit("push", ...steps("second")), /No changes detected/);
  await pool.end();
}

check("drizzle-orm", [migratesOnce, migratesTwice, pushesNothing, readsBack, writesRows, reads,
  readsRelations, asksOfTypes, pages, inserts, refuses, takesBack, locks, ends]);
