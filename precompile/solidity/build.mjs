// Compiles every contract of this folder into artifacts/. With --check: compares, writes nothing, and fails if they differ.
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, "artifacts");
const check = process.argv[2] === "--check";
if (process.argv.length > (check ? 3 : 2)) fail("usage: node build.mjs [--check]");

function fail(text) {
  console.error(text);
  process.exit(1);
}

/** The contract of README.md: compiled, and not kept. */
const README = "README.sol";

/** The compiler, of the version that package.json pins. */
async function compiler() {
  const pinned = JSON.parse(readFileSync(join(here, "package.json"), "utf8")).devDependencies.solc;
  const solc = await import("solc").catch((error) => {
    fail(`the compiler is missing (${error.message}): run npm ci --ignore-scripts in precompile/solidity`);
  });
  const version = solc.default.version();
  if (!version.startsWith(`${pinned}+`)) fail(`the compiler is ${version}, must be ${pinned}: run npm ci --ignore-scripts`);
  return solc.default;
}

function sources() {
  const files = ["", "examples/"].flatMap((folder) =>
    readdirSync(join(here, folder))
      .filter((name) => name.endsWith(".sol"))
      .map((name) => folder + name),
  );
  const found = Object.fromEntries(files.sort().map((name) => [name, { content: readFileSync(join(here, name), "utf8") }]));
  const example = readFileSync(join(here, "README.md"), "utf8").match(/^```solidity\n(.*?)^```$/ms);
  if (!example) fail("README.md holds no contract");
  return { ...found, [README]: { content: example[1] } };
}

/** Names and texts of the artifacts. */
function compile(solc) {
  const input = {
    language: "Solidity",
    sources: sources(),
    settings: {
      evmVersion: "cancun",
      optimizer: { enabled: true, runs: 200 },
      viaIR: false,
      // No hash of the sources' comments in the code.
      metadata: { bytecodeHash: "none" },
      outputSelection: {
        "*": { "*": ["abi", "evm.bytecode.object", "evm.deployedBytecode.object", "evm.methodIdentifiers"] },
      },
    },
  };
  const output = JSON.parse(solc.compile(JSON.stringify(input)));
  if (output.errors?.length) fail(output.errors.map((error) => error.formattedMessage).join("\n"));
  const artifacts = new Map();
  for (const [source, contracts] of Object.entries(output.contracts)) {
    for (const [contractName, { abi, evm }] of Object.entries(contracts)) {
      // Libraries of constants and internal functions leave nothing to call.
      if (abi.length === 0 || source === README) continue;
      const file = `${contractName}.json`;
      if (artifacts.has(file)) fail(`two contracts are called ${contractName}`);
      const artifact = {
        contractName,
        source,
        compiler: solc.version(),
        abi,
        bytecode: `0x${evm.bytecode.object}`,
        deployedBytecode: `0x${evm.deployedBytecode.object}`,
        selectors: evm.methodIdentifiers,
      };
      artifacts.set(file, `${JSON.stringify(artifact, null, 1)}\n`);
    }
  }
  return artifacts;
}

function read(file) {
  try {
    return readFileSync(join(out, file), "utf8");
  } catch {
    return undefined;
  }
}

const artifacts = compile(await compiler());
const old = existsSync(out) ? readdirSync(out).filter((name) => name.endsWith(".json")) : [];
const changed = [...artifacts].filter(([file, text]) => read(file) !== text).map(([file]) => file);
const extra = old.filter((file) => !artifacts.has(file));
if (check) {
  if (changed.length || extra.length) {
    fail(`not what the contracts compile to: ${[...changed, ...extra].join(", ")}\nrun node build.mjs in precompile/solidity`);
  }
  console.log(`${artifacts.size} artifacts are what the contracts compile to`);
} else {
  mkdirSync(out, { recursive: true });
  for (const file of changed) writeFileSync(join(out, file), artifacts.get(file));
  for (const file of extra) rmSync(join(out, file));
  console.log(`${artifacts.size} artifacts, ${changed.length} written, ${extra.length} removed`);
}
