// Sequelize against a server: `sequelize.js PORT DATABASE`. Models make tables, a second version of
// the models changes them by `sync({ alter: true })`, the query interface does by hand what that
// cannot, and after each step the catalogs are asked. Then rows are written, joined, locked and
// taken back. Left out is `findOrCreate`, which runs in a transaction and makes a function of
// PL/pgSQL (`findCreateFind` makes none); so are ranges and GIN indexes.
const assert = require("node:assert");
const { DataTypes, Op, Sequelize, Transaction, ...errors } = require("sequelize");
const { at, check } = require("./shared");

const statements = [];
const db = new Sequelize(at.database, at.user, "", {
  host: at.host, port: at.port, dialect: "postgres", logging: (text) => statements.push(text),
});
const tables = db.getQueryInterface();
const models = {};

// The columns that both versions of the models have.
const ofAuthors = () => ({
  name: { type: DataTypes.STRING(80), allowNull: false },
  tags: DataTypes.ARRAY(DataTypes.TEXT),
});
const ofBooks = () => ({
  id: { type: DataTypes.UUID, defaultValue: DataTypes.UUIDV4, primaryKey: true },
  data: DataTypes.JSONB,
  printed: DataTypes.DATEONLY,
  cover: DataTypes.BLOB,
  pages: { type: DataTypes.BIGINT, comment: "without the cover" },
});
// Sequelize adds a constraint of a `unique` column at each change anew, but an index once.
const byName = { fields: ["name"], name: "authors_by_name", unique: true };
const byTitle = { fields: ["title"], name: "books_title" };

function define() {
  const mood = { type: DataTypes.ENUM("glad", "sad"), defaultValue: "glad" };
  models.Author = db.define("author", { ...ofAuthors(), mood }, { indexes: [byName] });
  const title = { type: DataTypes.STRING, allowNull: false };
  models.Book = db.define("book", { ...ofBooks(), title, price: DataTypes.INTEGER },
    { indexes: [byTitle], paranoid: true });
  relate();
}

// The second version: a column more, indexes more, other types, more values of an enum, and a table
// between two others.
function change() {
  const byBirth = { fields: ["born", { name: "name", order: "DESC" }], name: "authors_born" };
  const mood = { type: DataTypes.ENUM("calm", "glad", "sad", "wild"), defaultValue: "calm" };
  models.Author = db.define("author", { ...ofAuthors(), mood, born: DataTypes.DATEONLY },
    { indexes: [byName, byBirth] });
  const title = { type: DataTypes.TEXT, allowNull: false };
  const price = { type: DataTypes.DECIMAL(10, 2), allowNull: false, defaultValue: 1 };
  models.Book = db.define("book", { ...ofBooks(), title, price }, {
    indexes: [byTitle, { fields: ["printed"], name: "books_printed", using: "hash" },
      { fields: ["price"], name: "books_dear", where: { price: { [Op.gt]: 10 } } }],
    paranoid: true,
  });
  models.Genre = db.define("genre", { name: { type: DataTypes.STRING, primaryKey: true } },
    { timestamps: false });
  relate();
  models.Book.belongsToMany(models.Genre, { through: "book_genres", timestamps: false });
  models.Genre.belongsToMany(models.Book, { through: "book_genres", timestamps: false });
}

function relate() {
  models.Author.hasMany(models.Book, { foreignKey: { allowNull: false }, onDelete: "CASCADE" });
  models.Book.belongsTo(models.Author);
}

// The types of a table's columns.
async function types(table) {
  const columns = await tables.describeTable(table);
  return Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, column.type]));
}

async function indexes(table) {
  const found = await tables.showIndex(table);
  return found.map((index) => {
    const fields = index.fields.map((field) => field.attribute + (field.order ? " desc" : ""));
    return `${index.name}(${fields})${index.unique ? " unique" : ""}`;
  }).sort();
}

// A server names its version, and a session its zone.
async function connects() {
  assert.match(await db.databaseVersion(), /^\d+\.\d+/);
  await db.authenticate();
  assert.deepStrictEqual(await tables.showAllTables(), []);
}

async function makesTables() {
  define();
  await db.sync();
  const seen = (await tables.showAllTables()).map((table) => table.tableName ?? table).sort();
  assert.deepStrictEqual(seen, ["authors", "books"]);
  assert.strictEqual(await tables.tableExists("authors"), true);
  assert.strictEqual(await tables.tableExists("nothing"), false);
  assert.deepStrictEqual(await types("books"), {
    id: "UUID", title: "CHARACTER VARYING(255)", price: "INTEGER", data: "JSONB", printed: "DATE",
    cover: "BYTEA", pages: "BIGINT", createdAt: "TIMESTAMP WITH TIME ZONE",
    updatedAt: "TIMESTAMP WITH TIME ZONE", deletedAt: "TIMESTAMP WITH TIME ZONE",
    authorId: "INTEGER",
  });
  const { id, name, mood, tags } = await tables.describeTable("authors");
  assert.deepStrictEqual(id, { type: "INTEGER", allowNull: false, comment: null, special: [],
    primaryKey: true, defaultValue: "nextval(authors_id_seq::regclass)" });
  assert.deepStrictEqual([name.type, name.allowNull], ["CHARACTER VARYING(80)", false]);
  assert.deepStrictEqual([mood.type, mood.defaultValue, mood.special],
    ["USER-DEFINED", "glad", ["glad", "sad"]]);
  assert.strictEqual(tags.type, "ARRAY");
  assert.strictEqual((await tables.describeTable("books")).pages.comment, "without the cover");
  assert.deepStrictEqual(await indexes("authors"),
    ["authors_by_name(name) unique", "authors_pkey(id) unique"]);
  assert.deepStrictEqual(await indexes("books"), ["books_pkey(id) unique", "books_title(title)"]);
  const enums = await tables.pgListEnums("authors");
  assert.deepStrictEqual(enums.map((one) => [one.enum_name, one.enum_value]),
    [["enum_authors_mood", "{glad,sad}"]]);
}

async function readsKeys() {
  const keys = await tables.getForeignKeyReferencesForTable("books");
  assert.strictEqual(keys.length, 1);
  assert.deepStrictEqual(keys[0], {
    constraintName: "books_authorId_fkey", constraintSchema: "public",
    constraintCatalog: at.database, tableName: "books", tableSchema: "public",
    tableCatalog: at.database, columnName: "authorId", referencedTableSchema: "public",
    referencedTableCatalog: at.database, referencedTableName: "authors",
    referencedColumnName: "id", deferrable: keys[0].deferrable,
  });
  assert.strictEqual(keys[0].deferrable.name, "NOT");
  const names = await tables.getForeignKeysForTables(["authors", "books"]);
  assert.deepStrictEqual(names, { authors: [], books: ["books_authorId_fkey"] });
}

// Rows that are there go through the changes.
async function altersTables() {
  const ann = await models.Author.create({ name: "Ann", tags: ["old"] });
  await models.Book.create({ title: "first", price: 7, authorId: ann.id });
  change();
  await db.sync({ alter: true });
  const before = [await tables.describeTable("books"), await indexes("books"),
    await tables.describeTable("authors"), await indexes("authors")];
  await db.sync({ alter: true });
  const after = [await tables.describeTable("books"), await indexes("books"),
    await tables.describeTable("authors"), await indexes("authors")];
  assert.deepStrictEqual(after, before);
  const [books, ofBooks, authors, ofAuthors] = after;
  assert.deepStrictEqual([books.title.type, books.price.type, books.price.allowNull],
    ["TEXT", "NUMERIC", false]);
  assert.strictEqual(books.price.defaultValue, "1");
  assert.deepStrictEqual(ofBooks, ["books_dear(price)",
    "books_pkey(id) unique", "books_printed(printed)", "books_title(title)"]);
  assert.deepStrictEqual([authors.born.type, authors.mood.defaultValue], ["DATE", "calm"]);
  const [mood] = await tables.pgListEnums("authors");
  assert.strictEqual(mood.enum_value, "{calm,glad,sad,wild}");
  assert.deepStrictEqual(ofAuthors, ["authors_born(born,name desc)",
    "authors_by_name(name) unique", "authors_pkey(id) unique"]);
  const row = await models.Book.findOne({ include: models.Author });
  assert.deepStrictEqual([row.title, row.price, row.author.mood, row.author.tags],
    ["first", "7.00", "glad", ["old"]]);
  await row.author.destroy();
  assert.strictEqual(await models.Book.count({ paranoid: false }), 0);
}

async function changesByHand() {
  await tables.createTable("shelf", { id: { type: DataTypes.INTEGER, primaryKey: true,
    autoIncrement: true }, place: DataTypes.STRING(10), room: DataTypes.TEXT });
  await tables.bulkInsert("shelf", [{ place: "12", room: "a" }, { place: "7", room: "b" }]);
  await tables.renameTable("shelf", "shelves");
  await tables.renameColumn("shelves", "room", "hall");
  await tables.changeColumn("shelves", "place", { type: "INTEGER USING place::integer" });
  await tables.changeColumn("shelves", "hall", { type: DataTypes.STRING, allowNull: false,
    defaultValue: "main" });
  await tables.addColumn("shelves", "genre", { type: DataTypes.STRING,
    references: { model: "genres", key: "name" }, onUpdate: "CASCADE", onDelete: "SET NULL" });
  await tables.addIndex("shelves", ["place"], { unique: true, name: "shelves_place" });
  await tables.addConstraint("shelves", { fields: ["place"], type: "check", name: "low",
    where: { place: { [Op.lt]: 100 } } });
  await tables.addConstraint("shelves", { fields: ["hall", "place"], type: "unique",
    name: "spot" });
  assert.deepStrictEqual(await types("shelves"), { id: "INTEGER", place: "INTEGER",
    hall: "CHARACTER VARYING(255)", genre: "CHARACTER VARYING(255)" });
  const { hall } = await tables.describeTable("shelves");
  assert.deepStrictEqual([hall.allowNull, hall.defaultValue], [false, "main"]);
  assert.deepStrictEqual(await indexes("shelves"), ["shelf_pkey(id) unique",
    "shelves_place(place) unique", "spot(hall,place) unique"]);
  const constraints = await tables.showConstraint("shelves");
  const said = constraints.map((one) => one.constraintName.replace(/^[0-9_]+_not_null$/, "full"));
  assert.deepStrictEqual(said.sort(), ["full", "full", "low", "shelf_pkey",
    "shelves_genre_fkey", "spot"]);
  const rows = await db.query("select place, hall from shelves order by place",
    { type: "SELECT" });
  assert.deepStrictEqual(rows, [{ place: 7, hall: "b" }, { place: 12, hall: "a" }]);
  await tables.removeConstraint("shelves", "spot");
  await tables.removeIndex("shelves", "shelves_place");
  await tables.removeColumn("shelves", "genre");
  assert.deepStrictEqual(await indexes("shelves"), ["shelf_pkey(id) unique"]);
  assert.deepStrictEqual((await tables.getForeignKeysForTables(["shelves"])).shelves, []);
  await tables.dropTable("shelves");}

// A table of another schema, with an array of an enum.
async function usesSchemas() {
  await tables.createSchema("store");
  assert.ok((await tables.showAllSchemas()).includes("store"));
  const Item = db.define("item", { n: DataTypes.INTEGER,
    kinds: DataTypes.ARRAY(DataTypes.ENUM("prose", "verse")) }, { schema: "store" });
  await Item.sync();
  const { id } = await Item.create({ n: 4, kinds: ["verse", "prose"] });
  assert.deepStrictEqual((await Item.findByPk(id)).kinds, ["verse", "prose"]);
  assert.strictEqual(await Item.count({ where: { kinds: { [Op.contains]: ["verse"] } } }), 1);
  assert.strictEqual(await Item.sum("n"), 4);
  assert.strictEqual((await tables.describeTable("items", { schema: "store" })).n.type, "INTEGER");
  await Item.drop();
  db.modelManager.removeModel(Item);
  await tables.dropSchema("store");
  assert.ok(!(await tables.showAllSchemas()).includes("store"));
}

const born = (n) => `19${10 + n}-02-03`;

async function writesRows() {
  const { Author, Book, Genre } = models;
  const [ann, bob] = await Author.bulkCreate([
    { name: "Ann", mood: "wild", tags: ["a", "b c", 'd"e'], born: born(1) },
    { name: "Bob", tags: [], born: born(2) },
    { name: "Cid", mood: null, born: null },
  ], { returning: true });
  assert.deepStrictEqual([ann.mood, bob.mood, bob.id - ann.id], ["wild", "calm", 1]);
  await Genre.bulkCreate(["crime", "love", "war"].map((name) => ({ name })));
  for (let n = 1; n <= 12; n += 1) {
    const book = await Book.create({
      title: `t${n}`, price: n + 0.25, data: { n, deep: { odd: n % 2 === 1, list: [n, "x"] } },
      printed: `2024-01-${10 + n}`, authorId: n % 3 ? ann.id : bob.id, pages: "9007199254740993",
      cover: Buffer.from([0, n, 255]),
    });
    await book.setGenres(n % 2 ? ["crime", "love"] : ["war"]);
  }
  const book = await Book.findOne({ where: { title: "t4" } });
  assert.deepStrictEqual(book.data, { n: 4, deep: { odd: false, list: [4, "x"] } });
  assert.deepStrictEqual([book.price, book.printed, book.pages, [...book.cover]],
    ["4.25", "2024-01-14", "9007199254740993", [0, 4, 255]]);
  const again = await Author.findByPk(ann.id);
  assert.deepStrictEqual([again.tags, again.born], [["a", "b c", 'd"e'], born(1)]);
  await book.update({ title: "four", data: { ...book.data, more: null } });
  await book.increment({ price: 2 });
  await book.reload();
  assert.deepStrictEqual([book.title, book.price, book.data.more], ["four", "6.25", null]);
  const [count, changed] = await Book.update({ price: 99 }, { where: { title: ["t1", "t2"] },
    returning: true });
  assert.deepStrictEqual([count, changed.map((one) => one.price)], [2, ["99.00", "99.00"]]);
}

async function reads() {
  const { Author, Book, Genre } = models;
  const authors = await Author.findAll({
    include: [{ model: Book, where: { price: { [Op.gt]: 11 } }, required: false,
      include: [Genre] }],
    order: [["name", "ASC"], [Book, "title", "DESC"], [Book, Genre, "name", "ASC"]],
  });
  const shape = authors.map((author) => [author.name,
    author.books.map((book) => [book.title, ...book.genres.map((genre) => genre.name)])]);
  assert.deepStrictEqual(shape, [
    ["Ann", [["t2", "war"], ["t11", "crime", "love"], ["t1", "crime", "love"]]],
    ["Bob", [["t12", "war"]]], ["Cid", []],
  ]);
  const apart = await Author.findAll({ include: [{ model: Book, separate: true, limit: 1,
    order: [["price", "DESC"], ["title", "ASC"]] }], order: ["id"] });
  assert.deepStrictEqual(apart.map((author) => author.books.map((book) => book.title)),
    [["t1"], ["t12"], []]);
  const sums = await Book.findAll({ group: ["author.id"], order: [[db.col("author.id"), "ASC"]],
    include: [{ model: Author, attributes: ["name"] }], raw: true,
    attributes: [[db.fn("COUNT", db.col("*")), "n"], [db.fn("SUM", db.col("price")), "sum"]],
    having: db.where(db.fn("COUNT", db.col("*")), Op.gt, 1) });
  assert.deepStrictEqual(sums, [
    { n: "8", sum: "246.50", "author.name": "Ann" },
    { n: "4", sum: "31.00", "author.name": "Bob" },
  ]);
  assert.strictEqual(await Book.max("price"), 99);
  assert.strictEqual(await Book.count({ distinct: true, col: "authorId" }), 2);
}

// Operators that PostgreSQL alone has.
async function asksOfTypes() {
  const { Author, Book } = models;
  const titles = async (where) => (await Book.findAll({ where, order: ["pages", "title"] }))
    .map((book) => book.title);
  assert.deepStrictEqual(await titles({ "data.deep.odd": true, "data.n": { [Op.lt]: 6 } }),
    ["t1", "t3", "t5"]);
  assert.deepStrictEqual(await titles({ data: { [Op.contains]: { deep: { list: [7] } } } }),
    ["t7"]);
  assert.deepStrictEqual(await titles({ title: { [Op.iRegexp]: "^T1[0-1]$" } }), ["t10", "t11"]);
  assert.deepStrictEqual(await titles({ title: { [Op.iLike]: { [Op.any]: ["%OUR", "T9"] } } }),
    ["four", "t9"]);
  assert.deepStrictEqual(await titles({ printed: { [Op.between]: ["2024-01-15", "2024-01-16"] } }),
    ["t5", "t6"]);
  const names = async (where) => (await Author.findAll({ where, order: ["id"] }))
    .map((author) => author.name);
  assert.deepStrictEqual(await names({ tags: { [Op.overlap]: ["b c", "z"] } }), ["Ann"]);
  assert.deepStrictEqual(await names({ "$books.id$": null }).catch((e) => e.parent.code), "42P01");
  assert.deepStrictEqual(await names({ id: { [Op.notIn]: db.literal(
    '(select "authorId" from books)') } }), ["Cid"]);
}

async function pages() {
  const { Author, Book } = models;
  const page = await Book.findAndCountAll({ include: { model: Author, where: { name: "Ann" } },
    order: [["printed", "ASC"]], limit: 3, offset: 6 });
  assert.deepStrictEqual([page.count, page.rows.map((book) => book.title)], [8, ["t10", "t11"]]);
  const whole = await Author.findAndCountAll({ include: Book, distinct: true, limit: 1,
    order: ["name"] });
  assert.deepStrictEqual([whole.count, whole.rows.length, whole.rows[0].books.length], [3, 1, 8]);
}

async function inserts() {
  const { Author, Genre } = models;
  const [first, created] = await Author.upsert({ name: "Dan", mood: "sad" },
    { conflictFields: ["name"] });
  const [second] = await Author.upsert({ name: "Dan", mood: "glad" }, { conflictFields: ["name"] });
  assert.deepStrictEqual([created, second.id, second.mood], [null, first.id, "glad"]);
  await Author.bulkCreate([{ name: "Dan", mood: "wild" }, { name: "Eve" }],
    { updateOnDuplicate: ["mood"], conflictAttributes: ["name"] });
  assert.strictEqual((await Author.findOne({ where: { name: "Dan" } })).mood, "wild");
  await Genre.bulkCreate([{ name: "war" }, { name: "poem" }], { ignoreDuplicates: true });
  assert.strictEqual(await Genre.count(), 4);
  const [, made] = await Genre.findCreateFind({ where: { name: "epic" } });
  const [found, twice] = await Genre.findCreateFind({ where: { name: "epic" } });
  assert.deepStrictEqual([made, twice, found.name], [true, false, "epic"]);
  const [built, isNew] = await Author.findOrBuild({ where: { name: "Fay" } });
  assert.deepStrictEqual([built.name, isNew], ["Fay", true]);
  assert.strictEqual(await Author.destroy({ where: { name: ["Dan", "Eve"] } }), 2);
}

async function refuses() {
  const { Author, Book } = models;
  await assert.rejects(Author.create({ name: "Ann" }), (error) => {
    assert.ok(error instanceof errors.UniqueConstraintError);
    assert.deepStrictEqual([error.fields, error.errors[0].path, error.parent.constraint],
      [{ name: "Ann" }, "name", "authors_by_name"]);
    return true;
  });
  await assert.rejects(Book.create({ title: "x", authorId: 999 }), (error) => {
    assert.ok(error instanceof errors.ForeignKeyConstraintError);
    assert.deepStrictEqual([error.table, error.index], ["books", "books_authorId_fkey"]);
    return true;
  });
  const stray = db.query('insert into books (id) values (null)');
  await assert.rejects(stray, (error) => error instanceof errors.DatabaseError &&
    error.parent.code === "23502");
  await assert.rejects(tables.removeConstraint("books", "none"), (error) => {
    assert.ok(error instanceof errors.UnknownConstraintError);
    return error.constraint === "none" && error.table === "books";
  });
  await assert.rejects(Author.findAll({ where: { mood: "odd" } }), errors.DatabaseError);
}

// Books that are destroyed stay until they are destroyed by force.
async function restores() {
  const { Book } = models;
  const book = await Book.findOne({ where: { title: "t9" } });
  await book.destroy();
  assert.strictEqual(await Book.count(), 11);
  assert.strictEqual(await Book.count({ paranoid: false }), 12);
  await book.restore();
  assert.strictEqual(await Book.count(), 12);
  await Book.destroy({ where: { title: "t9" }, force: true });
  assert.strictEqual(await Book.count({ paranoid: false }), 11);
}

async function takesBack() {
  const { Author } = models;
  await assert.rejects(db.transaction(async (transaction) => {
    await Author.create({ name: "gone" }, { transaction });
    throw new Error("back");
  }), /back/);
  await db.transaction(async (outer) => {
    await Author.create({ name: "outer" }, { transaction: outer });
    const inner = db.transaction({ transaction: outer }, async (transaction) => {
      await Author.create({ name: "inner" }, { transaction });
      await Author.create({ name: "outer" }, { transaction });
    });
    await assert.rejects(inner, errors.UniqueConstraintError);
    await db.transaction({ transaction: outer }, (transaction) =>
      Author.create({ name: "second" }, { transaction }));
  });
  const names = await Author.findAll({ where: { id: { [Op.gt]: 4 } }, order: ["name"] });
  assert.deepStrictEqual(names.map((author) => author.name), ["outer", "second"]);
  const isolationLevel = Transaction.ISOLATION_LEVELS.REPEATABLE_READ;
  await db.transaction({ isolationLevel }, async (transaction) => {
    assert.strictEqual(await Author.count({ transaction }), 5);
    await Author.create({ name: "later" });
    assert.strictEqual(await Author.count({ transaction }), 5);
  });
  assert.strictEqual(await Author.destroy({ where: { name: ["outer", "second", "later"] } }), 3);
}

async function locks() {
  const { Author } = models;
  const names = async (transaction, more) => (await Author.findAll({ order: ["id"],
    transaction, ...more })).map((author) => author.name);
  await db.transaction(async (one) => {
    assert.deepStrictEqual(await names(one, { limit: 1, lock: one.LOCK.UPDATE }), ["Ann"]);
    await db.transaction(async (two) => {
      const free = await names(two, { lock: two.LOCK.NO_KEY_UPDATE, skipLocked: true });
      assert.deepStrictEqual(free, ["Bob", "Cid"]);
    });
  });
}

async function ends() {
  const { Author, Book } = models;
  await (await Author.findOne({ where: { name: "Ann" } })).destroy();
  assert.strictEqual(await Book.count(), 3);
  await Book.truncate({ cascade: true, force: true });
  assert.strictEqual(await Book.count({ paranoid: false }), 0);
  await db.drop({});
  assert.deepStrictEqual(await tables.showAllTables(), []);
  await tables.dropAllEnums();
  assert.deepStrictEqual(await tables.pgListEnums(), []);
  assert.ok(statements.length > 100, `${statements.length} statements`);
  await db.close();
}

check("sequelize", [connects, makesTables, readsKeys, altersTables, changesByHand, usesSchemas,
  writesRows, reads, asksOfTypes, pages, inserts, refuses, restores, takesBack, locks, ends]);
