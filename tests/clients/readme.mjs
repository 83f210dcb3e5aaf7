// The commands of the README's section "Call it from a contract", as they stand there.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";

import { here, output } from "./lib.mjs";

const root = join(here, "../..");

export async function readme(world) {
  const page = readFileSync(join(root, "README.md"), "utf8");
  const section = page.split("### Call it from a contract")[1].split(/^## /m)[0];
  const blocks = [...section.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, block]) => block);
  assert.equal(blocks.length, 2);
  assert.match(blocks[0], /^blue devnet$/m);
  // The packages are there, the node has another port, and the program may be elsewhere.
  const changes = [
    [/^npm ci .*$/m, ""],
    [/^export PATH=.*$/m, `export PATH="$PWD/tests/clients/node_modules/.bin:$PATH"\nblue() { "${world.blue.program}" "$@"; }`],
    [/^blue call /m, `blue call --rpc ${world.url} `],
    [/^blue ask /m, `blue ask --rpc ${world.url} `],
  ];
  const commands = changes.reduce((text, [found, instead]) => {
    assert.match(text, found);
    return text.replace(found, () => instead);
  }, blocks[1]);
  const env = { ...process.env, ETH_RPC_URL: world.url };
  const said = await output("bash", ["-euo", "pipefail", "-c", commands], { cwd: root, env });
  const { tokens, text } = world.answers[0];
  assert.equal(said.split(text.trim()).length - 1, 2, said);
  assert.ok(said.includes(`[${tokens.join(", ")}]`), said);
}
