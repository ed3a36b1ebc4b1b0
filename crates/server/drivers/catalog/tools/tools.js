// What Node's tools ask of catalogs: `tools.js TOOL PORT DATABASE` runs one.
const [tool, port, database] = process.argv.slice(2);
const at = { host: '127.0.0.1', port: Number(port), user: 'rightlink', database };

async function knex() {
  const k = require('knex')({ client: 'pg', connection: at });
  await k.schema.hasTable('t001');
  await k.schema.hasColumn('t001', 'name');
  await k('t001').columnInfo();
  await k('t001').withSchema('app').columnInfo();
  const migrationSource = {
    getMigrations: async () => ['one'],
    getMigrationName: (m) => m,
    getMigration: async () => ({ up: (s) => s.schema.createTable('kx', (t) => t.increments()), down: (s) => s.schema.dropTable('kx') }),
  };
  await k.migrate.latest({ migrationSource });
  await k.migrate.rollback({ migrationSource });
  await k.raw('drop table knex_migrations, knex_migrations_lock');
  await k.destroy();
}

async function sequelize() {
  const { Sequelize, DataTypes } = require('sequelize');
  const s = new Sequelize(database, 'rightlink', '', { ...at, username: 'rightlink', dialect: 'postgres', logging: false });
  const q = s.getQueryInterface();
  const User = s.define('sq_user', { name: { type: DataTypes.STRING, unique: true }, mood: DataTypes.ENUM('a', 'b') });
  const Post = s.define('sq_post', { title: DataTypes.TEXT }, { indexes: [{ fields: ['title'] }] });
  Post.belongsTo(User);
  await s.sync();
  await s.sync({ alter: true });
  await q.showAllTables();
  await q.showAllSchemas();
  await q.describeTable('t001');
  await q.describeTable({ tableName: 't004', schema: 'app' });
  await q.showIndex('t001').catch(() => {});
  await q.getForeignKeyReferencesForTable('t001');
  await q.getForeignKeysForTables(['t001', 't002']);
  await q.showConstraint('t001').catch(() => {});
  await q.tableExists('t001');
  await q.databaseVersion();
  await s.drop();
  await s.close();
}

async function typeorm() {
  require('reflect-metadata');
  const { DataSource, EntitySchema, Table } = require('typeorm');
  const One = new EntitySchema({ name: 'to_one', columns: { id: { type: Number, primary: true, generated: true }, name: { type: String, unique: true }, kind: { type: 'enum', enum: ['x', 'y'] } }, indices: [{ columns: ['name'] }] });
  const Two = new EntitySchema({ name: 'to_two', columns: { id: { type: Number, primary: true, generated: 'uuid' }, at: { type: 'timestamptz', createDate: true } }, relations: { one: { type: 'many-to-one', target: 'to_one', joinColumn: true } } });
  for (let i = 0; i < 2; i++) {
    const d = new DataSource({ type: 'postgres', host: at.host, port: at.port, username: 'rightlink', database, entities: [One, Two], uuidExtension: 'pgcrypto', installExtensions: false, synchronize: false });
    await d.initialize();
    await d.synchronize();
    const r = d.createQueryRunner();
    await r.getTables(['t000', 't001', 't002', 'app.t004']);
    await r.getViews(['v000']);
    await r.getTable('t001');
    await r.hasTable('t001');
    await r.hasColumn('t001', 'name');
    await r.getDatabases().catch(() => {});
    await r.getSchemas().catch(() => {});
    await r.hasSchema('app');
    await r.getCurrentSchema();
    await r.release();
    if (i) await d.dropDatabase === undefined;
    await d.query('select 1');
    if (i) await d.query('drop table to_two, to_one cascade');
    if (i) await d.query('drop type to_one_kind_enum');
    await d.destroy();
  }
}

({ knex, sequelize, typeorm })[tool]().catch((e) => { console.error(e); process.exit(1); });
