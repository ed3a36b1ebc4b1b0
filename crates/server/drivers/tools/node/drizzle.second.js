// The second version of the tables that drizzle.js migrates: more columns, values of an enum,
// indexes, keys and checks, other types and defaults, a view, and tables of another schema.
const { relations, sql } = require("drizzle-orm");
const { bigserial, boolean, check, date, foreignKey, index, integer, interval, jsonb, numeric,
  pgEnum, pgSchema, pgTable, pgView, primaryKey, serial, text, timestamp, unique, uniqueIndex, uuid,
  varchar } = require("drizzle-orm/pg-core");

const mood = pgEnum("mood", ["calm", "glad", "sad"]);

const authors = pgTable("authors", {
  id: serial().primaryKey(),
  name: varchar({ length: 80 }).notNull(),
  mood: mood().default("glad"),
  tags: text().array().notNull(),
  moods: mood().array(),
  born: date(),
}, (t) => [uniqueIndex("authors_name").on(sql`lower(${t.name})`), unique("authors_once").on(t.name),
  index("authors_born").on(t.born.desc().nullsLast(), t.name)]);

const books = pgTable("books", {
  id: bigserial({ mode: "number" }).primaryKey(),
  authorId: integer("author_id").notNull(),
  title: text().notNull(),
  price: numeric({ precision: 10, scale: 2 }).notNull().default("1.50"),
  data: jsonb().default({ pages: 0 }),
  printed: boolean().notNull().default(false),
  made: timestamp({ withTimezone: true, precision: 3 }).notNull().defaultNow(),
  length: interval(),
  code: uuid().notNull().defaultRandom(),
  double: numeric().generatedAlwaysAs(sql`price * 2`),
}, (t) => [
  index("books_title").on(t.title),
  index("books_dear").on(t.price).where(sql`price > 10`),
  foreignKey({ name: "books_author", columns: [t.authorId], foreignColumns: [authors.id] })
    .onDelete("cascade").onUpdate("restrict"),
  check("books_price", sql`${t.price} > 0`),
]);

const store = pgSchema("store");

const genres = store.table("genres", {
  id: integer().primaryKey().generatedAlwaysAsIdentity({ startWith: 10 }),
  name: text().notNull().unique("genres_name"),
});

const bookGenres = store.table("book_genres", {
  bookId: integer("book_id").notNull().references(() => books.id, { onDelete: "cascade" }),
  genreId: integer("genre_id").notNull().references(() => genres.id),
}, (t) => [primaryKey({ name: "book_genres_key", columns: [t.bookId, t.genreId] })]);

const dear = pgView("dear").as((q) => q.select({ title: books.title, price: books.price })
  .from(books).where(sql`${books.price} > 50`));

const authorsRelations = relations(authors, ({ many }) => ({ books: many(books) }));
const booksRelations = relations(books, ({ one, many }) => ({
  author: one(authors, { fields: [books.authorId], references: [authors.id] }),
  genres: many(bookGenres),
}));
const bookGenresRelations = relations(bookGenres, ({ one }) => ({
  book: one(books, { fields: [bookGenres.bookId], references: [books.id] }),
  genre: one(genres, { fields: [bookGenres.genreId], references: [genres.id] }),
}));

module.exports = { mood, authors, books, store, genres, bookGenres, dear, authorsRelations,
  booksRelations, bookGenresRelations };
