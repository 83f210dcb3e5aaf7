// forge: a contract from source to chain. Its own EVM has no precompiles: what a script asks them goes through the node.
import assert from "node:assert/strict";
import { cpSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { encodeFunctionData, encodeFunctionResult } from "viem";

import { artifact, here, KEYS, output, solidity, tool } from "./lib.mjs";
import { viem } from "./oracle.mjs";
import { inference } from "./precompiles.mjs";

const CONFIG = `[profile.default]
src = "src"
test = "test"
evm_version = "cancun"
optimizer = true
optimizer_runs = 200
bytecode_hash = "none"
cbor_metadata = true
rpc_storage_caching = { chains = "none", endpoints = "all" }
`;

export async function forge(world) {
  const folder = join(world.folder, "forge");
  mkdirSync(join(folder, "src"), { recursive: true });
  for (const name of readdirSync(solidity).filter((name) => name.endsWith(".sol"))) {
    cpSync(join(solidity, name), join(folder, "src", name));
  }
  cpSync(join(solidity, "examples"), join(folder, "src/examples"), { recursive: true });
  writeFileSync(join(folder, "foundry.toml"), CONFIG);
  mkdirSync(join(folder, "test"));
  cpSync(join(here, "Fork.t.sol"), join(folder, "test/Fork.t.sol"));
  const compiler = ["--offline", "--use", join(here, "solc.mjs")];
  // Once for both.
  await output(tool("forge"), ["build", ...compiler], { cwd: folder });
  const created = await output(
    tool("forge"),
    [
      "create", ...compiler, "--rpc-url", world.url, "--private-key", KEYS[5], "--broadcast", "--json",
      "src/examples/Oracle.sol:Oracle", "--constructor-args", world.name, world.commitment,
    ],
    { cwd: folder },
  );
  const { deployedTo: address } = JSON.parse(created);
  const clients = viem(world, 5);
  const { node } = clients;
  const contract = { address, abi: artifact("Oracle").abi };
  const [{ prompt, maxNew, tokens, complete }] = world.answers;
  const hash = await clients.wallet.writeContract({ ...contract, functionName: "ask", args: [prompt, maxNew] });
  assert.equal((await clients.mined(hash)).status, "success");
  const kept = await node.readContract({ ...contract, functionName: "answerOf", args: [0n] });
  assert.deepEqual(kept, [clients.account.address, complete, tokens]);

  // Tests on a fork.
  const args = [world.name, world.commitment, prompt, maxNew];
  const data = encodeFunctionData({ ...inference, functionName: "generate", args });
  const answer = encodeFunctionResult({ ...inference, functionName: "generate", result: [tokens, complete] });
  const env = { ...process.env, CALL: data, ANSWER: answer };
  const tested = await output(tool("forge"), ["test", ...compiler, "--fork-url", world.url, "--json"], { cwd: folder, env });
  const [suite] = Object.values(JSON.parse(tested));
  const results = Object.values(suite.test_results).map(({ status }) => status);
  assert.deepEqual(results, ["Success", "Success", "Success"], tested);
}
