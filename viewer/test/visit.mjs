// Opens the page in its own tab, waits for it, and closes it.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { kubist } from "./browser.mjs";

/** Runs the command and returns its output. */
export function run(...argumentsOf) {
  const done = spawnSync(kubist, argumentsOf, { encoding: "utf8" });
  assert.equal(done.status, 0, done.stderr);
  return done.stdout;
}

/** Functions that tests call within a page. */
function lookFromWithin() {
  /** The values of a picture: {data, width, height}, four per pixel. */
  window.valuesOf = (image) => {
    const copy = document.createElement("canvas");
    [copy.width, copy.height] = [image.width, image.height];
    const context = copy.getContext("2d");
    context.drawImage(image, 0, 0);
    return context.getImageData(0, 0, copy.width, copy.height);
  };
  /** The picture of the points, without the box around them. */
  window.pictured = () => {
    const { scene, drawing } = window.kubist;
    scene.box.visible = false;
    drawing.paint();
    return window.valuesOf(scene.canvas);
  };
  /** The screen position of a table position, in pixels. */
  window.placed = (point) => {
    const { scene } = window.kubist;
    return scene.project(scene.frame.toScene(point, scene.camera.position.clone()));
  };
}

/** Timeout in milliseconds, far more than a busy machine needs. */
export const LONGEST = 120_000;

/** A page with test functions; errors in it are recorded. */
export async function newPage(browser, options) {
  const page = await browser.newPage(options);
  page.setDefaultTimeout(LONGEST);
  page.failures = [];
  page.on("pageerror", (error) => page.failures.push(String(error)));
  await page.addInitScript(lookFromWithin);
  return page;
}

/** Opens this URL with this view and waits until it is loaded; with few points, software rendering is fast. */
export async function visit(browser, url, view = "", options = {}) {
  const page = await newPage(browser, { viewport: { width: 1280, height: 800 }, ...options });
  await page.goto(`${url}#theme=dark${/\blimit=/.test(view) ? "" : "&limit=40000"}&${view}`);
  await settled(page);
  return page;
}

/** The page's state once nothing more is to come and `what` holds. */
export async function settled(page, what = (status) => status.rows > 0) {
  for (const begin = Date.now(); ; ) {
    // All of it may be some megabytes, and frequent requests would keep the page from drawing.
    const isReady = await page.evaluate(() => {
      const status = window.kubist?.status();
      return Boolean(status) && !status.busy && !status.message && status.total !== null;
    });
    const status = isReady ? await page.evaluate(() => window.kubist.status()) : null;
    if (status && !status.busy && what(status)) return status;
    if (Date.now() - begin > LONGEST) {
      const last = await page.evaluate(() => window.kubist?.status());
      assert.fail(`still waiting: ${JSON.stringify({ ...last, drawnCells: 0, second: 0 })} ${page.failures}`);
    }
    await page.waitForTimeout(40);
  }
}

export const status = (page) => page.evaluate(() => window.kubist.status());

export async function close(page) {
  assert.deepEqual(page.failures, []);
  await page.close();
}
