// Tables that drizzle-kit pushes.
const { pgTable, serial, text, integer, uniqueIndex, pgEnum } = require('drizzle-orm/pg-core');
const kind = pgEnum('dz_kind', ['x', 'y']);
const one = pgTable('dz_one', { id: serial('id').primaryKey(), name: text('name').notNull(), kind: kind('kind') },
  (t) => [uniqueIndex('dz_one_name').on(t.name)]);
const two = pgTable('dz_two', { id: serial('id').primaryKey(), one: integer('one').references(() => one.id) });
module.exports = { kind, one, two };
