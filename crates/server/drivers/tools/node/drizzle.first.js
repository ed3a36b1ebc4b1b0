// The first version of the tables that drizzle.js migrates.
const { bigserial, index, integer, jsonb, pgEnum, pgTable, serial, text, varchar } =
  require("drizzle-orm/pg-core");

const mood = pgEnum("mood", ["glad", "sad"]);

const authors = pgTable("authors", {
  id: serial().primaryKey(),
  name: varchar({ length: 80 }).notNull(),
  mood: mood().default("glad"),
  tags: text().array(),
});

const books = pgTable("books", {
  id: bigserial({ mode: "number" }).primaryKey(),
  authorId: integer("author_id").notNull(),
  title: varchar({ length: 255 }).notNull(),
  price: integer().notNull(),
  data: jsonb(),
}, (t) => [index("books_title").on(t.title)]);

module.exports = { mood, authors, books };
