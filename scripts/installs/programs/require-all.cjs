// Loads every public entry point with require() and acquires a lease.
const assert = require("node:assert/strict");
const { exports: names } = require("tenure/package.json");

for (const name of Object.keys(names)) {
  const module = require(`tenure${name.slice(1)}`);
  assert.ok(Object.keys(module).length > 0, `${name} exports nothing`);
}

async function main() {
  const { connect } = require("tenure");
  const tenure = await connect("memory:");
  await tenure.withLease("installs/commonjs", async (lease) => void lease.check());
  await tenure.close();
  console.log("passed");
}

void main();
