// node-postgres against a server at PGHOST and PGPORT, with PGUSER and PGPASSWORD.
const assert = require("node:assert");
const net = require("node:net");
const { Client } = require("pg");

async function main() {
  const ssl = { rejectUnauthorized: false };
  const client = new Client({ database: "test", ssl });
  await client.connect();
  await client.query("drop table if exists n");
  await client.query("create table n (id int primary key, name text, at timestamptz, ok bool)");
  const insert = { name: "insert", text: "insert into n values ($1, $2, $3, $4)" };
  for (let id = 0; id < 10; id += 1) {
    await client.query(insert, [id, `n${id}`, new Date(0), id % 2 === 0]);
  }
  const found = await client.query("select * from n where id = $1", [4]);
  assert.deepStrictEqual(found.rows, [{ id: 4, name: "n4", at: new Date(0), ok: true }]);
  const changed = await client.query("update n set name = $1 where id < 3 returning id", ["x"]);
  assert.strictEqual(changed.rowCount, 3);
  for (const [sql, code] of [["insert into n values (1)", "23505"], ["select 1/0", "22012"]]) {
    await assert.rejects(client.query(sql), { code });
  }
  const some = await client.query("select id from n where id = any($1) order by id", [[4, 2, 99]]);
  assert.deepStrictEqual(some.rows, [{ id: 2 }, { id: 4 }]);
  const arrays = await client.query("select $1::text[] as a, array[1, null] as b", [["x", "y z"]]);
  assert.deepStrictEqual(arrays.rows, [{ a: ["x", "y z"], b: [1, null] }]);
  const request = Buffer.alloc(16);
  [16, 80877102, client.processID, client.secretKey].forEach((number, at) => {
    request.writeInt32BE(number, at * 4);
  });
  setTimeout(() => {
    const other = net.connect(client.port, client.host, () => other.end(request));
  }, 200);
  await assert.rejects(client.query("select pg_sleep(60)"), { code: "57014" });
  const count = await client.query("select count(*)::int as count from n");
  assert.deepStrictEqual(count.rows, [{ count: 10 }]);
  await client.end();
  console.log("node-postgres", require("pg/package.json").version, "works");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
