// What the programs of Node's tools share: where the server is, which the command line says with a
// port and the name of a database, and the end of a program, which fails it if a check has failed.
const { dependencies } = require("./package.json");

const port = Number(process.argv[2]);
const database = process.argv[3];
const at = { host: "127.0.0.1", port, user: "rightlink", database };
const url = `postgres://rightlink@127.0.0.1:${port}/${database}`;

// Runs a program's checks in their order, and names the one that fails.
async function check(tool, checks) {
  for (const one of checks) {
    try {
      await one();
    } catch (error) {
      console.error(`${tool}: ${one.name} failed:`, error);
      process.exit(1);
    }
  }
  console.log(tool, dependencies[tool], "works");
}

module.exports = { at, url, check };
