// Takes the screenshots of the explorer page for README and docs, from the example's rows: node
// scripts/pictures.mjs [TABLE VIEW FILE]..., with KUBIST=path of the command. Without arguments it writes
// docs/explorer.png and docs/densities.png. A VIEW is the part after # of the page's address.

import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { launch, root, serve } from "../viewer/test/browser.mjs";
import { run, settled } from "../viewer/test/visit.mjs";

const SIZE = { width: 1360, height: 800 };

/** The example's rows as a table in this folder. */
function airway(directory) {
  const table = join(directory, "airway.kubist");
  const steps = join(root, "examples/airway/steps");
  const files = readdirSync(steps).sort().map((name) => join(steps, name));
  const units = "x=m,y=m,z=m,time=s,ux=m/s,uy=m/s,uz=m/s,diameter=m";
  run("ingest", table, ...files, "--dimensions", "x,y,z,time", "--identity", "pid,time", "--create", `units=${units}`);
  run("optimize", table);
  return table;
}

/**
 * Screenshots of the example: droplets at one time coloured by speed, with a plot of speed over time; and a
 * density map.
 */
const EXAMPLE = [
  ["theme=dark&axes=y,x,z&color=ux&where=NOT+deposited&time=time%3D0.3..0.6&second=series,time,ux&shaded=1&fog=0.5&size=2.6&budget=60000", "docs/explorer.png"],
  ["theme=dark&axes=y,x&mode=density&budget=600000", "docs/densities.png"],
];

const directory = mkdtempSync(join(tmpdir(), "kubist-pictures-"));
const browser = await launch();
try {
  const asked = process.argv.slice(2);
  const table = asked.length > 0 ? null : airway(directory);
  const pictures = table ? EXAMPLE.map(([view, file]) => [table, view, join(root, file)]) : [];
  for (let at = 0; at + 2 < asked.length; at += 3) pictures.push(asked.slice(at, at + 3));
  for (const [from, view, file] of pictures) {
    const server = await serve([from]);
    const page = await browser.newPage({ viewport: SIZE });
    await page.goto(`${server.url}#${view}`);
    // Everything is loaded, shown in the status line, and drawn.
    await settled(page, (status) => status.rows > 0 && !status.second.busy && status.figures !== null);
    await page.waitForFunction(() => document.querySelector(".dot").className === "dot");
    const drawn = await page.evaluate(() => (window.kubist.drawing.invalidate(), window.kubist.drawing.frames));
    await page.waitForFunction((drawn) => window.kubist.drawing.frames > drawn && window.kubist.scene.isDrawn(), drawn);
    await page.screenshot({ path: resolve(file), timeout: 120_000 });
    console.log(file);
    await page.close();
    await server.stop();
  }
} finally {
  await browser.close();
  rmSync(directory, { recursive: true, force: true });
}
