// VerifiedOracle.sol: answers from outside the chain are paid if they are the model's, and only then.
import assert from "node:assert/strict";
import { parseEther, parseEventLogs } from "viem";

import { artifact, rejected } from "./lib.mjs";
import { contractError, deploy, viem } from "./oracle.mjs";

const Verified = artifact("VerifiedOracle");
const REWARD = parseEther("0.5");

export async function verified(world) {
  const asker = viem(world, 1);
  const worker = viem(world, 2);
  const { node } = asker;
  const patience = 3n;
  const address = await deploy(asker, Verified, [world.name, world.commitment, patience]);
  const contract = { address, abi: Verified.abi };
  const read = (functionName, args) => node.readContract({ ...contract, functionName, args });
  const send = async (who, functionName, args, more = {}) => {
    const hash = await who.wallet.writeContract({ ...contract, functionName, args, ...more });
    return who.mined(hash);
  };
  const zero = `0x${"0".repeat(40)}`;
  const ask = async ({ prompt, maxNew }, answerer = zero) => {
    const receipt = await send(asker, "ask", [prompt, maxNew, answerer], { value: REWARD });
    return parseEventLogs({ abi: Verified.abi, logs: receipt.logs })[0].args.id;
  };

  for (const answer of world.answers) {
    const { tokens } = answer;
    const id = await ask(answer);
    const altered = tokens.map((token, i) => (i === 0 ? token ^ 1 : token));
    for (const wrong of [tokens.slice(0, -1), altered, [...tokens, tokens[0]]]) {
      const call = { ...contract, functionName: "submit", args: [id, wrong], account: worker.account };
      const error = contractError(await rejected(node.simulateContract(call), "a wrong answer"));
      assert.deepEqual(error, ["WrongAnswer", id]);
      // Sent all the same, it changes nothing.
      const receipt = await send(worker, "submit", [id, wrong], { gas: 1_000_000n });
      assert.deepEqual([receipt.status, receipt.logs.length], ["reverted", 0]);
    }
    assert.equal((await read("questionOf", [id])).status, 1);
    const owed = await read("owed", [worker.account.address]);
    const receipt = await send(worker, "submit", [id, tokens]);
    assert.equal(receipt.status, "success");
    const [event] = parseEventLogs({ abi: Verified.abi, logs: receipt.logs });
    assert.deepEqual(event.args, { id, answerer: worker.account.address, answer: tokens });
    const question = await read("questionOf", [id]);
    assert.deepEqual([question.status, question.answer], [2, tokens]);
    assert.equal((await read("owed", [worker.account.address])) - owed, REWARD);
    const again = { ...contract, functionName: "submit", args: [id, tokens], account: worker.account };
    assert.deepEqual(contractError(await rejected(node.simulateContract(again), "a second answer")), ["NotOpen", id]);
  }

  // What is owed is paid, to the wei.
  const owed = REWARD * BigInt(world.answers.length);
  const balance = (blockNumber) => node.getBalance({ address: worker.account.address, blockNumber });
  const paid = await send(worker, "withdraw", []);
  const fee = paid.gasUsed * paid.effectiveGasPrice;
  assert.equal((await balance(paid.blockNumber)) - (await balance(paid.blockNumber - 1n)), owed - fee);
  assert.equal(await node.getBalance({ address }), 0n);

  // A named answerer, and a question taken back when its time is over.
  const id = await ask(world.answers[0], asker.account.address);
  const submit = { ...contract, functionName: "submit", args: [id, world.answers[0].tokens], account: worker.account };
  assert.equal(contractError(await rejected(node.simulateContract(submit), "somebody else's answer"))[0], "NotAnswerer");
  const back = { ...contract, functionName: "takeBack", args: [id], account: asker.account };
  assert.equal(contractError(await rejected(node.simulateContract(back), "taking back at once"))[0], "TooEarly");
  for (let i = 0n; i <= patience; i++) await node.request({ method: "evm_mine", params: [] });
  assert.equal((await send(asker, "takeBack", [id])).status, "success");
  assert.equal(await read("owed", [asker.account.address]), REWARD);
}
