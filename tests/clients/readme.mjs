// The commands of the README's sections "Call it from a contract" and "Run it in a validator", as they stand there.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, symlinkSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";

import { here, output } from "./lib.mjs";

const root = join(here, "../..");

/** The blocks of commands below a heading. */
function blocks(heading) {
  const page = readFileSync(join(root, "README.md"), "utf8");
  const section = page.split(`### ${heading}\n`)[1].split(/^##/m)[0];
  return [...section.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, block]) => block);
}

/** Commands with each of the changes, which must apply. */
function changed(commands, changes) {
  return changes.reduce((text, [found, instead]) => {
    assert.match(text, found);
    return text.replaceAll(found, () => instead);
  }, commands);
}

export async function readme(world) {
  const found = blocks("Call it from a contract");
  assert.equal(found.length, 2);
  assert.match(found[0], /^blue devnet$/m);
  // The packages are there, the node has another port, and the program may be elsewhere.
  const commands = changed(found[1], [
    [/^npm ci .*$/gm, ""],
    [/^export PATH=.*$/gm, `export PATH="$PWD/tests/clients/node_modules/.bin:$PATH"\nblue() { "${world.blue.program}" "$@"; }`],
    [/^blue call /gm, `blue call --rpc ${world.url} `],
    [/^blue ask /gm, `blue ask --rpc ${world.url} `],
  ]);
  const env = { ...process.env, ETH_RPC_URL: world.url };
  const said = await output("bash", ["-euo", "pipefail", "-c", commands], { cwd: root, env });
  const { tokens, text } = world.answers[0];
  assert.equal(said.split(text.trim()).length - 1, 2, said);
  assert.ok(said.includes(`[${tokens.join(", ")}]`), said);
}

/** A port that nobody listens on. */
function freePort() {
  return new Promise((found, failed) => {
    const server = createServer();
    server.on("error", failed);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => found(port));
    });
  });
}

export async function validator(world) {
  const found = blocks("Run it in a validator");
  assert.equal(found.length, 1);
  const folder = join(world.folder, "validator");
  mkdirSync(folder);
  symlinkSync(join(root, "models"), join(folder, "models"));
  // The example is built and run by itself.
  const commands = changed(found[0], [
    [/^cargo run .*$/gm, ""],
    [/127\.0\.0\.1:9000/g, `127.0.0.1:${await freePort()}`],
    [/^blue /gm, `"${world.blue.program}" `],
  ]);
  const said = await output("bash", ["-euo", "pipefail", "-c", commands], { cwd: folder });
  assert.match(said, /known answers of \d+ files hold/);
  const name = `${world.commitment.slice(2)}.blob`;
  assert.ok(said.includes(`ours/${name}`), said);
  const fetched = readFileSync(join(folder, "ours", name));
  assert.ok(fetched.equals(readFileSync(world.first)));
}
