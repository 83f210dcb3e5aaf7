// Contracts, models and Ethereum's clients on a development chain. Usage: node e2e.mjs [PATH OF blue]
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import { cast } from "./cast.mjs";
import { commands } from "./commands.mjs";
import { start } from "./devnet.mjs";
import { ethers } from "./ethers.mjs";
import { forge } from "./forge.mjs";
import { Blue, here } from "./lib.mjs";
import { oracle } from "./oracle.mjs";
import { precompiles } from "./precompiles.mjs";
import { readme, validator } from "./readme.mjs";
import { registry } from "./registry.mjs";
import { verified } from "./verified.mjs";

const program = resolve(process.argv[2] ?? join(here, "../../target/release/blue"));
const blue = new Blue(program);
const folder = mkdtempSync(join(tmpdir(), "blue-clients-"));
const began = Date.now();

/** Prompts in text; at the last one the model stops by itself. */
const PROMPTS = [
  ["It is a truth", 8],
  ["She was determined to", 16],
  ['"My dear Mr. Bennet," said his lady — é', 12],
  ["a", 1],
  ["THE END\n", 6],
];

let chain;
try {
  const first = join(here, "../../models/default/blue-tiny.blob");
  const second = join(folder, "second.blob");
  await blue.json(["export", join(here, "../../models/golden/a_qwen3_tied_bf16"), "-o", second]);
  chain = await start(program, ["--blob", first, "--blob", second]);
  const answers = [];
  for (const [prompt, maxNew] of PROMPTS) answers.push({ asked: prompt, ...(await blue.generate(prompt, maxNew)) });
  assert.deepEqual(answers.map(({ complete }) => complete), [false, false, false, false, true]);
  const name = await blue.text(["chain", "name", "blue"]);
  assert.equal(chain.models[0].name, name);
  const world = { blue, chain, url: chain.url, folder, first, second, answers, name, commitment: answers[0].commitment };
  // The last one changes the model.
  for (const part of [oracle, precompiles, verified, cast, ethers, forge, commands, readme, validator, registry]) {
    const from = Date.now();
    await part(world);
    console.log(`${part.name.padEnd(12)} ok  ${((Date.now() - from) / 1000).toFixed(1)} s`);
  }
  await chain.stop();
  console.log(`all ok in ${((Date.now() - began) / 1000).toFixed(1)} s`);
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  chain?.kill();
  rmSync(folder, { recursive: true, force: true });
}
// Clients keep timers and sockets.
process.exit();
