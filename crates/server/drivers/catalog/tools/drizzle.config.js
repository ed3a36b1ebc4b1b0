// For drizzle-kit, which is told by the environment where the database is.
module.exports = {
  dialect: 'postgresql',
  schema: process.env.DRIZZLE_SCHEMA,
  out: './drizzle',
  dbCredentials: { url: process.env.DRIZZLE_URL, ssl: false },
  schemaFilter: ['public', 'app'],
};
