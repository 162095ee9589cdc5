// How soon the page shows points, and how long its frames take: TABLE=path, TIMES=n.

import { launch, serve } from "./browser.mjs";

const [table, times] = [process.env.TABLE, Number(process.env.TIMES ?? 11)];
if (!table) throw new Error("TABLE=path of a table is missing");

const server = await serve([table]);
const browser = await launch();

/** The page in a window of its own, once it shows points. */
async function open() {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  await page.goto(`${server.url}#theme=dark&budget=200000`);
  await page.waitForFunction(() => window.kubist?.status().firstPoints != null);
  return page;
}

function told(what, values) {
  values.sort((a, b) => a - b);
  const at = (share) => values[Math.min(values.length - 1, Math.floor(share * values.length))].toFixed(0);
  console.log(`${what}: best ${at(0)}, median ${at(0.5)}, worst ${at(1)} ms, of ${values.length}`);
}

const soon = [];
for (let k = 0; k < times; k++) {
  const page = await open();
  soon.push(await page.evaluate(() => window.kubist.status().firstPoints));
  await page.close();
}
told("first points after the page began", soon);

const page = await open();
await page.waitForFunction(() => window.kubist.status().rows > 150000);
const frames = await page.evaluate(async () => {
  const app = window.kubist;
  const took = [];
  app.refill();
  let last = await new Promise(requestAnimationFrame);
  for (let k = 0; k < 60; k++) {
    app.scene.controls.rotateLeft?.(0.02);
    app.invalidate();
    const now = await new Promise(requestAnimationFrame);
    took.push(now - last);
    last = now;
  }
  return took;
});
const { rows } = await page.evaluate(() => window.kubist.status());
told(`frames of ${rows} points while others arrive and the camera turns`, frames);

await browser.close();
await server.stop();
