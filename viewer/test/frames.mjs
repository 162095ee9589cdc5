// Measures frame times of the page without a graphics card, compared with an older page: node
// viewer/test/frames.mjs, TABLE=path, OLD=revision or folder of a page, ROUNDS=n, FRAMES=n, BUDGET=points.
//
// Both pages are open in one browser and use one server. They draw in turn, so that other load affects
// both; the ratio is the median of all rounds. The script time of a frame is printed too, because a
// graphics card does not reduce it.

import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { launch, root, serve } from "./browser.mjs";
import { serveOlder } from "./older.mjs";
import { run } from "./visit.mjs";

const [rounds, frames, budget] = [process.env.ROUNDS ?? 15, process.env.FRAMES ?? 10, process.env.BUDGET ?? 250_000].map(Number);

/** The views, and a camera step for each frame. */
const VIEWS = [
  ["three columns, turned", "axes=x,y,z", 1, "turn"],
  ["three columns, three times nearer, turned", "axes=x,y,z", 3, "turn"],
  ["three columns, ten times nearer, turned", "axes=x,y,z", 10, "turn"],
  ["two columns as points, panned", "axes=x,y&mode=points", 1, "pan"],
  ["two columns as points, five times nearer, panned", "axes=x,y&mode=points", 5, "pan"],
  ["two columns as it likes, panned", "axes=x,y", 1, "pan"],
];

/** The example's rows as a table. */
function example(directory) {
  const table = join(directory, "airway.kubist");
  const steps = join(root, "examples/airway/steps");
  run("ingest", table, ...readdirSync(steps).sort().map((name) => join(steps, name)), "--dimensions", "x,y,z", "--identity", "pid,time");
  return table;
}

const middle = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

/** The page with this view, fully loaded and zoomed. */
async function opened(browser, url, view, nearer) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  await page.goto(`${url}#theme=dark&live=0&color=ux&limit=${budget}&${view}`);
  const rested = () => page.waitForFunction(() => {
    const status = window.kubist?.status();
    return status && status.rows > 0 && !status.busy && !status.message;
  }, null, { timeout: 120_000 });
  await rested();
  await page.evaluate((nearer) => {
    const { scene, drawing, requests } = window.kubist;
    const { root } = requests.current.tree;
    const axes = root.low.length;
    const sorted = root.low.map((low, k) => Array.from({ length: root.rows }, (_, row) => root.positions[axes * row + k]).sort((a, b) => a - b)[root.rows >> 1] + low);
    if (nearer > 1) {
      const at = scene.frame.toScene(sorted, scene.camera.position.clone());
      const off = scene.camera.position.clone().sub(scene.controls.target);
      if (scene.camera.isOrthographicCamera) scene.camera.zoom = nearer;
      else off.divideScalar(nearer);
      scene.controls.target.copy(at);
      scene.camera.position.copy(at).add(off);
      scene.camera.updateProjectionMatrix();
      scene.controls.update();
    }
    drawing.invalidate();
  }, nearer);
  await page.waitForTimeout(300);
  await rested();
  return page;
}

/** Mean milliseconds of a frame, and of its script. */
const timed = (page, count, how) =>
  page.evaluate(async ([count, how]) => {
    const { scene, drawing } = window.kubist;
    const { camera, controls } = scene;
    const gl = scene.renderer.getContext();
    const drawn = () => gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4));
    window.turns ??= 0;
    const step = () => {
      // Back and forth, so that no other part of the table is requested.
      const by = window.turns++ % 16 < 8 ? 1 : -1;
      if (how === "turn") {
        const off = camera.position.clone().sub(controls.target).applyAxisAngle(camera.up, 0.01 * by);
        camera.position.copy(controls.target).add(off);
      } else {
        const wide = (0.004 * by * (camera.right - camera.left)) / camera.zoom;
        camera.position.x += wide;
        controls.target.x += wide;
      }
      controls.update();
      drawing.invalidate();
    };
    drawn();
    let scripted = 0;
    const { draw } = Object.getPrototypeOf(drawing);
    drawing.draw = () => {
      const { frames } = drawing;
      const begin = performance.now();
      draw.call(drawing);
      // The call may only have found that the previous frame is not on the screen yet.
      if (drawing.frames > frames) scripted += performance.now() - begin;
    };
    const first = drawing.frames;
    const begin = performance.now();
    while (drawing.frames < first + count) {
      const { frames } = drawing;
      step();
      while (drawing.frames === frames) await new Promise(requestAnimationFrame);
    }
    drawn();
    const took = performance.now() - begin;
    delete drawing.draw;
    return { frame: took / count, script: scripted / count };
  }, [count, how]);

/** Number of drawn points of a page, and of those on the screen. */
const pointsOf = (page) =>
  page.evaluate(() => {
    const { scene, requests } = window.kubist;
    const at = scene.camera.position.clone();
    let [drawn, seen] = [0, 0];
    for (const cell of requests.current.tree.cells) {
      if (!cell.drawn) continue;
      const axes = cell.low.length;
      const rows = cell.count ?? cell.rows;
      drawn += rows;
      for (let row = 0; row < rows; row++) {
        const place = scene.project(scene.frame.toScene(cell.low.map((low, k) => low + cell.positions[axes * row + k]), at));
        if (place && place[0] >= 0 && place[1] >= 0 && place[0] < scene.width && place[1] < scene.height) seen++;
      }
    }
    return { drawn, seen };
  });

const directory = mkdtempSync(join(tmpdir(), "kubist-frames-"));
const table = process.env.TABLE ? resolve(process.env.TABLE) : example(directory);
const server = await serve([table]);
const oldPage = await serveOlder(server.url, directory);
const browser = await launch();
try {
  console.log(`milliseconds of a frame, middle of ${rounds} rounds of ${frames} frames; budget of ${budget} points`);
  for (const [what, view, nearer, how] of VIEWS) {
    const pages = [await opened(browser, oldPage.url, view, nearer), await opened(browser, server.url, view, nearer)];
    for (const page of pages) await timed(page, frames, how);
    const [took, script] = [[[], []], [[], []]];
    for (let round = 0; round < rounds; round++) {
      for (const which of round % 2 ? [1, 0] : [0, 1]) {
        const found = await timed(pages[which], frames, how);
        took[which].push(found.frame);
        script[which].push(found.script);
      }
    }
    const points = await Promise.all(pages.map(pointsOf));
    const ratio = middle(took[1].map((time, k) => time / took[0][k]));
    const each = (ratio * points[0].seen) / points[1].seen;
    const [before, now] = [0, 1].map((which) => `${middle(took[which]).toFixed(0)} (${points[which].drawn} points, ${points[which].seen} on the screen, script ${middle(script[which]).toFixed(1)})`);
    console.log(`${what}: old ${before}, new ${now}: ratio ${ratio.toFixed(2)}, of each point on the screen ${each.toFixed(2)}`);
    for (const page of pages) await page.close();
  }
} finally {
  await browser.close();
  await oldPage.close();
  await server.stop();
  rmSync(directory, { recursive: true, force: true });
}
