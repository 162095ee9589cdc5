// An older page for comparison.

import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, symlinkSync } from "node:fs";
import { join, resolve } from "node:path";
import { root } from "./browser.mjs";
import { fromDisk } from "./disk.mjs";

/** The last revision without point weights. */
const BEFORE = "790439cd";

/** The folder of the built page of this revision. */
function built(revision, directory) {
  const to = join(directory, "old");
  mkdirSync(to);
  execFileSync("tar", ["x", "-C", to], { input: execFileSync("git", ["-C", root, "archive", revision, "viewer"], { maxBuffer: 1 << 28 }) });
  symlinkSync(join(root, "viewer/node_modules"), join(to, "viewer/node_modules"));
  const done = spawnSync(process.execPath, ["build.mjs"], { cwd: join(to, "viewer"), encoding: "utf8" });
  if (done.status !== 0) throw new Error(`the page of ${revision} cannot be built: ${done.stderr}`);
  return join(to, "viewer/dist");
}

/** Serves the older page (OLD=revision or folder of a page) in front of the server at this URL. */
export function serveOlder(url, directory) {
  const old = process.env.OLD ?? BEFORE;
  return fromDisk(existsSync(join(old, "app.js")) ? resolve(old) : built(old, directory), url, 0);
}
