// Measures the time to the first points and the frame times, compared with an older page: TABLE=path,
// TIMES=n, OLD=revision or folder of a page. The pages open in turn, so that other load affects both;
// ratios are medians of all pairs.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { launch, serve } from "./browser.mjs";
import { serveOlder } from "./older.mjs";

const [table, times] = [process.env.TABLE, Number(process.env.TIMES ?? 11)];
if (!table) throw new Error("TABLE=path of a table is missing");

const directory = mkdtempSync(join(tmpdir(), "kubist-speed-"));
const server = await serve([table]);
const older = await serveOlder(server.url, directory);
const browser = await launch();

/** Records when the card, not only the script, has drawn a cell of points. */
function noteDrawn() {
  const { prototype } = WebGL2RenderingContext;
  const draw = prototype.drawArrays;
  prototype.drawArrays = function (mode, first, count) {
    draw.call(this, mode, first, count);
    if (window.drawn !== undefined || mode !== this.POINTS || count < 1000) return;
    window.drawn = null;
    queueMicrotask(() => {
      this.readPixels(0, 0, 1, 1, this.RGBA, this.UNSIGNED_BYTE, new Uint8Array(4));
      window.drawn = performance.now();
    });
  };
}

/** Opens the page in its own window and waits for points. */
async function open(url) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  await page.addInitScript(noteDrawn);
  await page.goto(`${url}#theme=dark&limit=200000`);
  await page.waitForFunction(() => typeof window.drawn === "number");
  return page;
}

function print(what, values) {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))].toFixed(0);
  console.log(`${what}: best ${at(0)}, median ${at(0.5)}, worst ${at(1)} ms, of ${sorted.length}`);
}

const middle = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

const pages = { before: older.url, now: server.url };
const [sent, soon] = [0, 1].map(() => ({ before: [], now: [] }));
for (let k = 0; k <= times; k++) {
  for (const which of k % 2 ? ["before", "now"] : ["now", "before"]) {
    const page = await open(pages[which]);
    const [given, drawn] = await page.evaluate(() => [window.kubist.status().firstPoints, window.drawn]);
    if (k > 0) {
      sent[which].push(given);
      soon[which].push(drawn);
    }
    await page.close();
  }
}
for (const [what, { before, now }] of [["first points given to the card, after the page began", sent], ["first points drawn, after the page began", soon]]) {
  print(what, now);
  print(`${what}, of the older page`, before);
  console.log(`${what}: ${middle(now.map((time, k) => time / before[k])).toFixed(2)} times as late as on the older page`);
}

const page = await open(server.url);
await page.waitForFunction(() => window.kubist.status().rows > 150000);
const frames = await page.evaluate(async () => {
  const app = window.kubist;
  const drawn = [];
  app.requests.reload();
  const begin = performance.now();
  const before = app.drawing.frames;
  while (app.drawing.frames < before + 60) {
    app.scene.controls.rotateLeft?.(0.02);
    app.drawing.invalidate();
    const frame = app.drawing.frames;
    await new Promise(requestAnimationFrame);
    if (app.drawing.frames > frame) drawn.push(performance.now());
  }
  const gl = app.scene.renderer.getContext();
  gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4));
  return [(performance.now() - begin) / 60, drawn.map((at, k) => at - (drawn[k - 1] ?? begin))];
});
const { rows } = await page.evaluate(() => window.kubist.status());
print(`frames of ${rows} points while others arrive and the camera turns, ${frames[0].toFixed(0)} ms each until they are drawn`, frames[1]);

await browser.close();
await older.close();
await server.stop();
rmSync(directory, { recursive: true, force: true });
