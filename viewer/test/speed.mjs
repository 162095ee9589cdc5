// How soon the page shows points, and how long its frames take: TABLE=path, TIMES=n.

import { launch, serve } from "./browser.mjs";

const [table, times] = [process.env.TABLE, Number(process.env.TIMES ?? 11)];
if (!table) throw new Error("TABLE=path of a table is missing");

const server = await serve([table]);
const browser = await launch();

/** Notes when the card, not only the script, has drawn a cell of points. */
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

/** The page in a window of its own, once it shows points. */
async function open() {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  await page.addInitScript(noteDrawn);
  await page.goto(`${server.url}#theme=dark&budget=200000`);
  await page.waitForFunction(() => typeof window.drawn === "number");
  return page;
}

function print(what, values) {
  values.sort((a, b) => a - b);
  const at = (share) => values[Math.min(values.length - 1, Math.floor(share * values.length))].toFixed(0);
  console.log(`${what}: best ${at(0)}, median ${at(0.5)}, worst ${at(1)} ms, of ${values.length}`);
}

const [sent, soon] = [[], []];
for (let k = 0; k < times; k++) {
  const page = await open();
  sent.push(await page.evaluate(() => window.kubist.status().firstPoints));
  soon.push(await page.evaluate(() => window.drawn));
  await page.close();
}
print("first points given to the card, after the page began", sent);
print("first points drawn, after the page began", soon);

const page = await open();
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
  // Until the card has drawn the last one.
  const gl = app.scene.renderer.getContext();
  gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4));
  return [(performance.now() - begin) / 60, drawn.map((at, k) => at - (drawn[k - 1] ?? begin))];
});
const { rows } = await page.evaluate(() => window.kubist.status());
print(`frames of ${rows} points while others arrive and the camera turns, ${frames[0].toFixed(0)} ms each until they are drawn`, frames[1]);

await browser.close();
await server.stop();
