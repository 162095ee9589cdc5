// Measures the processor time of the page per frame at 2 million points and 60 frames per second: node
// viewer/test/share.mjs, POINTS=n, ROUNDS=n, FRAMES=n, PAGE=folder of another page.
//
// Drawing commands are discarded. The CPU times are for the script alone and for the page's whole thread
// (style, layout, overlay texts), so other programs do not count.

import { createWriteStream, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { once } from "node:events";
import { launch, serve } from "./browser.mjs";
import { newPage, run, settled } from "./visit.mjs";

const [points, rounds, frames] = [process.env.POINTS ?? 2_000_000, process.env.ROUNDS ?? 7, process.env.FRAMES ?? 60].map(Number);
/** Milliseconds of a frame at 60 per second. */
const FRAME = 1000 / 60;

/** A table with a dense cloud and a thin sheet, half each. */
async function made(directory) {
  const file = join(directory, "points.csv");
  const out = createWriteStream(file);
  out.write("id,x,y,z,a\n");
  let state = 1;
  const draw = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
  for (let id = 0; id < points; ) {
    const lines = [];
    for (const end = Math.min(points, id + 20_000); id < end; id++) {
      const [x, y, z] = id % 2 ? [draw() ** 2, draw() ** 2, draw()] : [draw(), draw(), 0.5 + 0.01 * draw()];
      lines.push(`${id},${x.toFixed(6)},${y.toFixed(6)},${z.toFixed(6)},${(x + z).toFixed(4)}`);
    }
    if (!out.write(`${lines.join("\n")}\n`)) await once(out, "drain");
  }
  out.end();
  await once(out, "close");
  const table = join(directory, "points.kubist");
  run("ingest", table, file, "--dimensions", "x,y,z", "--identity", "id");
  return table;
}

const middle = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

const directory = mkdtempSync(join(tmpdir(), "kubist-share-"));
let server, browser;
try {
  server = await serve([await made(directory)]);
  browser = await launch();
  const page = await newPage(browser, { viewport: { width: 1280, height: 800 } });
  await page.addInitScript(() => {
    for (const name of ["drawArrays", "drawElements"]) WebGL2RenderingContext.prototype[name] = () => {};
  });
  await page.goto(`${server.url}#axes=x,y,z&color=a&limit=${points}&live=0&theme=dark`);
  const { rows, drawnCells } = await settled(page);
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Performance.enable", { timeDomain: "threadTicks" });
  const spent = async () => {
    const { metrics } = await cdp.send("Performance.getMetrics");
    return ["ScriptDuration", "TaskDuration"].map((name) => 1000 * metrics.find((metric) => metric.name === name).value);
  };
  /** Rotates the camera back and forth, one step per frame. */
  const turned = () => page.evaluate(async (frames) => {
    const { scene: { camera, controls }, drawing } = window.kubist;
    for (let turn = 0; turn < frames; turn++) {
      const off = camera.position.clone().sub(controls.target).applyAxisAngle(camera.up, turn % 32 < 16 ? 0.01 : -0.01);
      camera.position.copy(controls.target).add(off);
      controls.update();
      const { frames: before } = drawing;
      drawing.invalidate();
      while (drawing.frames === before) await new Promise(requestAnimationFrame);
    }
  }, frames);
  await turned();
  const [script, all] = [[], []];
  for (let round = 0; round < rounds; round++) {
    const before = await spent();
    await turned();
    const after = await spent();
    script.push((after[0] - before[0]) / frames);
    all.push((after[1] - before[1]) / frames);
  }
  const told = (values) => `${middle(values).toFixed(1)} ms (${((100 * middle(values)) / FRAME).toFixed(0)} % of ${FRAME.toFixed(1)} ms; from ${Math.min(...values).toFixed(1)} to ${Math.max(...values).toFixed(1)})`;
  console.log(`${rows} points in ${drawnCells.length} cells, middle of ${rounds} rounds of ${frames} frames: script ${told(script)}, all of the page's thread ${told(all)}`);
} finally {
  await browser?.close();
  await server?.stop();
  rmSync(directory, { recursive: true, force: true });
}
