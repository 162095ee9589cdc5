// Records docs/explorer.webp, a short film of the page: a simulation writes, a user zooms and queries. node
// scripts/recording.mjs, with KUBIST=path of the command.

import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { launch, root, serve } from "../viewer/test/browser.mjs";
import { run, settled } from "../viewer/test/visit.mjs";

const SIZE = { width: 880, height: 540 };
/** Quality of the browser's WebP encoder, from 0 to 1. */
const QUALITY = 0.55;
const STEPS = join(root, "examples/airway/steps");

const number = (value, bytes) => Buffer.from(Array.from({ length: bytes }, (_, k) => Math.floor(value / 256 ** k) % 256));
const chunk = (name, data) => Buffer.concat([Buffer.from(name), number(data.length, 4), data, Buffer.alloc(data.length % 2)]);

/** The image chunk of a WebP file, without the colour profile that browsers add. */
function pictureIn(webp) {
  for (let at = 12; at < webp.length; ) {
    const length = webp.readUInt32LE(at + 4);
    const end = at + 8 + length + (length % 2);
    if (webp.toString("latin1", at, at + 4) === "VP8 ") return webp.subarray(at, end);
    at = end;
  }
  throw new Error("the browser's WebP has no picture");
}

/** Combines WebP images into an animation: developers.google.com/speed/webp/docs/riff_container. */
function animated(frames, { width, height }) {
  const size = [number(width - 1, 3), number(height - 1, 3)];
  const parts = frames.map(({ webp, milliseconds }) => chunk("ANMF", Buffer.concat([number(0, 6), ...size, number(milliseconds, 3), number(0, 1), pictureIn(webp)])));
  const all = [Buffer.from("WEBP"), chunk("VP8X", Buffer.concat([number(2, 4), ...size])), chunk("ANIM", number(0, 6)), ...parts];
  return chunk("RIFF", Buffer.concat(all));
}

const directory = mkdtempSync(join(tmpdir(), "kubist-recording-"));
const browser = await launch();
const frames = [];
try {
  const table = join(directory, "airway.kubist");
  const files = readdirSync(STEPS).sort().map((name) => join(STEPS, name));
  const units = "x=m,y=m,z=m,time=s,ux=m/s,diameter=m";
  run("ingest", table, files[0], "--dimensions", "x=0:0.22,y=-0.21:0.21,z=0:0.02,time=0:1", "--identity", "pid,time", "--create", `units=${units}`);
  const server = await serve([table]);
  const page = await browser.newPage({ viewport: SIZE });
  const encoder = await browser.newPage();
  const view = "theme=dark&axes=y,x,z&color=ux&where=NOT+deposited&shaded=1&size=2.6&budget=120000&range=-0.1..4.5";
  await page.goto(`${server.url}#${view}`);

  /** A screenshot, once everything is drawn. */
  const take = async (milliseconds) => {
    await settled(page, (status) => status.rows > 0 && !status.second.busy);
    const drawn = await page.evaluate(() => (window.kubist.drawing.invalidate(), window.kubist.drawing.frames));
    await page.waitForFunction((drawn) => window.kubist.drawing.frames > drawn && window.kubist.scene.isDrawn(), drawn);
    const png = (await page.screenshot({ timeout: 120_000 })).toString("base64");
    const webp = await encoder.evaluate(async ([png, quality]) => {
      const image = new Image();
      image.src = `data:image/png;base64,${png}`;
      await image.decode();
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [image.width, image.height];
      canvas.getContext("2d", { alpha: false }).drawImage(image, 0, 0);
      return canvas.toDataURL("image/webp", quality).split(",")[1];
    }, [png, QUALITY]);
    frames.push({ webp: Buffer.from(webp, "base64"), milliseconds });
  };

  await take(900);
  for (const file of files.slice(1)) {
    const before = await page.evaluate(() => window.kubist.status().version);
    run("ingest", table, file);
    await settled(page, (status) => status.version !== before);
    await take(150);
  }
  await take(900);
  for (let turn = 0; turn < 9; turn++) {
    await page.mouse.move(370, 190);
    await page.mouse.wheel(0, -160);
    await take(110);
  }
  await take(700);
  await page.locator(".stage canvas").first().focus();
  await page.keyboard.press("v");
  await take(900);
  // Estimates with intervals for all rows, exact values for the few in a box.
  await settled(page, (status) => status.figures !== null);
  await page.getByLabel("estimates").scrollIntoViewIfNeeded();
  await take(1800);
  await page.keyboard.press("b");
  await settled(page, (status) => status.inRoi !== null && status.figures !== null);
  await page.getByLabel("estimates").scrollIntoViewIfNeeded();
  await take(2500);
  await server.stop();
} finally {
  await browser.close();
  rmSync(directory, { recursive: true, force: true });
}
const film = animated(frames, SIZE);
writeFileSync(join(root, "docs/explorer.webp"), film);
console.log(`docs/explorer.webp: ${frames.length} pictures, ${(film.length / 1e6).toFixed(2)} MB`);
