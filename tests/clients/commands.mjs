// `blue call` and `blue ask`: text in, text out, as `blue generate` answers.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";

import { artifact, KEYS, OTHER } from "./lib.mjs";
import { deploy, viem } from "./oracle.mjs";

const Oracle = artifact("Oracle");

export async function commands(world) {
  const { blue, name, commitment } = world;
  const clients = viem(world, 1);
  const { node } = clients;
  const oracle = await deploy(clients, Oracle, [name, commitment]);
  const keyFile = join(world.folder, "key");
  writeFileSync(keyFile, `${KEYS[2]}\n`);
  const rpc = ["--rpc", world.url];
  const holder = { [viem(world, 2).account.address]: ["--key-file", keyFile] };
  for (const [i, { asked, prompt, maxNew, tokens, text, complete }] of world.answers.entries()) {
    const question = [...rpc, "--prompt", asked, "--max-new", `${maxNew}`];
    const called = await blue.json(["call", ...question]);
    assert.deepEqual(
      [called.prompt_ids, called.output_ids, called.text, called.complete, called.commitment],
      [prompt, tokens, text, complete, commitment],
    );
    const local = await blue.json(["chain", "call", "--tokens", prompt.join(","), "--max-new", `${maxNew}`]);
    assert.deepEqual([called.gas, called.data, called.output], [local.gas, local.data, local.output]);
    const verified = await blue.json(["call", ...question, "--answer", tokens.join(","), "--commitment", commitment]);
    assert.equal(verified.right, true);
    const wrong = await blue.json(["call", ...question, "--answer", tokens.slice(1).join(",")], 3);
    assert.equal(wrong.right, false);
    const digest = await blue.json(["call", ...rpc, "--tokens", prompt.join(","), "--digest"]);
    const digested = await blue.json(["chain", "call", "--tokens", prompt.join(","), "--digest"]);
    assert.equal(digest.digest, digested.result.digest);

    // By an account of the node, and by a key of one's own.
    const first = (await node.request({ method: "eth_accounts" }))[0];
    const senders = [[first, []], ...Object.entries(holder)];
    for (const [j, [from, who]] of senders.entries()) {
      const told = await blue.json(["ask", oracle, ...question, ...who]);
      assert.deepEqual(
        [told.prompt_ids, told.output_ids, told.text, told.complete, told.commitment, told.id],
        [prompt, tokens, text, complete, commitment, `${2 * i + j}`],
      );
      assert.equal(told.from.toLowerCase(), from.toLowerCase());
      const receipt = await node.getTransactionReceipt({ hash: told.transaction });
      assert.deepEqual([BigInt(told.block), BigInt(told.gas_used)], [receipt.blockNumber, receipt.gasUsed]);
      assert.equal(receipt.from.toLowerCase(), from.toLowerCase());
    }
  }
  const [{ asked, maxNew, text }] = world.answers;
  const question = [...rpc, "--prompt", asked, "--max-new", `${maxNew}`];
  const people = await blue.text(["ask", oracle, ...question]);
  assert.ok(people.includes(text.trim()) && people.includes("transaction"), people);

  // Refused, with the number, before anything is sent.
  const before = await node.getBlockNumber({ cacheTime: 0 });
  const pinned = ["--commitment", OTHER, "--tokens", "1,2", "--max-new", "1"];
  const refused = await blue.json(["call", ...rpc, ...pinned], 2);
  assert.deepEqual(refused.refused, { number: 15, name: "NotActive" });
  const said = await blue.error(["call", ...rpc, ...pinned], 2);
  assert.match(said, /number 15, NotActive/);
  const text15 = await blue.json(["call", ...question, "--commitment", OTHER], 2);
  assert.deepEqual(text15.refused, refused.refused);
  const text14 = await blue.json(["call", ...question, "--name", OTHER], 2);
  assert.deepEqual(text14.refused, { number: 14, name: "NoActiveModel" });
  const never = await blue.error(["call", ...question, "--block", "999999"], 1);
  assert.match(never, /no such block/);
  const other = await blue.error(["call", ...question, "--contract", oracle], 1);
  assert.match(other, new RegExp(`blue ask ${oracle}`, "i"));
  const nobody = await blue.error(["ask", "0x00000000000000000000000000000000000000aa", ...question], 2);
  assert.match(nobody, /no contract/);
  const outside = ["--tokens", `${2 ** 32 - 1}`, "--max-new", "1"];
  const contract = await blue.json(["ask", oracle, ...rpc, ...outside], 2);
  assert.deepEqual(contract.refused, { number: 11, name: "TokenOutOfRange" });
  const chain = await blue.error(["ask", oracle, ...question, "--chain-id", "1"], 3);
  assert.match(chain, /follows chain/);
  assert.equal(await node.getBlockNumber({ cacheTime: 0 }), before);
  const late = await blue.error(["ask", oracle, ...question, "--gas", "30000"], 2);
  assert.match(late, /--gas/);
  const old = await blue.json(["call", ...question, "--block", "0"]);
  assert.equal(old.block, 0);
}
