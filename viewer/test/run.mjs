// Runs the tests. Unit tests are built first; page tests drive a browser.
import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const parts = ["generated", "steps", "tree", "density", "fading"];
process.chdir(join(dirname(fileURLToPath(import.meta.url)), ".."));
mkdirSync("results", { recursive: true });
await build({
  // esbuild remembers the directory in which it was loaded.
  absWorkingDir: process.cwd(),
  entryPoints: parts.map((name) => `test/${name}.test.ts`),
  outdir: "results/built",
  bundle: true,
  platform: "node",
  format: "esm",
  outExtension: { ".js": ".mjs" },
});
const types = spawnSync("node_modules/.bin/tsc", ["--noEmit"], { stdio: "inherit" });
if (types.status !== 0) process.exit(1);
const files = [...parts.map((name) => `results/built/${name}.test.mjs`), "test/page.test.mjs", "test/look.test.mjs", "test/linked.test.mjs", "test/figure.test.mjs", "test/ink.test.mjs", "test/widget.test.mjs"];
const run = spawnSync(process.execPath, ["--test", "--test-reporter=tap", "--test-concurrency=1", ...process.argv.slice(2), ...files], { stdio: "inherit" });
process.exit(run.status ?? 1);
