// The main story with ethers.
import assert from "node:assert/strict";
import { Contract, ContractFactory, JsonRpcProvider, Wallet, WebSocketProvider } from "ethers";

import { artifact, INFERENCE, KEYS, OTHER, rejected, until } from "./lib.mjs";

const Oracle = artifact("Oracle");

export async function ethers(world) {
  const provider = new JsonRpcProvider(world.url, undefined, { pollingInterval: 50, cacheTimeout: -1 });
  const socket = new WebSocketProvider(world.url.replace(/^http/, "ws"));
  const signer = new Wallet(KEYS[4], provider);
  const { name, commitment, answers } = world;
  assert.equal((await provider.getNetwork()).chainId, BigInt(world.chain.chain_id));
  const factory = new ContractFactory(Oracle.abi, Oracle.bytecode, signer);
  const oracle = await (await factory.deploy(name, commitment)).waitForDeployment();
  const address = await oracle.getAddress();
  assert.equal(await oracle.commitment(), commitment);

  const seen = { http: [], ws: [] };
  const expected = [];
  await oracle.on("Answered", (...args) => seen.http.push(args));
  await new Contract(address, Oracle.abi, socket).on("Answered", (...args) => seen.ws.push(args));
  for (const [i, { prompt, maxNew, tokens, complete }] of answers.entries()) {
    const estimate = await oracle.ask.estimateGas(prompt, maxNew);
    assert.equal(await oracle.ask.staticCall(prompt, maxNew), BigInt(i));
    const sent = await oracle.ask(prompt, maxNew);
    const receipt = await sent.wait(1, 30_000);
    assert.equal(receipt.status, 1);
    assert.ok(receipt.gasUsed <= estimate);
    const { args } = receipt.logs[0];
    const event = [BigInt(i), signer.address, prompt.map(BigInt), tokens.map(BigInt), complete];
    assert.deepEqual(args.toArray(true), event);
    const kept = await oracle.answerOf(i);
    assert.deepEqual(kept.toArray(true), [signer.address, complete, tokens.map(BigInt)]);
    expected.push(event);
  }
  const logs = await oracle.queryFilter(oracle.filters.Answered(null, signer.address), 0);
  assert.deepEqual(logs.map((log) => log.args.toArray(true)), expected);
  for (const events of [seen.http, seen.ws]) {
    await until(() => events.length >= expected.length, "a watched event");
    events.forEach((args, i) => assert.equal(args[0], expected[i][0]));
  }

  const inference = new Contract(INFERENCE, artifact("IInference").abi, provider);
  const [{ prompt, maxNew, tokens }] = answers;
  const [generated] = await inference.generate(name, commitment, prompt, maxNew);
  assert.deepEqual(generated.toArray(), tokens.map(BigInt));
  assert.equal(await inference.verify(name, commitment, prompt, maxNew, tokens), true);
  const refused = await rejected(inference.generate(name, OTHER, prompt, maxNew), "another commitment");
  assert.equal(refused.code, "CALL_EXCEPTION");
  assert.deepEqual([refused.revert.name, refused.revert.args[0]], ["Refused", 15n]);
  const changed = await (await factory.deploy(name, OTHER)).waitForDeployment();
  for (const ask of [changed.ask.staticCall, changed.ask.estimateGas, changed.ask]) {
    const error = await rejected(ask(prompt, maxNew), "a question to another model");
    const found = error.revert ?? changed.interface.parseError(error.data ?? error.info.error.data);
    assert.deepEqual([found.name, found.args[0]], ["ModelChanged", 15n]);
  }
  await oracle.removeAllListeners();
  provider.destroy();
  await socket.destroy();
}
