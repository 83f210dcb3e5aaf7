// viem and the precompiles themselves: inference's functions, the registry's views, and why calls are refused.
import assert from "node:assert/strict";
import { createPublicClient, encodeErrorResult, encodeFunctionData, http } from "viem";

import { artifact, INFERENCE, OTHER, REGISTRY, rejected, ZERO } from "./lib.mjs";
import { contractError, viem } from "./oracle.mjs";

export const inference = { address: INFERENCE, abi: artifact("IInference").abi };
export const registryContract = { address: REGISTRY, abi: artifact("IModelRegistry").abi };

export async function precompiles(world) {
  const { node } = viem(world, 1);
  const { name, commitment, blue } = world;
  const read = (functionName, args, more) => node.readContract({ ...inference, functionName, args, ...more });
  for (const { prompt, maxNew, tokens, complete } of world.answers) {
    for (const named of [commitment, ZERO]) {
      assert.deepEqual(await read("generate", [name, named, prompt, maxNew]), [tokens, complete]);
      assert.equal(await read("verify", [name, named, prompt, maxNew, tokens]), true);
    }
    const altered = [...tokens.slice(0, -1), tokens.at(-1) ^ 1];
    for (const wrong of [tokens.slice(0, -1), altered, [...tokens, 1], []]) {
      assert.equal(await read("verify", [name, commitment, prompt, maxNew, wrong]), false, `${wrong}`);
    }
    // Prices and digest are those of the command that has the rules in itself, and the price is enough to the gas.
    const local = (more) => blue.json(["chain", "call", "--tokens", prompt.join(","), ...more]);
    const generated = await local(["--max-new", `${maxNew}`]);
    const price = await read("gasOfGenerate", [name, commitment, prompt.length, maxNew]);
    assert.equal(price, BigInt(generated.gas));
    const verified = await local(["--max-new", `${maxNew}`, "--answer", tokens.join(",")]);
    const checked = await read("gasOfVerify", [name, commitment, prompt.length, tokens.length]);
    assert.equal(checked, BigInt(verified.gas));
    const digest = await local(["--digest"]);
    assert.equal(await read("logitsDigest", [name, commitment, prompt]), digest.result.digest);
    assert.equal(await read("gasOfLogitsDigest", [name, commitment, prompt.length]), BigInt(digest.gas));
  }
  await views(world, node);

  const { prompt, maxNew } = world.answers[0];
  const refused = async (args, what) => contractError(await rejected(read("generate", args), what));
  assert.deepEqual(await refused([name, OTHER, prompt, maxNew], "another commitment"), ["Refused", 15]);
  assert.deepEqual(await refused([OTHER, ZERO, prompt, maxNew], "another name"), ["Refused", 14]);
  assert.deepEqual(await refused([name, ZERO, [], maxNew], "an empty prompt"), ["Refused", 12]);
  assert.deepEqual(await refused([name, ZERO, [2 ** 32 - 1], maxNew], "an id of no token"), ["Refused", 11]);
  // Ethereum's form of an error: code 3, the bytes as data, and words.
  const call = { to: INFERENCE, data: "0x00000000" };
  const halted = await raw(world, "eth_call", [call, "latest"]);
  assert.ok(halted.error && halted.error.code !== 3 && !halted.error.data, JSON.stringify(halted));
  const data = encodeFunctionData({ ...inference, functionName: "generate", args: [name, OTHER, prompt, maxNew] });
  const { error } = await raw(world, "eth_call", [{ to: INFERENCE, data }, "latest"]);
  assert.equal(error.code, 3);
  assert.equal(error.data, encodeErrorResult({ ...inference, errorName: "Refused", args: [15] }));
  assert.match(error.message, /^execution reverted/);
  assert.match(error.message, /NotActive/);

  // Many requests in one.
  const { chain } = viem(world, 1);
  const many = createPublicClient({ chain, transport: http(world.url, { batch: { wait: 20 }, retryCount: 0 }) });
  const asked = world.answers.map(({ prompt, maxNew }) =>
    many.readContract({ ...inference, functionName: "generate", args: [name, commitment, prompt, maxNew] }),
  );
  const answered = await Promise.all(asked);
  assert.deepEqual(answered, world.answers.map(({ tokens, complete }) => [tokens, complete]));
}

/** One request as it is, without a client's reading. */
export async function raw(world, method, params) {
  const body = JSON.stringify({ jsonrpc: "2.0", id: 7, method, params });
  const answer = await fetch(world.url, { method: "POST", headers: { "content-type": "application/json" }, body });
  return answer.json();
}

async function views(world, node) {
  const view = (functionName, args = []) => node.readContract({ ...registryContract, functionName, args });
  const { name, commitment } = world;
  assert.deepEqual(await view("getApproved", [name]), [1n, commitment]);
  assert.deepEqual(await view("pending", [name]), [0n, ZERO, 0n]);
  assert.equal(await view("highestVersion", [name]), 1n);
  assert.equal(await view("isRevoked", [name, 1n]), false);
  const count = BigInt(world.chain.models.length);
  assert.equal(await view("activationCount"), count);
  assert.deepEqual((await view("activation", [0n])).slice(0, 3), [name, 1n, commitment]);
  assert.deepEqual(contractError(await rejected(view("activation", [count]), "an activation to come")), ["Refused", 32]);
  assert.equal(await view("isAdmin", [viem(world, 0).account.address]), true);
  assert.equal(await view("isAdmin", [viem(world, 1).account.address]), false);
  const [admins, quorum] = await view("governance");
  assert.deepEqual([admins, quorum], [1, 1]);
  const { record: facts } = await world.blue.json(["inspect", world.first]);
  const [sizes, , , , , , , tokenizer, stops] = await view("record", [commitment]);
  assert.deepEqual([sizes[0], sizes[1], sizes[8]], [facts.hidden, facts.layers, facts.max_context]);
  assert.deepEqual([tokenizer, stops], [facts.tokenizer_digest, facts.stop_ids]);
}
