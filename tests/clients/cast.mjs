// The main story with Foundry's cast, in the words of the README.
import assert from "node:assert/strict";

import { artifact, INFERENCE, KEYS, OTHER, output, REGISTRY, run, tool, ZERO } from "./lib.mjs";

const Oracle = artifact("Oracle");
const ANSWERED = "Answered(uint256 indexed,address indexed,uint32[],uint32[],bool)";

export async function cast(world) {
  const node = ["--rpc-url", world.url];
  const key = ["--private-key", KEYS[3]];
  const cast = (...args) => output(tool("cast"), args);
  const json = async (command, ...args) => JSON.parse(await cast(command, "--json", ...args));
  const { name, commitment, answers } = world;
  assert.equal(await cast("chain-id", ...node), `${world.chain.chain_id}`);
  assert.match(await cast("client", ...node), /blue/);
  const account = await cast("wallet", "address", ...key);
  assert.ok(BigInt(await cast("balance", account, ...node)) > 10n ** 21n);
  assert.equal(await cast("code", INFERENCE, ...node), "0xfe");
  assert.equal(await cast("code", REGISTRY, ...node), "0xfe");

  const deployed = await json(
    "send", ...node, ...key, "--create", Oracle.bytecode, "constructor(bytes32,bytes32)", name, commitment,
  );
  assert.equal(deployed.status, "0x1");
  const oracle = deployed.contractAddress;
  assert.equal(await cast("call", ...node, oracle, "name()(bytes32)"), name);
  assert.equal(await cast("nonce", account, ...node), "1");
  assert.equal((await cast("storage", oracle, "0", ...node)), ZERO);

  for (const [i, { prompt, maxNew, tokens, complete }] of answers.entries()) {
    const ids = (list) => `[${list.join(",")}]`;
    const question = [oracle, "ask(uint32[],uint32)", ids(prompt), `${maxNew}`];
    const estimate = BigInt(await cast("estimate", ...node, "--from", account, ...question));
    const sent = await json("send", ...node, ...key, ...question);
    assert.equal(sent.status, "0x1");
    assert.ok(BigInt(sent.gasUsed) <= estimate);
    const receipt = await json("receipt", ...node, sent.transactionHash);
    assert.equal(receipt.logs.length, 1);
    assert.equal(receipt.transactionHash, sent.transactionHash);
    assert.equal(await cast("tx", ...node, sent.transactionHash, "to"), await cast("to-check-sum-address", oracle));
    const logs = await json("logs", ...node, "--address", oracle, "--from-block", receipt.blockNumber, ANSWERED);
    assert.equal(logs.length, 1);
    const decoded = await json("decode-abi", "f()(uint32[],uint32[],bool)", logs[0].data);
    assert.deepEqual(decoded.flat(), [...prompt, ...tokens, complete].flat());
    assert.equal(BigInt(logs[0].topics[1]), BigInt(i));
    // Kept by the contract, and the same from the precompile itself.
    const kept = await cast("call", ...node, oracle, "answerOf(uint256)(address,bool,uint32[])", `${i}`);
    assert.deepEqual(kept.split("\n").map(plain), [account, `${complete}`, ids(tokens)]);
    const asked = ["generate(bytes32,bytes32,uint32[],uint32)(uint32[],bool)", name, commitment, ids(prompt), `${maxNew}`];
    const generated = await cast("call", ...node, INFERENCE, ...asked);
    assert.deepEqual(generated.split("\n").map(plain), [ids(tokens), `${complete}`]);
    const claim = ["verify(bytes32,bytes32,uint32[],uint32,uint32[])(bool)", name, commitment, ids(prompt), `${maxNew}`];
    assert.equal(await cast("call", ...node, INFERENCE, ...claim, ids(tokens)), "true");
    assert.equal(await cast("call", ...node, INFERENCE, ...claim, ids(tokens.slice(1))), "false");
  }
  const logs = await json("logs", ...node, "--address", oracle, "--from-block", "0", ANSWERED);
  assert.equal(logs.length, answers.length);
  const newest = await json("block", ...node, "latest");
  assert.equal(newest.hash, logs.at(-1).blockHash);

  // A refusal: the error's selector and number, or its name.
  const wrong = ["generate(bytes32,bytes32,uint32[],uint32)(uint32[],bool)", name, OTHER, "[1]", "1"];
  const refused = await run(tool("cast"), ["call", ...node, INFERENCE, ...wrong]);
  assert.notEqual(refused.code, 0);
  assert.match(refused.stderr, /execution reverted.*NotActive/);
}

/** One line as cast prints it, without its notes on large numbers and its spaces in lists. */
function plain(line) {
  return line.replaceAll(/ \[[\d.e]+\]/g, "").replaceAll(", ", ",").trim();
}
