// A development chain as a child process.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

/** Starts `blue devnet` on a free port; resolves when it answers. */
export async function start(program, args) {
  const child = spawn(program, ["devnet", "--port", "0", "--json", ...args], { stdio: ["ignore", "pipe", "pipe"] });
  let stderr = "";
  child.stderr.on("data", (data) => (stderr += data));
  const ended = new Promise((resolve) => child.on("close", (code, signal) => resolve(signal ?? code)));
  const lines = createInterface({ input: child.stdout });
  const first = await Promise.race([
    new Promise((resolve) => lines.once("line", resolve)),
    ended.then((code) => assert.fail(`blue devnet ended with ${code}: ${stderr}`)),
  ]);
  return {
    ...JSON.parse(first),
    /** Ends it and asserts that it ends well. */
    async stop() {
      child.kill("SIGTERM");
      assert.equal(await ended, 0, `blue devnet after SIGTERM: ${stderr}`);
      assert.ok(!stderr.includes("panicked"), stderr);
    },
    kill: () => child.kill("SIGKILL"),
  };
}
