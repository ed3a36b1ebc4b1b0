// Knex against a server: `knex.js PORT DATABASE`. Two migrations make tables of authors and books
// and change them; they go up, down and up again, and after each step the catalogs are asked if
// they did. Then rows are written, joined, counted, locked and taken back.
const assert = require("node:assert");
const knex = require("knex");
const { at, check } = require("./shared");

const warned = [];
const log = { warn: (text) => warned.push(text) };
const db = knex({ client: "pg", connection: at, pool: { min: 0, max: 4 }, log });

const tables = {
  async up(k) {
    await k.schema.createTable("authors", (t) => {
      t.increments("id");
      t.string("name", 80).notNullable();
      t.enu("mood", ["glad", "sad"], { useNative: true, enumName: "mood" }).defaultTo("glad");
      t.specificType("tags", "text[]");
      t.timestamps(true, true);
    });
    await k.schema.createTable("books", (t) => {
      t.bigIncrements("id");
      t.integer("writer").notNullable();
      t.string("title").notNullable().comment("as on the cover");
      t.integer("price").notNullable();
      t.jsonb("data");
      t.check("?? > 0", ["price"], "price_is_positive");
    });
  },
  async down(k) {
    await k.schema.dropTable("books");
    await k.schema.dropTable("authors");
    await k.raw("drop type mood");
  },
};

const changes = {
  async up(k) {
    await k.schema.alterTable("authors", (t) => {
      t.unique(["name"], { indexName: "authors_by_name" });
      t.text("mail");
    });
    await k.schema.alterTable("books", (t) => t.renameColumn("writer", "author_id"));
    await k.schema.alterTable("books", (t) => {
      t.decimal("price", 10, 2).notNullable().alter();
      t.text("title").notNullable().defaultTo("untitled").alter();
      t.foreign("author_id").references("authors.id").onDelete("cascade");
      t.index(["author_id", "title"], "books_by_author");
      t.boolean("printed").notNullable().defaultTo(false);
    });
    await k.schema.renameTable("books", "volumes");
  },
  async down(k) {
    await k.schema.renameTable("volumes", "books");
    await k.schema.alterTable("books", (t) => {
      t.dropColumn("printed");
      t.dropIndex([], "books_by_author");
      t.dropForeign("author_id");
      t.integer("price").notNullable().alter();
      t.string("title").notNullable().alter();
    });
    await k.schema.alterTable("books", (t) => t.renameColumn("author_id", "writer"));
    await k.schema.alterTable("authors", (t) => {
      t.dropUnique([], "authors_by_name");
      t.dropColumn("mail");
    });
  },
};

const steps = { "1_tables": tables, "2_changes": changes };
const migrationSource = {
  getMigrations: async () => Object.keys(steps),
  getMigrationName: (name) => name,
  getMigration: async (name) => steps[name],
};
const config = { migrationSource };

// The types of a table's columns as Knex reads them.
async function types(table) {
  const info = await db(table).columnInfo();
  return Object.fromEntries(Object.entries(info).map(([name, column]) => [name, column.type]));
}

async function indexes(table) {
  const rows = await db("pg_indexes").where({ schemaname: "public", tablename: table })
    .orderBy("indexname");
  return rows.map((row) => row.indexname);
}

async function goesUp() {
  const [batch, done] = await db.migrate.up(config);
  assert.deepStrictEqual([batch, done], [1, ["1_tables"]]);
  assert.strictEqual(await db.migrate.currentVersion(config), "1");
  assert.deepStrictEqual(await types("books"), {
    id: "bigint", writer: "integer", title: "character varying", price: "integer", data: "jsonb",
  });
  const info = await db("authors").columnInfo();
  assert.deepStrictEqual(info.name, {
    type: "character varying", maxLength: 80, nullable: false, defaultValue: null,
  });
  assert.deepStrictEqual(info.mood, {
    type: "USER-DEFINED", maxLength: null, nullable: true, defaultValue: "'glad'::mood",
  });
  assert.strictEqual(info.tags.type, "ARRAY");
  assert.deepStrictEqual(info.created_at, {
    type: "timestamp with time zone", maxLength: null, nullable: false,
    defaultValue: "CURRENT_TIMESTAMP",
  });
  const comment = "select col_description('books'::regclass, 3) as text";
  assert.strictEqual((await db.raw(comment)).rows[0].text, "as on the cover");
}

async function changesTables() {
  // A row that is there already goes through the change of its column's type.
  const [author] = await db("authors").insert({ name: "old" }).returning("id");
  await db("books").insert({ writer: author.id, title: "first", price: 7 });
  assert.deepStrictEqual(await db.migrate.latest(config), [2, ["2_changes"]]);
  const [done, left] = await db.migrate.list(config);
  assert.deepStrictEqual(done.map((step) => step.name), ["1_tables", "2_changes"]);
  assert.deepStrictEqual(left, []);
  assert.deepStrictEqual(await db.migrate.latest(config), [2, []]);
  assert.strictEqual(await db.schema.hasTable("books"), false);
  assert.strictEqual(await db.schema.hasTable("volumes"), true);
  assert.strictEqual(await db.schema.hasColumn("authors", "mail"), true);
  assert.strictEqual(await db.schema.hasColumn("volumes", "writer"), false);
  assert.deepStrictEqual(await types("volumes"), {
    id: "bigint", author_id: "integer", title: "text", price: "numeric", data: "jsonb",
    printed: "boolean",
  });
  const title = await db("volumes").columnInfo("title");
  assert.strictEqual(title.defaultValue, "'untitled'::text");
  assert.deepStrictEqual(await indexes("volumes"), ["books_by_author", "books_pkey"]);
  assert.deepStrictEqual(await indexes("authors"), ["authors_by_name", "authors_pkey"]);
  assert.deepStrictEqual(await db("volumes").select("title", "price", "printed"), [
    { title: "first", price: "7.00", printed: false },
  ]);
}

async function goesDownAndUp() {
  assert.deepStrictEqual(await db.migrate.down(config), [2, ["2_changes"]]);
  assert.deepStrictEqual(await types("books"), {
    id: "bigint", writer: "integer", title: "character varying", price: "integer", data: "jsonb",
  });
  assert.deepStrictEqual(await indexes("authors"), ["authors_pkey"]);
  assert.deepStrictEqual(await db("books").select("title", "price"), [
    { title: "first", price: 7 },
  ]);
  const [, undone] = await db.migrate.rollback(config, true);
  assert.deepStrictEqual(undone, ["1_tables"]);
  assert.strictEqual(await db.schema.hasTable("authors"), false);
  assert.deepStrictEqual(await db.migrate.latest(config), [1, ["1_tables", "2_changes"]]);
  assert.strictEqual(await db.migrate.status(config), 0);
}

// A migration that fails leaves nothing, and the lock of migrations is free afterwards.
async function failsWhole() {
  const up = async (k) => {
    await k.schema.createTable("half", (t) => t.increments());
    await k.raw("select 1 / 0");
  };
  const broken = { ...steps, "3_broken": { up, down: async () => {} } };
  const source = { ...migrationSource, getMigrations: async () => Object.keys(broken),
    getMigration: async (name) => broken[name] };
  await assert.rejects(db.migrate.latest({ migrationSource: source }), { code: "22012" });
  assert.match(warned.join(" "), /^migration file "3_broken" failed migration failed/);
  assert.strictEqual(await db.schema.hasTable("half"), false);
  assert.deepStrictEqual(await db.migrate.latest(config), [1, []]);
}

async function writesRows() {
  const at = new Date("2024-02-29T12:30:15.250Z");
  const ids = await db("authors").insert([
    { name: "Ann", mood: "glad", tags: ["a", "b c"], created_at: at },
    { name: "Bob", mood: "sad", tags: [], created_at: at },
    { name: "Cid", mood: null, tags: null, created_at: at },
  ]).returning("id");
  assert.deepStrictEqual(ids, [{ id: 1 }, { id: 2 }, { id: 3 }]);
  const ann = await db("authors").where({ name: "Ann" }).first();
  assert.deepStrictEqual([ann.mood, ann.tags, ann.created_at], ["glad", ["a", "b c"], at]);
  const books = [];
  for (let n = 1; n <= 20; n += 1) {
    const data = { pages: n * 10, parts: [n, { odd: n % 2 === 1 }] };
    books.push({ author_id: 1 + (n % 2), title: `t${n}`, price: n + 0.25, data });
  }
  assert.strictEqual((await db.batchInsert("volumes", books, 7).returning("id")).length, 20);
  assert.strictEqual(await db("volumes").where("price", "<", 3).increment("price", 100), 2);
  assert.strictEqual(await db("volumes").where({ title: "t20" }).del(), 1);
  const [changed] = await db("volumes").where({ title: "t3" }).update({ printed: true })
    .returning(["id", "price", "printed"]);
  assert.deepStrictEqual(changed, { id: "3", price: "3.25", printed: true });
}

async function reads() {
  const joined = await db("volumes as v").join("authors as a", "a.id", "v.author_id")
    .leftJoin("volumes as w", (on) => on.on("w.author_id", "a.id").andOnVal("w.title", "t3"))
    .where("v.price", ">", 17).orderBy("v.id").select("a.name", "v.title", "w.title as other");
  assert.deepStrictEqual(joined, [
    { name: "Bob", title: "t1", other: "t3" }, { name: "Ann", title: "t2", other: null },
    { name: "Bob", title: "t17", other: "t3" }, { name: "Ann", title: "t18", other: null },
    { name: "Bob", title: "t19", other: "t3" },
  ]);
  const sums = await db("volumes").groupBy("author_id").orderBy("author_id").select("author_id")
    .count("* as n").sum("price as sum").max("title as last").having(db.raw("count(*)"), ">", 1);
  assert.deepStrictEqual(sums, [
    { author_id: 1, n: "9", sum: "192.25", last: "t8" },
    { author_id: 2, n: "10", sum: "202.50", last: "t9" },
  ]);
  const pages = await db("volumes").jsonExtract("data", "$.pages", "pages")
    .whereJsonPath("data", "$.pages", ">", 180);
  assert.deepStrictEqual(pages, [{ pages: 190 }]);
  const odd = await db("volumes").whereJsonSupersetOf("data", { parts: [{ odd: true }] });
  assert.strictEqual(odd.length, 10);
  const recent = await db.with("dear", db("volumes").where("price", ">", 100)).from("dear")
    .union(db("volumes").select("title").where({ title: "t5" })).select("title").orderBy("title");
  assert.deepStrictEqual(recent, [{ title: "t1" }, { title: "t2" }, { title: "t5" }]);
  const ranks = await db("volumes").select("title").rank("place", "price", "author_id")
    .whereIn("title", ["t4", "t6", "t7"]).orderBy("title");
  assert.deepStrictEqual(ranks.map((row) => row.place), ["1", "2", "1"]);
  const lonely = await db("authors").whereNotExists(
    db("volumes").whereColumn("volumes.author_id", "authors.id")).pluck("name");
  assert.deepStrictEqual(lonely, ["Cid"]);
  const one = await db("volumes").select("title").distinctOn("author_id")
    .orderBy([{ column: "author_id" }, { column: "id", order: "desc" }]);
  assert.deepStrictEqual(one, [{ title: "t18" }, { title: "t19" }]);
}

async function pages() {
  const all = db("volumes").where("printed", false);
  const { count } = await all.clone().count().first();
  assert.strictEqual(count, "18");
  const page = await all.clone().orderBy("id").limit(5).offset(15).pluck("title");
  assert.deepStrictEqual(page, ["t17", "t18", "t19"]);
  const seen = [];
  for await (const row of db("volumes").orderBy("id").select("id").stream()) seen.push(row.id);
  assert.strictEqual(seen.length, 19);
}

async function inserts() {
  const row = { name: "Ann", mail: "ann@x" };
  const merged = await db("authors").insert(row).onConflict("name").merge(["mail"]).returning("*");
  assert.deepStrictEqual([merged[0].id, merged[0].mail, merged[0].mood], [1, "ann@x", "glad"]);
  const ignored = await db("authors").insert(row).onConflict("name").ignore().returning("id");
  assert.deepStrictEqual(ignored, []);
  const kept = await db("authors").insert({ name: "Ann", mail: "no" }).onConflict("name").merge()
    .where("authors.mood", "sad").returning("id");
  assert.deepStrictEqual(kept, []);
  assert.strictEqual((await db("authors").where({ id: 1 }).first()).mail, "ann@x");
}

// Errors are those of node-postgres, with the code, the table and the constraint.
async function refuses() {
  const twice = db("authors").insert({ name: "Ann" });
  await assert.rejects(twice, { code: "23505", constraint: "authors_by_name", table: "authors" });
  const stray = db("volumes").insert({ author_id: 99, title: "x", price: 1 });
  await assert.rejects(stray, { code: "23503", constraint: "books_author_id_foreign",
    detail: 'Key (author_id)=(99) is not present in table "authors".' });
  const cheap = db("volumes").insert({ author_id: 1, title: "x", price: -1 });
  await assert.rejects(cheap, { code: "23514", constraint: "price_is_positive" });
  const empty = db("volumes").insert({ author_id: null, title: "x", price: 1 });
  await assert.rejects(empty, { code: "23502", column: "author_id" });
  await assert.rejects(db("authors").where("mood", "odd"), { code: "22P02" });
}

async function takesBack() {
  const count = async () => Number((await db("authors").count().first()).count);
  await assert.rejects(db.transaction(async (t) => {
    await t("authors").insert({ name: "gone" });
    throw new Error("back");
  }), /back/);
  assert.strictEqual(await count(), 3);
  await db.transaction(async (outer) => {
    await outer("authors").insert({ name: "outer" });
    const inner = outer.transaction(async (t) => {
      await t("authors").insert({ name: "inner" });
      await t("authors").insert({ name: "outer" });
    });
    await assert.rejects(inner, { code: "23505" });
    await outer.transaction(async (t) => t("authors").insert({ name: "second" }));
  });
  const names = await db("authors").where("id", ">", 3).orderBy("name").pluck("name");
  assert.deepStrictEqual(names, ["outer", "second"]);
  const before = await db.transaction(async (t) => {
    await t("authors").count();
    await db("authors").insert({ name: "later" });
    return t("authors").where({ name: "later" });
  }, { isolationLevel: "repeatable read" });
  assert.deepStrictEqual(before, []);
  assert.strictEqual(await db("authors").whereNotIn("name", ["Ann", "Bob", "Cid"]).del(), 3);
}

async function locks() {
  const rows = () => db("authors").orderBy("id").select("name");
  await db.transaction(async (one) => {
    assert.strictEqual((await rows().transacting(one).limit(1).forUpdate())[0].name, "Ann");
    await db.transaction(async (two) => {
      const free = await rows().transacting(two).forUpdate().skipLocked();
      assert.deepStrictEqual(free, [{ name: "Bob" }, { name: "Cid" }]);
    });
    await assert.rejects(db.transaction((two) => rows().transacting(two).forShare().noWait()),
      { code: "55P03" });
  });
}

async function ends() {
  await db("authors").where({ name: "Ann" }).del();
  assert.strictEqual((await db("volumes").count().first()).count, "10");
  await db.migrate.rollback(config, true);
  assert.strictEqual(await db.schema.hasTable("volumes"), false);
  await db.schema.dropTable("knex_migrations").dropTable("knex_migrations_lock");
  await db.destroy();
}

check("knex", [goesUp, changesTables, goesDownAndUp, failsWhole, writesRows, reads, pages, inserts,
  refuses, takesBack, locks, ends]);
