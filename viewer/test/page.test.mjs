// The page in a real browser, with a real server and the example's droplets.

import assert from "node:assert/strict";
import { cpSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { found, launch, root, serve } from "./browser.mjs";
import { compare } from "./compare.mjs";
import { close, LONGEST, run, settled as arrived, status, visit } from "./visit.mjs";

const steps = join(root, "examples/airway/steps");
const skip = found ? false : "no Chromium here: apt-get install chromium-headless-shell, or say CHROMIUM=path";

describe("the page", { skip }, () => {
  let directory, table, server, browser;

  before(async () => {
    directory = mkdtempSync(join(tmpdir(), "kubist-page-"));
    table = join(directory, "airway.kubist");
    const files = readdirSync(steps).sort().map((name) => join(steps, name));
    const dimensions = "x=0:0.22,y=-0.21:0.21,z=0:0.02,time=0:1";
    const unit = ["x", "y", "z"].map((axis) => `${axis}=m`).concat("time=s", "ux=m/s", "diameter=m").join(",");
    // The last step arrives later, as from a running simulation.
    run("ingest", table, ...files.slice(0, -1), "--dimensions", dimensions, "--identity", "pid,time", "--create", `units=${unit}`);
    server = await serve([table]);
    browser = await launch();
  });

  after(async () => {
    await browser?.close();
    await server?.stop();
    rmSync(directory, { recursive: true, force: true });
  });

  const open = (view = "", options = {}) => visit(browser, options.url ?? server.url, view, options);
  const settled = (page, what = () => true) => arrived(page, (status) => status.rows > 0 && what(status));

  const post = async (path, body) =>
    fetch(`${server.url}v1/tables/airway/${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  const count = async (body) => (await (await post("count", body)).json()).count;

  /** Expected and actual positions of rows in the picture. */
  async function picture(page, axes, region) {
    const text = await (await post("query", { ...region, columns: axes, format: "csv" })).text();
    const records = text.trim().split("\n").slice(1).map((line) => line.split(",").map(Number));
    return compare(page, records);
  }

  test("draws what the query returns", async (t) => {
    for (const axes of [["x", "y", "z"], ["x", "y"], ["time", "diameter"]]) {
      const page = await open(`axes=${axes}&stretch=${axes[0] === "time" ? 1 : 0}&where=pid+%3C+1500&limit=2000000&mode=points`);
      const seen = await picture(page, axes, { where: "pid < 1500", sample: (await status(page)).fraction[0] });
      t.diagnostic(`${axes}: ${JSON.stringify(seen)}`);
      assert(seen.inside > 3000);
      assert(seen.drawn >= 0.995 * seen.inside, "a record of the answer is not on the screen");
      assert((await status(page)).fraction[0] < 1 || seen.stray === 0, "something is drawn where no record is");
      await close(page);
    }
  });

  test("points come soon, and drawing them is cheap", async (t) => {
    const page = await open("limit=260000");
    const { firstPoints, rows } = await status(page);
    const { calls, drawnCells } = await status(page);
    assert(calls <= drawnCells.length + 3, `${calls} calls for ${drawnCells.length} cells`);
    const took = await page.evaluate(async () => {
      const app = window.kubist;
      const times = [];
      app.requests.reload();
      let last = performance.now();
      while (times.length < 16) {
        app.scene.controls.rotateLeft?.(0.02);
        app.drawing.invalidate();
        const { frames } = app.drawing;
        const now = await new Promise(requestAnimationFrame);
        // A frame starts after the previous one is on the screen.
        if (app.drawing.frames === frames) continue;
        times.push(now - last);
        last = now;
      }
      return times.sort((a, b) => a - b);
    });
    t.diagnostic(`first points ${firstPoints.toFixed(0)} ms after the page began; ${rows} points: frames of ${took[8].toFixed(0)} ms (median), ${took[14].toFixed(0)} ms (worst but one), while more arrive, in software`);
    await close(page);
  });

  test("the first points are asked for once, before the page is there", async () => {
    const page = await browser.newPage();
    const asked = [];
    page.on("request", (request) => {
      if (request.url().endsWith("/points")) asked.push(request.postDataJSON());
    });
    await page.goto(`${server.url}#limit=60000`);
    await page.waitForFunction(() => window.kubist?.status().firstPoints != null);
    const first = asked.filter(({ cells }) => cells.some(({ window }) => window[0] === 0));
    assert.equal(first.length, 1);
    assert.equal(await page.evaluate(() => window.kubistFirst), undefined);
    await page.close();
  });

  test("panning takes away no point that stays in view", async () => {
    const page = await open("limit=120000");
    await page.evaluate(() => {
      const { scene } = window.kubist;
      scene.camera.position.multiplyScalar(0.35);
      scene.controls.update();
    });
    await settled(page);
    await page.mouse.move(450, 400);
    await page.mouse.down({ button: "right" });
    let compared = 0;
    for (let k = 0; k < 14; k++) {
      await page.mouse.move(450 + 30 * Math.sin(k / 2), 400 - 12 * k);
      const lost = await page.evaluate(async () => {
        const app = window.kubist;
        const cells = () => [...app.requests.current.tree.cells].filter((cell) => cell.drawn);
        const before = window.before ?? cells();
        await new Promise(requestAnimationFrame);
        await new Promise(requestAnimationFrame);
        const gone = before.filter((cell) => !cell.drawn && app.scene.eye.pixels(cell) > 1 && cell.depth > 0);
        window.before = cells();
        return { gone: gone.length, kept: before.filter((cell) => cell.drawn).length };
      });
      compared += lost.kept;
      assert.equal(lost.gone, 0);
    }
    await page.mouse.up({ button: "right" });
    assert(compared > 50);
    await settled(page);
    const [received, held] = await page.evaluate(() => {
      const { current } = window.kubist.requests;
      return [current.received, [...current.tree.cells].reduce((rows, cell) => rows + cell.rows, 0)];
    });
    assert.equal(received, held);
    await close(page);
  });

  test("a brush filters at once, then asks", async () => {
    const page = await open("box=diameter%3D..");
    const all = (await status(page)).total;
    assert.equal(all, await count({}));
    const bars = page.locator('[data-column="diameter"] canvas').last();
    const around = await bars.boundingBox();
    await page.mouse.move(around.x + 0.3 * around.width, around.y + 20);
    await page.mouse.down();
    await page.mouse.move(around.x + 0.6 * around.width, around.y + 20, { steps: 4 });
    const [slot] = await page.evaluate(() => [window.kubist.scene.material.uniforms.ranges.value.some((range) => range.x > 0)]);
    assert(slot, "the card hides what the brush leaves out before anything is asked");
    await page.mouse.up();
    const { total, view } = await settled(page, (status) => status.total < all);
    const [filter] = view.filters;
    assert(filter.low > 0 && filter.high > filter.low);
    assert.equal(total, await count({ box: { diameter: [filter.low, filter.high] } }));
    await page.getByLabel("remove the filter diameter").click();
    await settled(page, (status) => status.total === all);
    await close(page);
  });

  test("a wrong condition is told, and the picture stays", async () => {
    const page = await open("");
    const { rows } = await status(page);
    await page.getByLabel("where").fill("diameter >");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.querySelector(".note").textContent.includes("character"));
    assert.equal((await status(page)).rows, rows);
    await page.getByLabel("where").fill("diameter > 2e-5");
    await page.keyboard.press("Enter");
    const { total } = await settled(page, (status) => status.view.where === "diameter > 2e-5");
    assert.equal(total, await count({ where: "diameter > 2e-5" }));
    await close(page);
  });

  test("the box is dragged, counted and exported", async () => {
    const page = await open("");
    await page.locator(".stage canvas").first().focus();
    await page.keyboard.press("b");
    const first = await settled(page, (status) => status.inRoi !== null);
    const handle = await page.locator('[data-side="x:low"]').boundingBox();
    const [x, y] = [handle.x + 7, handle.y + 7];
    const away = await page.evaluate(() => {
      const { scene, state: { view: { roi } } } = window.kubist;
      const at = (value) => window.placed([value, 0, 0.01]);
      const [low, high] = [at(roi.low[0]), at(roi.high[0])];
      return [high[0] - low[0], high[1] - low[1]];
    });
    await page.mouse.move(x, y);
    await page.mouse.down();
    await page.mouse.move(x - 0.4 * away[0], y - 0.4 * away[1], { steps: 5 });
    await page.mouse.up();
    const { inRoi, view } = await settled(page, (status) => status.inRoi !== null && status.view.roi.low[0] < first.view.roi.low[0] - 0.01);
    const box = Object.fromEntries(view.axes.map((axis, k) => [axis, [view.roi.low[k], view.roi.high[k]]]));
    assert.equal(inRoi, await count({ box }));
    assert.notEqual(inRoi, first.inRoi);
    const { figures } = await settled(page, (status) => status.figures !== null);
    const [mean] = figures;
    const truth = (await (await post("estimate", { aggregates: ["mean(ux)"], box, sample: 1 })).json()).figures[0].value;
    // The goal is 1 %, and 95 % intervals may miss, but not by much.
    assert(Math.abs(mean.value - truth) <= 0.05 * Math.abs(truth), `${mean.value} beside ${truth}`);
    await page.waitForFunction(() => /mean\(ux\)\s*-?\d/.test(document.querySelector('[aria-label="estimates"]')?.textContent ?? ""));
    const tall = await page.evaluate(() => [...document.querySelectorAll(".figures td:last-child")].map((cell) => cell.getClientRects()[0].height));
    assert(tall.length > 0 && tall.every((height) => height < 26), `a figure is one line: ${tall}`);
    const line = await page.getByLabel("Python").textContent();
    assert.match(line, /t\.query\(box=\{"x": \(0\.\d/);
    await page.getByLabel("format", { exact: true }).selectOption("csv");
    const link = await page.getByText("Export").getAttribute("href");
    const text = await (await fetch(new URL(link, server.url))).text();
    assert.equal(text.trim().split("\n").length - 1, inRoi);
    await close(page);
  });

  test("a slab alone is shown, counted, and moved by typing its ends", async () => {
    const page = await open("");
    const all = (await status(page)).total;
    await page.getByLabel("slab").selectOption("z");
    const slab = await settled(page, (status) => status.view.clip && status.inRoi !== null && status.total < all);
    assert.equal(slab.total, slab.inRoi);
    const ends = page.locator('[data-side="z"] input');
    await ends.first().fill("0.009");
    await page.keyboard.press("Enter");
    await ends.last().fill("0.011");
    await page.keyboard.press("Enter");
    const { total } = await settled(page, ({ view, inRoi, total }) => view.roi.high[2] === 0.011 && view.roi.low[2] === 0.009 && inRoi === total);
    const { roi, axes } = (await status(page)).view;
    assert.equal(total, await count({ box: Object.fromEntries(axes.map((axis, k) => [axis, [roi.low[k], roi.high[k]]])) }));
    assert(total > 0 && total < all);
    const outside = await page.evaluate(() => {
      const cells = [...window.kubist.requests.current.tree.cells];
      const depths = cells.flatMap((cell) => Array.from({ length: cell.rows }, (_, row) => cell.low[2] + cell.positions[3 * row + 2]));
      return depths.filter((z) => z < 0.009 - 1e-6 || z > 0.011 + 1e-6).length;
    });
    assert.equal(outside, 0, "only the slab's records come");
    assert.match(await page.getByLabel("Python").textContent(), /"z": \(0\.009, 0\.011\)/);
    // While a side is dragged, the card hides points outside before any request.
    await page.keyboard.press("Escape");
    await page.locator(".stage canvas").first().focus();
    await page.keyboard.press("c");
    const whole = await settled(page, (status) => status.total === all);
    assert(!whole.view.clip && whole.view.roi !== null, "the box stays");
    await page.keyboard.press("c");
    await settled(page, (status) => status.total === total);
    await page.waitForFunction(() => /clip=1/.test(location.hash));
    await page.reload();
    assert.equal((await settled(page)).total, total);
    await page.locator(".stage canvas").first().focus();
    await page.keyboard.press("b");
    await settled(page, (status) => status.total === all);
    await close(page);
  });

  test("records inside of a line are counted, and shown alone", async () => {
    const page = await open("axes=x,y&mode=points");
    const all = (await status(page)).total;
    const corners = [[300, 260], [620, 300], [560, 520], [470, 380], [350, 560]];
    await page.mouse.move(...corners[0]);
    await page.keyboard.down("Shift");
    await page.mouse.down();
    for (const corner of corners) await page.mouse.move(...corner, { steps: 6 });
    await page.mouse.up();
    await page.keyboard.up("Shift");
    const { inRoi, view } = await settled(page, (status) => status.view.lasso !== null && status.inRoi !== null);
    assert.equal(view.camera, null, "the camera stays");
    const text = await (await post("query", { columns: ["x", "y"], format: "csv" })).text();
    const records = text.trim().split("\n").slice(1).map((line) => line.split(",").map(Number));
    const inside = ([x, y]) => {
      let odd = false;
      view.lasso.forEach(([ax, ay], k) => {
        const [bx, by] = view.lasso[(k + 1) % view.lasso.length];
        if (ay > y !== by > y && x < ax + ((y - ay) * (bx - ax)) / (by - ay)) odd = !odd;
      });
      return odd;
    };
    const expected = records.filter(inside).length;
    assert(expected > 100 && expected < all, `${expected} of ${all}`);
    // A row on the line may be on either side.
    assert(Math.abs(inRoi - expected) <= 2, `${inRoi} beside ${expected}`);
    await page.getByText("show only the inside", { exact: true }).click();
    const alone = await settled(page, (status) => status.total === inRoi);
    assert(alone.rows <= inRoi);
    await page.waitForFunction(() => /lasso=[^&]+&clip=1/.test(location.hash));
    await page.reload();
    assert.equal((await settled(page)).total, inRoi);
    await page.getByText("✕ remove the lasso").click();
    await settled(page, (status) => status.total === all && status.view.lasso === null);
    await close(page);
  });

  test("a distance is measured from record to record", async () => {
    const page = await open("where=pid+%3C+200");
    const ends = await page.evaluate(() => {
      const { scene, requests: { current } } = window.kubist;
      const on = [];
      for (const cell of current.tree.cells) {
        for (let row = 0; row < cell.count; row++) {
          const at = cell.low.map((low, k) => low + cell.positions[3 * row + k]);
          on.push({ at, place: window.placed(at) });
        }
      }
      on.sort((a, b) => a.place[0] - b.place[0]);
      return [on[0], on.at(-1)];
    });
    await page.locator(".stage canvas").first().focus();
    await page.keyboard.press("m");
    for (const { place } of ends) await page.mouse.click(...place);
    await page.waitForFunction(() => window.kubist.state.view.measure?.length === 2);
    const [mark] = await page.evaluate(() => window.kubist.marking.marks());
    const distance = Math.hypot(...ends[0].at.map((value, k) => value - ends[1].at[k]));
    assert.match(mark.text, / m$/);
    assert(Math.abs(parseFloat(mark.text) / distance - 1) < 0.01, `${mark.text} beside ${distance}`);
    assert(await page.locator(".card").isHidden(), "a click is an end, not a record");
    await page.waitForFunction(() => /measure=/.test(location.hash));
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => window.kubist.state.view.measure === null);
    await close(page);
  });

  test("time is stepped and played", async () => {
    const page = await open("");
    await page.locator(".stage canvas").first().focus();
    const seen = new Set();
    for (let k = 0; k < 3; k++) {
      await page.keyboard.press("ArrowRight");
      const { view, total } = await settled(page, (status) => status.view.time && !seen.has(status.view.time.low));
      seen.add(view.time.low);
      assert.equal(total, await count({ box: { time: [view.time.low, view.time.high] } }));
      const shown = await page.evaluate(() => {
        const { current } = window.kubist.requests;
        const slot = current.spec.columns.findIndex((column) => column.name === "time");
        return [...new Set([...current.tree.cells].flatMap((cell) => [...cell.columns[slot]]))];
      });
      assert.deepEqual(shown, [view.time.low], "only this moment is here");
    }
    await page.getByLabel("play").click();
    await page.waitForFunction((known) => {
      const time = window.kubist.status().view.time;
      (window.played ??= new Set()).add(time.low);
      return window.played.size >= 5;
    }, null, { polling: 20 });
    await page.getByLabel("pause").click();
    await page.keyboard.press("a");
    await settled(page, (status) => status.view.time === null);
    await close(page);
  });

  test("a click tells the record", async () => {
    const page = await open("where=pid+%3C+200");
    const at = await page.evaluate(() => {
      const { scene, requests: { current } } = window.kubist;
      const [cell] = [...current.tree.cells].filter((cell) => cell.drawn && cell.rows > 0);
      const point = cell.low.map((low, k) => low + cell.positions[k]);
      return window.placed(point);
    });
    await page.mouse.click(at[0], at[1]);
    const card = page.locator(".card");
    await card.waitFor({ state: "visible" });
    const text = await card.innerText();
    const pid = Number(/pid\s+(\d+)/.exec(text)[1]);
    assert(pid < 200, text);
    assert.match(text, /diameter\s+\S+/);
    await close(page);
  });

  test("the address keeps the view", async () => {
    const page = await open("axes=x,y&color=diameter&log=1&map=viridis");
    const { view } = await status(page);
    assert.deepEqual([view.axes, view.color, view.log, view.map], [["x", "y"], "diameter", true, "viridis"]);
    await page.getByLabel("colour map").selectOption("magma");
    await page.mouse.move(400, 400);
    await page.mouse.wheel(0, -400);
    await page.waitForFunction(() => location.hash.includes("map=magma") && location.hash.includes("camera="));
    await settled(page);
    await page.waitForFunction(() => {
      const { state: { view }, scene } = window.kubist;
      return scene.where().every((value, k) => value === view.camera[k]);
    });
    const before = (await status(page)).view;
    await page.waitForTimeout(400);
    await page.reload();
    const after = (await settled(page)).view;
    assert.deepEqual(after, { ...before, camera: after.camera });
    after.camera.forEach((value, k) => assert(Math.abs(value - before.camera[k]) < 1e-3));
    await page.keyboard.press("d");
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "light");
    await close(page);
  });

  test("views are kept, in the address too", async () => {
    const page = await open("color=ux");
    await page.mouse.move(500, 400);
    await page.mouse.wheel(0, -500);
    await page.waitForFunction(() => window.kubist.scene.isPlaced && /camera=/.test(location.hash));
    await settled(page);
    const first = await page.evaluate(() => window.kubist.scene.where());
    await page.locator(".stage canvas").first().focus();
    await page.keyboard.press("k");
    await page.getByLabel("axis 3").selectOption("");
    await page.getByLabel("colour by").selectOption("diameter");
    await settled(page, ({ view }) => view.axes.length === 2 && view.color === "diameter");
    await page.getByRole("button", { name: "save this view" }).click();
    await page.waitForFunction(() => new URLSearchParams(location.hash.slice(1)).getAll("kept").length === 2);
    await page.reload();
    await settled(page);
    await page.getByLabel("view 1", { exact: true }).click();
    const { view } = await settled(page, ({ view, rows }) => view.axes.length === 3 && rows > 0);
    assert.equal(view.color, "ux");
    const back = await page.evaluate(() => window.kubist.scene.where());
    back.forEach((value, k) => assert(Math.abs(value - first[k]) < 1e-3, `${back} beside ${first}`));
    await page.locator(".stage canvas").first().focus();
    await page.keyboard.press("2");
    await settled(page, ({ view, rows }) => view.axes.length === 2 && view.color === "diameter" && rows > 0);
    await page.getByLabel("forget view 1").click();
    await page.waitForFunction(() => new URLSearchParams(location.hash.slice(1)).getAll("kept").length === 1);
    await close(page);
  });

  test("requests whose cells leave the view are cut", async () => {
    const page = await open("limit=60000");
    // From here on responses wait, so requests stay pending.
    let held = 0;
    let answering = false;
    await page.route("**/points", async (route) => {
      held++;
      while (!answering) await new Promise((done) => setTimeout(done, 20));
      await route.continue().catch(() => {});
    });
    const cut = [];
    page.on("requestfailed", (request) => request.url().endsWith("/points") && cut.push(request.failure().errorText));
    /** Moves to a row this far along x. */
    const near = (share) =>
      page.evaluate((share) => {
        const { scene, requests: { current } } = window.kubist;
        const { root } = current.tree;
        const rows = Array.from({ length: root.rows }, (_, row) => row).sort((a, b) => root.positions[3 * a] - root.positions[3 * b]);
        const row = rows[Math.floor(share * (rows.length - 1))];
        const record = root.low.map((low, k) => low + root.positions[3 * row + k]);
        const at = scene.frame.toScene(record, scene.camera.position.clone());
        scene.controls.target.copy(at);
        scene.camera.position.copy(at).z += 0.05;
        scene.controls.update();
        window.kubist.drawing.invalidate();
      }, share);
    /** Number of pending requests. */
    const waiting = () => page.evaluate(() => window.kubist.requests.current.requests.size);
    await near(0.2);
    while (held === 0 || held < (await waiting())) await page.waitForTimeout(20);
    await page.waitForTimeout(200);
    assert.deepEqual(cut, [], "what is in view is waited for");
    const before = held;
    await near(0.9);
    for (const begin = Date.now(); cut.length < before && Date.now() - begin < LONGEST; ) await page.waitForTimeout(20);
    assert.equal(cut.length, before, "all that was asked for the place that was left");
    assert(cut.every((error) => error.includes("ABORTED")), cut.join());
    answering = true;
    await near(0.2);
    await settled(page);
    await close(page);
  });

  test("trails are whole trajectories of what is in the box", async () => {
    const page = await open("where=NOT+deposited");
    await page.locator(".stage canvas").first().focus();
    await page.keyboard.press("t");
    const trailing = (status) => !status.trails.busy && status.trails.paths > 0;
    const inView = await settled(page, trailing);
    assert.equal(inView.trails.paths, 200, "as many as a picture holds");
    const asked = page.waitForRequest((request) => request.postData()?.includes('\\"pid\\" IN'));
    await page.evaluate(() => {
      const { low, high } = window.kubist.scene.frame;
      window.kubist.selecting.setRoi({ low, high: [low[0] + 0.4 * (high[0] - low[0]), ...high.slice(1)] });
    });
    await asked;
    const inBox = await settled(page, trailing);
    const box = Object.fromEntries(inBox.view.axes.map((axis, k) => [axis, [inBox.view.roi.low[k], inBox.view.roi.high[k]]]));
    const text = await (await post("query", { box, where: "NOT deposited", limit: 4000, columns: ["pid"], format: "csv" })).text();
    const pids = [...new Set(text.trim().split("\n").slice(1))].slice(0, 200);
    const whole = await (await post("query", { where: `pid IN (${pids})`, columns: ["pid", "time", "x"], format: "csv" })).text();
    const records = whole.trim().split("\n").slice(1).map((line) => line.split(",").map(Number));
    assert.equal(inBox.trails.paths, pids.length);
    assert.equal(inBox.trails.records, records.length, "also records outside of the box, and deposited ones");
    // From each row to the next one in time of the same particle.
    const expected = [];
    for (const pid of new Set(records.map((record) => record[0]))) {
      const path = records.filter((record) => record[0] === pid);
      path.sort((a, b) => a[1] - b[1]);
      for (let k = 1; k < path.length; k++) expected.push([path[k - 1][2], path[k][2]]);
    }
    const drawn = await page.evaluate(() => {
      const { lines } = window.kubist.trails;
      const { array } = lines.geometry.getAttribute("position");
      const low = window.kubist.scene.frame.low[0];
      return Array.from({ length: array.length / 6 }, (_, k) => [array[6 * k] + low, array[6 * k + 3] + low]);
    });
    assert.equal(drawn.length, expected.length);
    const sum = (lines) => lines.reduce((sum, [a, b]) => sum + Math.abs(b - a), 0);
    assert(Math.abs(sum(drawn) - sum(expected)) < 1e-3 * sum(expected));
    assert.match(await page.getByLabel("Python").textContent(), /t\.trajectories\(box=.*by="pid"\)/);
    assert.match(await page.evaluate(() => location.hash), /trails=1/);
    await page.keyboard.press("t");
    await settled(page, (status) => status.trails.paths === 0);
    await close(page);
  });

  test("where one time is shown, trails end there and fade with their age", async () => {
    const page = await open("axes=x,y&color=&mode=points&where=pid+%3C+3000&trails=1&time=time%3D0.3..0.3&tail=0.3");
    const trailing = (status) => !status.trails.busy && status.trails.paths > 0;
    const { trails, view } = await settled(page, trailing);
    assert.equal(view.tail, 0.3);
    /** The extent of lines on the screen: lit pixels without a matching line part, and brightness by age. */
    const looked = () =>
      page.evaluate(async () => {
        const { scene, drawing, trails, requests, state } = window.kubist;
        const { frames } = drawing;
        drawing.invalidate();
        while (drawing.frames === frames) await new Promise(requestAnimationFrame);
        requests.current.group.visible = scene.box.visible = false;
        scene.render();
        const { data, width, height } = window.valuesOf(scene.canvas);
        const at = trails.lines.geometry.getAttribute("position").array;
        const moments = trails.lines.geometry.getAttribute("moment").array;
        const [begin, end] = window.kubist.player.ends;
        const { tail, time } = state.view;
        const ageOf = (moment) => (tail < 1 ? (time.high - begin - moment) / (tail * (end - begin)) : 0);
        const ages = new Float32Array(width * height).fill(NaN);
        const [{ corner }] = scene.trails.values();
        let drawn = 0;
        for (let line = 0; 2 * line < moments.length; line++) {
          for (let k = 0; k <= 200; k++) {
            const mixed = (a, b) => a + (k / 200) * (b - a);
            const age = ageOf(mixed(moments[2 * line], moments[2 * line + 1]));
            if (age < -0.02 || age > 1) continue;
            drawn++;
            const place = window.placed([0, 1].map((axis) => corner[axis] + mixed(at[4 * line + axis], at[4 * line + 2 + axis])));
            for (let dy = -2; dy <= 2; dy++) for (let dx = -2; dx <= 2; dx++) {
              const pixel = (Math.floor(place[1]) + dy) * width + Math.floor(place[0]) + dx;
              if (!(ages[pixel] <= age)) ages[pixel] = age;
            }
          }
        }
        let [lit, stray] = [0, 0];
        const [young, old] = [[], []];
        for (let pixel = 0; pixel < ages.length; pixel++) {
          const bright = data[4 * pixel] - data[0];
          if (bright < 12) continue;
          lit++;
          if (Number.isNaN(ages[pixel])) stray++;
          else if (ages[pixel] < 0.25) young.push(bright);
          else if (ages[pixel] > 0.75) old.push(bright);
        }
        const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
        scene.box.visible = true;
        return { lit, stray, young: mean(young), old: mean(old), drawn };
      });
    const some = await looked();
    assert(some.lit > 100 && some.stray === 0, JSON.stringify(some));
    assert(some.old < 0.6 * some.young, JSON.stringify(some));
    await page.evaluate(() => window.kubist.setTime({ column: "time", low: 0.5, high: 0.5 }));
    const later = await settled(page, (status) => trailing(status) && status.view.time.low === 0.5);
    assert.equal(later.trails.paths, trails.paths);
    const next = await looked();
    assert(next.stray === 0 && next.drawn !== some.drawn, JSON.stringify(next));
    await page.getByLabel("tail", { exact: true }).fill("1");
    await settled(page, trailing);
    const whole = await looked();
    assert(whole.lit > next.lit, `${whole.lit} beside ${next.lit}`);
    await close(page);
  });

  test("time is played as fast as is asked for", async () => {
    const page = await open("where=pid+%3C+500");
    await page.getByLabel("speed").selectOption("4");
    assert.equal((await status(page)).view.speed, 4);
    await page.waitForFunction(() => /speed=4/.test(location.hash));
    /** The milliseconds that the player waits after a picture that was ready at once. */
    const waits = () =>
      page.evaluate(() => {
        const { setTimeout: wait, performance } = window;
        const { player } = window.kubist;
        const asked = [];
        window.setTimeout = (_, milliseconds) => asked.push(milliseconds);
        player.playing = true;
        player.playedAt = performance.now();
        player.continue();
        player.playing = false;
        window.setTimeout = wait;
        return asked[0];
      });
    const fast = await waits();
    await page.getByLabel("speed").selectOption("0.5");
    const slow = await waits();
    assert(slow > 6 * fast && slow > 200, `${slow} beside ${fast}`);
    await close(page);
  });

  test("a running simulation is followed", async () => {
    const live = join(directory, "live.kubist");
    run("copy", table, live);
    const second = await serve([live]);
    const page = await open("", { url: second.url });
    const before = await status(page);
    await page.evaluate(() => {
      window.least = Infinity;
      setInterval(() => (window.least = Math.min(window.least, window.kubist.status().rows)), 5);
    });
    const last = readdirSync(steps).sort().at(-1);
    run("ingest", live, join(steps, last));
    const after = await settled(page, (status) => status.version !== before.version);
    assert(after.total > before.total);
    assert.equal(after.total, Number(run("query", live, "--count")));
    assert.equal(after.added, after.total - before.total);
    await page.waitForFunction(() => /records, \+[\d\u202f]+ since it was opened/.test(document.querySelector(".head").textContent));
    assert((await page.evaluate(() => window.least)) > 0.5 * before.rows, "the picture was never empty");
    await close(page);
    await second.stop();
  });

  test("a table that is dropped and made again is shown", async () => {
    const again = join(directory, "again.kubist");
    run("copy", table, again);
    const second = await serve([again]);
    const page = await open("", { url: second.url });
    const before = await status(page);
    run("drop", again, "--yes");
    await page.waitForFunction(() => window.kubist.status().message);
    run("copy", table, again);
    await page.waitForFunction((old) => ![undefined, old].includes(window.kubist?.status().version), before.version);
    const after = await settled(page, (status) => !status.message);
    assert.equal(after.total, Number(run("query", again, "--count")));
    await close(page);
    await second.stop();
  });

  test("it goes on when the server is started again", async () => {
    let second = await serve([table]);
    const page = await open("", { url: second.url });
    const { rows } = await status(page);
    await second.stop();
    await page.waitForFunction(() => document.querySelector(".note").textContent.includes("does not respond"));
    assert.equal((await status(page)).rows, rows, "what is on the screen stays");
    second = await serve([table], second.port);
    await page.waitForFunction(() => !window.kubist.status().message);
    await page.getByLabel("where").fill("ux > 1");
    await page.keyboard.press("Enter");
    const { total } = await settled(page, (status) => status.view.where === "ux > 1");
    assert.equal(total, await count({ where: "ux > 1" }));
    await close(page);
    await second.stop();
  });

  test("two tables can be looked at", async () => {
    const other = join(directory, "other.kubist");
    cpSync(table, other, { recursive: true });
    const second = await serve([table, other]);
    const page = await open("table=other&where=pid+%3C+100", { url: second.url });
    assert.equal((await status(page)).view.table, "other");
    await page.getByLabel("table").selectOption("airway");
    await settled(page, (status) => status.view.table === "airway");
    assert.equal(await page.title(), "airway · Kubist");
    await close(page);
    await second.stop();
  });
});
