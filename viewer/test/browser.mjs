// A browser with software rendering, and a server of tables.

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { fromDisk } from "./disk.mjs";

const here = dirname(fileURLToPath(import.meta.url));
export const root = resolve(here, "../..");
export const kubist = process.env.KUBIST ?? join(root, "target/release/kubist");
const browsers = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];
export const found = [process.env.CHROMIUM, ...browsers.map((name) => `/usr/bin/${name}`)].find((path) => path && existsSync(path));

/** Starts a server. With PAGE=folder the page comes from that folder. */
export async function serve(tables, port = 0) {
  if (!process.env.PAGE) return start(tables, port);
  const server = await start(tables, 0);
  const page = await fromDisk(resolve(process.env.PAGE), server.url, port);
  const stop = () => Promise.all([page.close(), server.stop()]);
  return { url: page.url, port: Number(new URL(page.url).port), stop };
}

async function start(tables, port) {
  const child = spawn(kubist, ["view", ...tables, "--port", String(port)], { stdio: ["ignore", "pipe", "inherit"] });
  const url = await new Promise((done, failed) => {
    let text = "";
    child.stdout.on("data", (part) => {
      text += part;
      if (text.includes("\n")) done(text.trim());
    });
    child.on("exit", (code) => failed(new Error(`kubist view ended with ${code}`)));
  });
  const stop = () => new Promise((done) => (child.once("exit", done), child.kill("SIGTERM")));
  return { url, port: Number(new URL(url).port), stop };
}

export function launch() {
  const software = ["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"];
  return chromium.launch({ executablePath: found, args: ["--no-sandbox", ...software] });
}
