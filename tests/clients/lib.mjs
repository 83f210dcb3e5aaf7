// What every part needs: programs, artifacts, known answers.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export const here = dirname(fileURLToPath(import.meta.url));
export const solidity = join(here, "../../precompile/solidity");
export const REGISTRY = "0x0300000000000000000000000000000000000002";
export const INFERENCE = "0x0300000000000000000000000000000000000003";
export const ZERO = `0x${"0".repeat(64)}`;
/** A commitment of no model. */
export const OTHER = `0x${"ab".repeat(32)}`;

/** The development keys of anvil and hardhat, which a development chain makes rich; the first is the registry's admin. */
export const KEYS = [
  "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80",
  "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
  "0x5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a",
  "0x7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6",
  "0x47e179ec197488593b187f80a00eb0da91f1b9d0b13f8733639f19c30a34926a",
  "0x8b3a350cf5c34c9194ca85829a2df0ec3153be0318b5e2d3348e872092edffba",
];

export function artifact(name) {
  const found = JSON.parse(readFileSync(join(solidity, "artifacts", `${name}.json`), "utf8"));
  const bytecode = found.bytecode.startsWith("0x") ? found.bytecode : `0x${found.bytecode}`;
  return { abi: found.abi, bytecode };
}

/** Runs a program to its end: exit code, standard output, standard error. */
export function run(program, args, options = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
    let [stdout, stderr] = ["", ""];
    child.stdout.on("data", (data) => (stdout += data));
    child.stderr.on("data", (data) => (stderr += data));
    child.on("error", reject);
    child.on("close", (code) => resolve({ code, stdout, stderr }));
  });
}

/** Standard output of a run that must succeed. */
export async function output(program, args, options) {
  const { code, stdout, stderr } = await run(program, args, options);
  const said = args.map((arg) => (arg.length > 100 ? `${arg.slice(0, 100)}…` : arg)).join(" ");
  assert.equal(code, 0, `${program} ${said}\n${stderr}${stdout}`);
  return stdout.trim();
}

/** The path of a Foundry program: not that of the package's script, which ends with 0 whatever the program does. */
export function tool(name) {
  const arch = process.arch === "x64" ? "amd64" : process.arch;
  return join(here, `node_modules/@foundry-rs/${name}-${process.platform}-${arch}/bin/${name}`);
}

/** The command under test. */
export class Blue {
  constructor(program) {
    this.program = program;
  }

  /** The JSON of a run that ends with `code`. */
  async json(args, code = 0) {
    const ran = await run(this.program, [...args, "--json"]);
    assert.equal(ran.code, code, `blue ${args.join(" ")}\n${ran.stderr}${ran.stdout}`);
    return JSON.parse(ran.stdout);
  }

  /** Standard error of a run that ends with `code`. */
  async error(args, code) {
    const ran = await run(this.program, args);
    assert.equal(ran.code, code, `blue ${args.join(" ")}\n${ran.stderr}${ran.stdout}`);
    return ran.stderr;
  }

  text(args) {
    return output(this.program, args);
  }

  /** What the command that knows no chain answers: the truth for all clients. */
  async generate(prompt, maxNew, blob) {
    const from = Array.isArray(prompt) ? ["--tokens", prompt.join(",")] : ["--prompt", prompt];
    const args = ["generate", ...(blob ? [blob] : []), ...from, "--max-new", `${maxNew}`];
    const said = await this.json(args);
    return {
      prompt: said.prompt_ids,
      maxNew,
      tokens: said.output_ids,
      text: said.text,
      complete: said.finish === "stop",
      commitment: said.commitment,
    };
  }
}

/** Asserts that a promise is rejected, and returns why. */
export async function rejected(promise, what) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  assert.fail(`${what} was accepted`);
}

/** Waits until `ready` gives something, at most so many milliseconds. */
export async function until(ready, what, limit = 15_000) {
  const start = Date.now();
  for (;;) {
    const found = await ready();
    if (found) return found;
    assert.ok(Date.now() - start < limit, `${what} did not happen within ${limit} ms`);
    await new Promise((wake) => setTimeout(wake, 25));
  }
}
