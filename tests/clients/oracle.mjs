// viem and Oracle.sol: deploy, ask, read the answer in every way that clients read one.
import assert from "node:assert/strict";
import { createPublicClient, createWalletClient, defineChain, http, parseEventLogs, webSocket } from "viem";
import { privateKeyToAccount } from "viem/accounts";

import { artifact, KEYS, OTHER, rejected, until } from "./lib.mjs";

const Oracle = artifact("Oracle");

/** Clients of the chain for the development account of an index. */
export function viem(world, index) {
  const chain = defineChain({
    id: world.chain.chain_id,
    name: "blue devnet",
    nativeCurrency: { name: "Ether", symbol: "ETH", decimals: 18 },
    rpcUrls: { default: { http: [world.url] } },
  });
  const account = privateKeyToAccount(KEYS[index]);
  const common = { chain, pollingInterval: 50 };
  const node = createPublicClient({ ...common, transport: http(world.url, { retryCount: 0 }) });
  const wallet = createWalletClient({ ...common, account, transport: http(world.url, { retryCount: 0 }) });
  const mined = async (hash) => node.waitForTransactionReceipt({ hash, timeout: 30_000 });
  return { chain, account, node, wallet, mined };
}

/** Deploys a contract and returns its address. */
export async function deploy({ wallet, mined }, { abi, bytecode }, args) {
  const receipt = await mined(await wallet.deployContract({ abi, bytecode, args }));
  assert.equal(receipt.status, "success");
  assert.match(receipt.contractAddress, /^0x[0-9a-f]{40}$/i);
  return receipt.contractAddress;
}

/** The error of a contract in a rejected call of viem. */
export function contractError(error) {
  const found = error.walk?.((e) => e.data?.errorName);
  assert.ok(found, error);
  return [found.data.errorName, ...(found.data.args ?? [])];
}

export async function oracle(world) {
  const clients = viem(world, 1);
  const { account, node, wallet, mined, chain } = clients;
  assert.equal(await node.getChainId(), world.chain.chain_id);
  assert.ok((await node.getBalance({ address: account.address })) > 10n ** 21n);
  const address = await deploy(clients, Oracle, [world.name, world.commitment]);
  const contract = { address, abi: Oracle.abi };
  assert.equal(await node.getCode({ address }).then((code) => code.length > 100), true);
  assert.equal(await node.readContract({ ...contract, functionName: "name" }), world.name);
  assert.equal(await node.readContract({ ...contract, functionName: "commitment" }), world.commitment);

  // Watchers: filters over HTTP, subscriptions over WebSocket.
  const socket = createPublicClient({ chain, transport: webSocket(world.url.replace(/^http/, "ws")) });
  const seen = { http: [], ws: [], blocks: [] };
  const fail = (error) => assert.fail(error);
  const watch = (client, into) =>
    client.watchContractEvent({ ...contract, eventName: "Answered", onLogs: (logs) => into.push(...logs), onError: fail });
  const stops = [
    watch(node, seen.http),
    watch(socket, seen.ws),
    socket.watchBlocks({ onBlock: (block) => seen.blocks.push(block), onError: fail }),
  ];
  const filter = await node.createContractEventFilter({ ...contract, eventName: "Answered", fromBlock: 0n });
  const blockFilter = await node.createBlockFilter();
  // The subscriptions are there when a first block is seen through them.
  await until(async () => {
    await node.request({ method: "evm_mine", params: [] });
    return seen.blocks.length > 0;
  }, "a block over WebSocket");
  await node.getFilterChanges({ filter: blockFilter });

  const asked = [];
  for (const [i, answer] of world.answers.entries()) {
    const args = [answer.prompt, answer.maxNew];
    const call = { ...contract, functionName: "ask", args, account };
    const price = await node.readContract({
      ...contract,
      functionName: "gasToAsk",
      args: [BigInt(answer.prompt.length), answer.maxNew],
    });
    const estimate = await node.estimateContractGas(call);
    assert.ok(estimate > price, `an estimate of ${estimate} is below ${price}`);
    const { result, request } = await node.simulateContract(call);
    assert.equal(result, BigInt(i));
    // The fee market, a fixed price, and what the node estimates.
    const kind = [{ gas: estimate }, { gas: estimate, gasPrice: await node.getGasPrice() }, {}, { type: "eip2930" }][i % 4];
    const receipt = await mined(await wallet.writeContract({ ...request, ...kind }));
    assert.equal(receipt.status, "success");
    assert.ok(receipt.gasUsed <= estimate, `${receipt.gasUsed} gas used, ${estimate} estimated`);
    const [event] = parseEventLogs({ abi: Oracle.abi, logs: receipt.logs, strict: true });
    expectEvent(event, answer, i, account.address);
    const kept = await node.readContract({ ...contract, functionName: "answerOf", args: [BigInt(i)] });
    assert.deepEqual(kept, [account.address, answer.complete, answer.tokens]);
    asked.push({ receipt, answer });
  }
  const last = asked.at(-1).receipt;

  // The answers through logs, by range, by block hash and by the asker.
  const logs = await node.getContractEvents({ ...contract, eventName: "Answered", fromBlock: 0n, strict: true });
  assert.equal(logs.length, asked.length);
  logs.forEach((log, i) => expectEvent(log, world.answers[i], i, account.address));
  const one = { ...contract, eventName: "Answered", strict: true };
  const byHash = await node.getContractEvents({ ...one, blockHash: last.blockHash });
  assert.deepEqual(byHash.map((log) => log.transactionHash), [last.transactionHash]);
  const mine = { asker: account.address };
  assert.equal((await node.getContractEvents({ ...one, args: mine, fromBlock: 0n })).length, asked.length);
  assert.equal((await node.getContractEvents({ ...one, args: { asker: address }, fromBlock: 0n })).length, 0);
  assert.equal((await node.getContractEvents({ ...one, args: { id: [0n, 2n] }, fromBlock: 0n })).length, 2);
  const upToFirst = { fromBlock: 0n, toBlock: asked[0].receipt.blockNumber };
  assert.equal((await node.getContractEvents({ ...one, ...upToFirst })).length, 1);
  assert.equal((await node.getFilterChanges({ filter })).length, asked.length);
  assert.equal((await node.getFilterChanges({ filter })).length, 0);
  assert.equal((await node.getFilterLogs({ filter })).length, asked.length);
  assert.deepEqual(await node.getFilterChanges({ filter: blockFilter }), asked.map(({ receipt }) => receipt.blockHash));
  assert.equal(await node.uninstallFilter({ filter }), true);
  await rejected(node.getFilterChanges({ filter }), "a filter that is gone");
  for (const into of [seen.http, seen.ws]) {
    await until(() => into.length >= asked.length, "a watched event");
    into.forEach((log, i) => expectEvent(log, world.answers[i], i, account.address));
  }
  await until(() => seen.blocks.at(-1)?.hash === last.blockHash, "the newest block over WebSocket");
  stops.forEach((stop) => stop());
  await socket.transport.getRpcClient().then((client) => client.close());

  // Blocks and transactions say the same of it.
  const block = await node.getBlock({ blockHash: last.blockHash, includeTransactions: true });
  assert.equal(block.transactions[0].hash, last.transactionHash);
  assert.equal((await node.getTransaction({ hash: last.transactionHash })).blockNumber, last.blockNumber);
  assert.equal(block.gasUsed, last.gasUsed);
  // The state before it has no answer yet.
  const before = { args: [BigInt(asked.length - 1)], blockNumber: last.blockNumber - 1n };
  assert.deepEqual((await node.readContract({ ...contract, functionName: "answerOf", ...before }))[2], []);

  await refusals(world, clients, contract);
}

function expectEvent(event, answer, id, asker) {
  assert.equal(event.eventName, "Answered");
  const { prompt, tokens, complete } = answer;
  assert.deepEqual(event.args, { id: BigInt(id), asker, prompt, tokens, complete });
}

/** Questions that are refused say why, in calls and in blocks. */
async function refusals(world, clients, contract) {
  const { account, node, wallet, mined } = clients;
  const ask = (args, address = contract.address) =>
    node.simulateContract({ ...contract, address, functionName: "ask", args, account });
  const { prompt, maxNew } = world.answers[0];
  const changed = await deploy(clients, Oracle, [world.name, OTHER]);
  assert.deepEqual(contractError(await rejected(ask([prompt, maxNew], changed), "another commitment")), ["ModelChanged", 15]);
  const nameless = await deploy(clients, Oracle, [OTHER, world.commitment]);
  assert.deepEqual(contractError(await rejected(ask([prompt, maxNew], nameless), "another name")), ["ModelChanged", 14]);
  assert.deepEqual(contractError(await rejected(ask([[], 4]), "an empty prompt")), ["QuestionRefused", 12]);
  assert.deepEqual(contractError(await rejected(ask([[2 ** 32 - 1], 4]), "an id of no token")), ["QuestionRefused", 11]);
  const long = contractError(await rejected(ask([Array(3000).fill(1), 1]), "a long prompt"));
  assert.deepEqual(long, ["QuestionRefused", 13]);
  // Less gas than the answer needs: the transaction is mined and did nothing.
  const count = { ...contract, functionName: "count" };
  const [had, gas] = [await node.readContract(count), 60_000n];
  const call = { ...contract, functionName: "ask", args: [prompt, maxNew], gas };
  const receipt = await mined(await wallet.writeContract(call));
  assert.equal(receipt.status, "reverted");
  assert.equal(receipt.logs.length, 0);
  assert.ok(receipt.gasUsed <= gas);
  assert.equal(await node.readContract(count), had);
  const short = contractError(await rejected(node.simulateContract({ ...call, account }), "too little gas"));
  assert.equal(short[0], "TooLittleGas");
}
