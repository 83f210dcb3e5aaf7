// An upgrade: the admin proposes and activates a second model; contracts that named the first are told, others follow.
import assert from "node:assert/strict";
import { parseEventLogs } from "viem";

import { artifact, rejected, ZERO } from "./lib.mjs";
import { contractError, deploy, viem } from "./oracle.mjs";
import { inference, registryContract } from "./precompiles.mjs";

const Oracle = artifact("Oracle");

export async function registry(world) {
  const admin = viem(world, 0);
  const other = viem(world, 1);
  const { node } = admin;
  const { blue, name, second } = world;
  const first = world.commitment;
  const [{ prompt, maxNew }] = world.answers;
  // Ids that the smaller vocabulary of the second model has too.
  const question = prompt.map((id) => id % 300);
  const truth = await blue.generate(question, maxNew, second);
  assert.notEqual(truth.commitment, first);

  const pinned = await deploy(other, Oracle, [name, first]);
  const loose = await deploy(other, Oracle, [name, ZERO]);
  const proposal = await blue.json(["chain", "propose", second, "--model-version", "2", "--name", name]);
  assert.equal(proposal.commitment, truth.commitment);
  const send = async (who, { data, gas }) => {
    const hash = await who.wallet.sendTransaction({ to: registryContract.address, data, ...(gas ? { gas } : {}) });
    return who.mined(hash);
  };
  const events = (receipt) =>
    parseEventLogs({ abi: registryContract.abi, logs: receipt.logs }).map(({ eventName, args }) => ({ eventName, ...args }));
  const call = (functionName, args, account) =>
    node.simulateContract({ ...registryContract, functionName, args, account });

  // Nobody else may.
  const stranger = await send(other, { data: proposal.propose.data, gas: 2_000_000n });
  assert.deepEqual([stranger.status, stranger.logs.length], ["reverted", 0]);
  const approve = call("approve", [name, 2n, truth.commitment], other.account.address);
  assert.deepEqual(contractError(await rejected(approve, "a stranger's vote")), ["Refused", 19]);

  const passed = await send(admin, { data: proposal.propose.data });
  assert.equal(passed.status, "success");
  const [voted, pass] = events(passed);
  assert.deepEqual([voted.eventName, voted.admin, voted.votes], ["Voted", admin.account.address, 1n]);
  assert.deepEqual([pass.eventName, pass.name, pass.version, pass.commitment], ["Passed", name, 2n, truth.commitment]);
  assert.ok(pass.activationBlock > passed.blockNumber);
  const early = await call("activate", [name, 2n], other.account.address).catch((error) => error);
  // A call stands on the newest block or in the one after it; an activation in that one may be right already.
  if (early instanceof Error) assert.deepEqual(contractError(early), ["Refused", 27]);
  else assert.ok(pass.activationBlock <= passed.blockNumber + 1n);
  while ((await node.getBlockNumber({ cacheTime: 0 })) < pass.activationBlock) {
    await node.request({ method: "evm_mine", params: [] });
  }
  // Until somebody activates, the first model answers.
  assert.equal((await node.readContract({ ...registryContract, functionName: "getApproved", args: [name] }))[1], first);
  const activated = await send(other, { data: proposal.activate.data });
  const [activation] = events(activated);
  const expected = { eventName: "Activated", name, version: 2n, commitment: truth.commitment, index: BigInt(world.chain.models.length) };
  assert.deepEqual(activation, expected);
  assert.deepEqual(await node.readContract({ ...registryContract, functionName: "activation", args: [activation.index] }), [
    name,
    2n,
    truth.commitment,
    activated.blockNumber,
  ]);

  const ask = (address, tokens = question) => ({
    address,
    abi: Oracle.abi,
    functionName: "ask",
    args: [tokens, maxNew],
    account: other.account,
  });
  const changed = await rejected(node.simulateContract(ask(pinned)), "a question to a model that was replaced");
  assert.deepEqual(contractError(changed), ["ModelChanged", 15]);
  const { request } = await node.simulateContract(ask(loose));
  const receipt = await other.mined(await other.wallet.writeContract(request));
  const [event] = parseEventLogs({ abi: Oracle.abi, logs: receipt.logs });
  assert.deepEqual(event.args.tokens, truth.tokens);
  // The state before the activation still answers with the first model.
  const args = [name, ZERO, prompt, maxNew];
  const blockNumber = activated.blockNumber - 1n;
  const [tokens] = await node.readContract({ ...inference, functionName: "generate", args, blockNumber });
  assert.deepEqual(tokens, world.answers[0].tokens);

  // The command asks the model that is active now, and takes no other model's tokenizer for it: this one has none.
  const at = ["--rpc", world.url, "--max-new", `${maxNew}`];
  const called = await blue.json(["call", ...at, "--tokens", question.join(",")]);
  assert.deepEqual([called.output_ids, called.commitment, called.text], [truth.tokens, truth.commitment, null]);
  const said = await blue.error(["call", ...at, "--prompt", "It is"], 2);
  assert.match(said, /--tokens/);

  // Taken away, no model is active; nothing comes back by itself.
  const { request: revoke } = await call("revoke", [name, 2n], admin.account);
  const revoked = await admin.mined(await admin.wallet.writeContract(revoke));
  assert.ok(events(revoked).some(({ eventName }) => eventName === "Revoked"));
  const gone = await rejected(node.simulateContract(ask(loose)), "a question to no model");
  assert.deepEqual(contractError(gone), ["ModelChanged", 14]);
}
