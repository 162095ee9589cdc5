// The first view of a table, and the first actions of a new user.

import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { found, launch, root, serve } from "./browser.mjs";
import { close, newPage, run, settled, status, visit } from "./visit.mjs";

const steps = join(root, "examples/airway/steps");
const files = readdirSync(steps).sort().map((name) => join(steps, name));
const skip = found ? false : "no Chromium here: apt-get install chromium-headless-shell, or say CHROMIUM=path";

// Runs before the page: `written` collects every drawn text.
function rememberTexts() {
  const write = CanvasRenderingContext2D.prototype.fillText;
  window.written = new Set();
  CanvasRenderingContext2D.prototype.fillText = function (text, ...where) {
    window.written.add(text);
    return write.call(this, text, ...where);
  };
}

describe("the first look", { skip }, () => {
  let directory, server, browser;
  const made = (name) => join(directory, `${name}.kubist`);
  const open = (view, options) => visit(browser, server.url, view, options);

  before(async () => {
    directory = mkdtempSync(join(tmpdir(), "kubist-look-"));
    const dimensions = ["--dimensions", "x,y,z", "--identity", "pid,time"];
    run("ingest", made("airway"), ...files.slice(-3), ...dimensions);
    run("ingest", made("young"), files[0], ...dimensions);
    // A time series identified by large integers.
    const line = (_, k) => `${9223372036854775807n + BigInt(7919 * k)},2023-11-${14 + (k % 5)}T0${k % 10}:00:00,${(k * 0.37) % 11},${"abcdefghijkl"[k % 12]}`;
    const lines = Array.from({ length: 3000 }, line);
    writeFileSync(join(directory, "series.csv"), `id,time,level,kind\n${lines.join("\n")}\n`);
    run("ingest", made("series"), join(directory, "series.csv"), "--dimensions", "time,level", "--identity", "id", "--read", "types=id=uint64,time=timestamp[us]");
    // Distant discs with diameters in a column, and a sheet with equal distances.
    const discs = [[1, 1, 0.2], [3, 1, 0.4], [1, 3, 0.8], [3, 3, 0.1]].map((disc, k) => [k, ...disc, 0.5].join());
    writeFileSync(join(directory, "discs.csv"), `id,x,y,wide,z\n${discs.join("\n")}\n`);
    run("ingest", made("discs"), join(directory, "discs.csv"), "--dimensions", "x=0:4,y=0:4", "--identity", "id");
    const sheet = Array.from({ length: 3600 }, (_, k) => `${k},${(k % 60) + 0.5},${Math.floor(k / 60) + 0.5}`);
    writeFileSync(join(directory, "sheet.csv"), `id,x,y\n${sheet.join("\n")}\n`);
    run("ingest", made("sheet"), join(directory, "sheet.csv"), "--dimensions", "x,y", "--identity", "id");
    const survey = Array.from({ length: 500 }, (_, k) => `${k},${636000 + ((k * 37) % 1100)},${848900 + ((k * 101) % 600)},${400 + ((k * 7) % 110)}`);
    writeFileSync(join(directory, "survey.csv"), `id,x,y,z\n${survey.join("\n")}\n`);
    run("ingest", made("survey"), join(directory, "survey.csv"), "--dimensions", "x,y,z", "--identity", "id");
    server = await serve(["airway", "young", "series", "discs", "sheet", "survey"].map(made));
    browser = await launch();
  });

  after(async () => {
    await browser?.close();
    await server?.stop();
    rmSync(directory, { recursive: true, force: true });
  });

  const frame = (page) => page.evaluate(() => ({ low: window.kubist.scene.frame.low, high: window.kubist.scene.frame.high }));

  /** The extremes of a column, from its rows. */
  function extremes(table, column) {
    const values = run("query", made(table), "--columns", column, "--format", "csv").trim().split("\n").slice(1).map(Number);
    return [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
  }

  test("a table that grows stays in view until somebody moves the camera", async () => {
    const page = await open("table=young&limit=250000");
    const young = await frame(page);
    const grows = async (file) => {
      const { rows } = await status(page);
      run("ingest", made("young"), file);
      await settled(page, (status) => status.rows > rows);
    };
    await grows(files.at(-1));
    const [least, most] = extremes("young", "x");
    await page.waitForFunction((most) => window.kubist.scene.frame.high[0] >= most, most);
    const grown = await frame(page);
    assert(grown.high[0] > young.high[0] + 0.05);
    // The range of the data, not the table's padded domain.
    assert(grown.low[0] <= least && grown.high[0] - most < 0.05 * (most - least), JSON.stringify(grown));
    await page.mouse.move(500, 400);
    await page.mouse.wheel(0, -300);
    await page.waitForFunction(() => window.kubist.scene.isPlaced);
    const moved = await frame(page);
    await grows(files.at(-2));
    assert.deepEqual(await frame(page), moved);
    await close(page);
  });

  test("the picture says that steps were thinned as they were written", async () => {
    const page = await newPage(browser, { viewport: { width: 390, height: 844 } });
    // The description of a simulation with a row budget.
    await page.route("**/v1/tables/airway", async (route) => {
      const answer = await route.fetch();
      const told = { ...(await answer.json()), steps: [1, 2, 3], thinned_steps: [{ step: 2, below: 0.25, rows: 3000 }, { step: 3, below: 0.05, rows: 1000 }] };
      await route.fulfill({ response: answer, json: told });
    });
    await page.addInitScript(rememberTexts);
    await page.goto(`${server.url}#table=airway&limit=40000&even=1&theme=dark`);
    await settled(page);
    const told = "2 of 3 steps are samples: 20 % of all records";
    const written = () => page.evaluate(() => [...window.written]);
    assert((await written()).includes(told), `${await written()}`);
    assert((await written()).some((text) => /^even detail/.test(text)));
    await page.evaluate(() => window.written.clear());
    await page.evaluate(async () => void (await window.kubist.picture()));
    assert((await written()).some((text) => text.endsWith(`, ${told}`)), `${await written()}`);
    await close(page);
  });

  test("the line below counts the points on the screen", async () => {
    for (const view of ["table=airway&axes=x,y&mode=points&limit=20000000", "table=airway&limit=20000000"]) {
      const page = await open(view);
      const all = Number(run("query", made("airway"), "--count"));
      await page.waitForFunction((all) => document.querySelector(".readout b").textContent.replace(/\D/g, "") === String(all), all);
      await page.mouse.move(640, 400);
      await page.mouse.wheel(0, -700);
      await page.waitForFunction(() => window.kubist.scene.isPlaced);
      await settled(page);
      const { expected, seen, rows } = await page.evaluate(async () => {
        const { scene, drawing, requests: { current } } = window.kubist;
        const { frames } = drawing;
        drawing.invalidate();
        while (drawing.frames === frames) await new Promise(requestAnimationFrame);
        let on = 0;
        for (const cell of current.tree.cells) {
          const axes = cell.low.length;
          for (let row = 0; row < cell.count; row++) {
            const at = window.placed(cell.low.map((low, k) => low + cell.positions[axes * row + k]));
            if (at && at[0] >= 0 && at[1] >= 0 && at[0] <= scene.width && at[1] <= scene.height) on++;
          }
        }
        return { ...window.kubist.status(), expected: on };
      });
      assert(expected > 100 && expected < all, `${expected} of ${all}`);
      assert(Math.abs(seen - expected) <= 2 && seen <= rows, `${seen} beside ${expected}`);
      await page.waitForFunction((seen) => document.querySelector(".readout b").textContent.replace(/\D/g, "") === String(seen), seen);
      await close(page);
    }
  });

  test("axes have their names on a phone too, and texts a ground on points", async () => {
    const page = await newPage(browser, { viewport: { width: 390, height: 844 } });
    await page.addInitScript(() => {
      const write = CanvasRenderingContext2D.prototype.fillText;
      CanvasRenderingContext2D.prototype.fillText = function (text, ...where) {
        if (this.canvas.className === "marks") (window.written ??= new Map()).set(text, [this.getTransform().e, this.getTransform().f, this.measureText(text).width]);
        return write.call(this, text, ...where);
      };
    });
    for (const axes of ["x,y,z", "x,y"]) {
      await page.goto("about:blank");
      await page.goto(`${server.url}#table=airway&axes=${axes}&limit=40000&mode=points&theme=dark`);
      await settled(page);
      if (axes === "x,y") {
        await page.mouse.move(195, 400);
        await page.mouse.wheel(0, -2000);
        await page.waitForFunction(() => window.kubist.scene.isPlaced);
        await settled(page);
      }
      const { texts, bare } = await page.evaluate(async () => {
        window.written = new Map();
        window.kubist.drawing.invalidate();
        const { frames } = window.kubist.drawing;
        while (window.kubist.drawing.frames === frames) await new Promise(requestAnimationFrame);
        const context = document.querySelector("canvas.marks").getContext("2d");
        const ground = window.kubist.drawing.inks.background;
        const bare = [...window.written].filter(([, [x, y, wide]]) =>
          [x - 1, x + wide + 1].some((at) => {
            const [red, green, blue, alpha] = context.getImageData(Math.floor(at), Math.round(y) - 4, 1, 1).data;
            return alpha < 255 || `#${[red, green, blue].map((value) => value.toString(16).padStart(2, "0")).join("")}` !== ground;
          }));
        return { texts: [...window.written.keys()], bare: bare.map(([text]) => text) };
      });
      for (const name of axes.split(",")) assert(texts.includes(name), `${name} is not among ${texts}`);
      assert(texts.length > 4 && bare.length === 0, `without a ground: ${bare}`);
    }
    await close(page);
  });

  test("numbers stand along the records: two of each axis at least, none beyond", async () => {
    const page = await newPage(browser, { viewport: { width: 390, height: 844 } });
    await page.addInitScript(() => {
      const write = CanvasRenderingContext2D.prototype.fillText;
      window.written = new Map();
      CanvasRenderingContext2D.prototype.fillText = function (text, ...where) {
        const { e, f } = this.getTransform();
        if (this.canvas.className === "marks") window.written.set(`${text} ${e} ${f}`, { value: Number(text), left: e, top: f });
        return write.call(this, text, ...where);
      };
    });
    await page.goto(`${server.url}#table=airway&axes=y,x&limit=40000&color=&mode=points&theme=dark`);
    await settled(page);
    const { frame, box, words } = await page.evaluate(async () => {
      const { drawing, scene } = window.kubist;
      window.written.clear();
      const { frames } = drawing;
      drawing.invalidate();
      while (drawing.frames === frames) await new Promise(requestAnimationFrame);
      const { low, high } = scene.frame;
      return { frame: { low, high }, box: { left: window.placed(low)[0], bottom: window.placed(low)[1] }, words: [...window.written.values()] };
    });
    const numbers = words.filter(({ value }) => Number.isFinite(value));
    const lowest = Math.max(...numbers.map(({ top }) => top));
    for (const [axis, along] of [numbers.filter(({ top }) => top === lowest), numbers.filter(({ top }) => top < lowest)].entries()) {
      assert(along.length >= 2, JSON.stringify(words));
      for (const { value } of along) assert(value >= frame.low[axis] && value <= frame.high[axis], `${value} is not within ${JSON.stringify(frame)}`);
    }
    // Next to the box, not at the other side of the screen.
    for (const { left, top } of numbers) assert(top === lowest ? top - box.bottom < 40 : box.left - left < 60, JSON.stringify([box, numbers]));
    await close(page);
  });

  test("the name of an axis stands beyond its numbers, however many digits they have", async () => {
    const page = await newPage(browser, { viewport: { width: 1280, height: 800 } });
    await page.addInitScript(() => {
      const write = CanvasRenderingContext2D.prototype.fillText;
      window.written = [];
      CanvasRenderingContext2D.prototype.fillText = function (text, ...where) {
        const left = this.getTransform().e;
        if (this.canvas.className === "marks") window.written.push({ text, left, right: left + this.measureText(text).width });
        return write.call(this, text, ...where);
      };
    });
    await page.goto(`${server.url}#table=survey&axes=x,y,z&theme=dark`);
    await settled(page);
    const words = await page.evaluate(async () => {
      const { drawing } = window.kubist;
      window.written = [];
      const { frames } = drawing;
      drawing.invalidate();
      while (drawing.frames === frames) await new Promise(requestAnimationFrame);
      return window.written;
    });
    const [name] = words.filter(({ text }) => text === "y");
    const numbers = words.filter(({ text }) => /^849\d{3}$/.test(text));
    assert(numbers.length > 1, JSON.stringify(words));
    for (const { left } of numbers) assert(name.right < left, JSON.stringify(words));
    // If the bottom line leaves no space below an edge, labels are above it.
    await page.setViewportSize({ width: 680, height: 420 });
    await page.goto("about:blank");
    await page.goto(`${server.url}#table=survey&axes=x,z,y&theme=dark&camera=0,0.95,1.45,0,0,0,1`);
    await settled(page);
    const seen = await page.evaluate(() => window.written.map(({ text }) => text));
    assert(new Set(seen.filter((text) => /^63[67]\d{3}$/.test(text))).size > 1 && seen.includes("x"), `${seen}`);
    await close(page);
  });

  test("more records stand out more, on a light ground as on a dark one", async () => {
    const page = await open("table=airway&axes=x,y&color=&mode=density&limit=60000");
    await settled(page, (status) => status.dense);
    for (const theme of ["dark", "light"]) {
      await page.evaluate((theme) => window.kubist.setTheme(theme), theme);
      for (const map of ["inferno", "viridis", "gray"]) {
        const [few, many] = await page.evaluate((map) => {
          const { state, drawing } = window.kubist;
          state.view.map = map;
          const colors = drawing.colors();
          const ground = [1, 3, 5].map((at) => parseInt(drawing.inks.background.slice(at, at + 2), 16));
          const away = (k) => Math.abs([0.2126, 0.7152, 0.0722].reduce((sum, share, channel) => sum + share * (colors[4 * k + channel] - ground[channel]), 0));
          return [away(0), away(255)];
        }, map);
        assert(many > 1.5 * few, `${map} on ${theme}: ${few} and ${many}`);
      }
    }
    await close(page);
  });

  test("all of a table is seen at once", async () => {
    const page = await open("table=airway");
    const out = await page.evaluate(() => {
      const { scene, requests: { current } } = window.kubist;
      let out = 0;
      for (const cell of current.tree.cells) {
        for (let row = 0; row < cell.count; row++) {
          const point = cell.low.map((low, k) => low + cell.positions[3 * row + k]);
          const at = window.placed(point);
          if (!at || at[0] < 0 || at[1] < 0 || at[0] > scene.width || at[1] > scene.height) out++;
        }
      }
      return out;
    });
    assert.equal(out, 0);
    await close(page);
  });

  test("a series is drawn over its time, and no identity is an axis", async () => {
    const page = await open("table=series&color=kind");
    const { view, rows } = await status(page);
    assert.deepEqual(view.axes, ["time", "level"]);
    assert.equal(rows, 3000);
    const colors = await page.evaluate(() => [...document.querySelectorAll(".swatches i")].map((mark) => mark.style.background));
    assert.equal(new Set(colors).size, 12, "each kind has its colour");
    const hint = await page.getByLabel("where").getAttribute("placeholder");
    assert.match(hint, /^where: level > /);
    // Days along the time axis, which is as wide as the picture, also if the URL names these axes.
    for (const axes of [["time", "level"], ["level", "time"]]) {
      await page.goto("about:blank");
      await page.addInitScript(rememberTexts);
      await page.goto(`${server.url}#theme=dark&table=series&axes=${axes}`);
      const { view: { stretch } } = await settled(page);
      assert(stretch);
      const written = await page.evaluate(() => [...window.written]);
      assert(written.some((text) => /^2023-11-1\d$/.test(text)), `${written}`);
    }
    await close(page);
  });

  test("what is up is drawn upwards, and not in a mirror", async () => {
    const page = await open("table=airway");
    for (const [k, column] of [["2", "z"], ["1", "y"]]) {
      await page.getByLabel(`axis ${k}`).selectOption(column);
      await settled(page, (status) => status.rows > 0 && status.view.axes[k - 1] === column);
      const { axes } = (await status(page)).view;
      assert.equal(new Set(axes).size, 3, "no column is drawn twice");
      const seen = await page.evaluate((axes) => {
        const { scene } = window.kubist;
        const { low, high } = scene.frame;
        const middle = low.map((end, k) => (end + high[k]) / 2);
        // The direction of a step along this column: right, up, towards the viewer.
        const along = (name) => {
          const k = axes.indexOf(name);
          const to = middle.map((value, at) => (at === k ? high[k] : value));
          return scene.frame.toScene(to, scene.camera.position.clone()).applyQuaternion(scene.camera.quaternion.clone().invert()).toArray();
        };
        return ["x", "y", "z"].map(along);
      }, axes);
      const [x, y, z] = seen;
      const upwards = seen[["x", "y", "z"].indexOf(axes[1])];
      assert(upwards[1] > 0.8 * Math.hypot(...upwards), `${axes}: ${upwards}`);
      const cross = [x[1] * y[2] - x[2] * y[1], x[2] * y[0] - x[0] * y[2], x[0] * y[1] - x[1] * y[0]];
      assert(cross.reduce((sum, value, k) => sum + value * z[k], 0) > 0, `${axes} are seen in a mirror`);
    }
    await close(page);
  });

  test("a record is told while its point is there", async () => {
    const page = await open("table=series");
    const card = page.locator(".card");
    const show = async () => {
      const at = await page.evaluate(() => {
        const { scene, requests: { current } } = window.kubist;
        const cell = [...current.tree.cells].find((cell) => cell.count > 0);
        const point = cell.low.map((low, k) => low + cell.positions[k]);
        return window.placed(point);
      });
      await page.mouse.click(at[0], at[1]);
      await card.waitFor({ state: "visible" });
    };
    await show();
    assert.match(await card.innerText(), /id\s+922\d{16}\b/);
    await page.keyboard.press("Escape");
    await card.waitFor({ state: "hidden" });
    await show();
    await page.mouse.wheel(0, -200);
    await card.waitFor({ state: "hidden" });
    await close(page);
  });

  test("a box opens where records are, and trails stand out", async () => {
    const page = await open("table=airway");
    await page.locator(".stage canvas").first().focus();
    await page.keyboard.press("b");
    const { inRoi } = await settled(page, (status) => status.inRoi !== null);
    assert(inRoi > 0);
    await page.keyboard.press("b");
    const colors = () => page.evaluate(() => window.kubist.scene.material.uniforms.dim.value);
    assert.equal(await colors(), 0);
    await page.keyboard.press("t");
    await settled(page, (status) => !status.trails.busy && status.trails.paths > 0);
    assert((await colors()) > 0.5, "points give way to lines");
    await page.keyboard.press("t");
    await settled(page, (status) => status.trails.paths === 0);
    assert.equal(await colors(), 0);
    await close(page);
  });

  /** The brightness of drawn pixels, and of an empty corner. */
  const brightness = (page) =>
    page.evaluate(() => {
      const { scene } = window.kubist;
      const { data } = window.pictured();
      const night = [...data.slice(0, 3)];
      let [sum, lit] = [0, 0];
      for (let at = 0; at < data.length; at += 4) {
        const off = [0, 1, 2].reduce((sum, k) => sum + Math.abs(data[at + k] - night[k]), 0);
        if (off < 8) continue;
        sum += data[at] + data[at + 1] + data[at + 2];
        lit++;
      }
      return { mean: sum / lit, lit, night, isShaded: scene.isShaded };
    });

  test("forms are shaded by their depth, and what is empty is not", async () => {
    const page = await open("table=airway&shaded=1&color=&size=4");
    const shaded = await brightness(page);
    assert(shaded.isShaded);
    await page.getByLabel("depth shading").uncheck();
    await page.waitForFunction(() => !window.kubist.scene.isShaded);
    const plain = await brightness(page);
    assert(shaded.mean < 0.96 * plain.mean, `${shaded.mean} beside ${plain.mean}`);
    assert.deepEqual(shaded.night, plain.night);
    assert(shaded.lit > 0.9 * plain.lit, "nothing vanishes in its shade");
    await close(page);
  });

  test("a graphics card draws the same places, with smooth rims", async () => {
    const plain = await open("table=airway&limit=20000000&size=5&color=&shaded=0");
    const software = await brightness(plain);
    await close(plain);
    const page = await newPage(browser, { viewport: { width: 1280, height: 800 } });
    page.on("console", (message) => message.type() === "error" && page.failures.push(message.text()));
    // The page takes software rendering for a card.
    await page.addInitScript(() => {
      const { prototype } = WebGL2RenderingContext;
      const real = prototype.getParameter;
      prototype.getParameter = function (name) {
        const value = real.call(this, name);
        return typeof value === "string" && /swiftshader/i.test(value) ? "a card" : value;
      };
    });
    await page.goto(`${server.url}#theme=dark&table=airway&limit=20000000&size=5&color=&shaded=0`);
    await settled(page);
    assert.equal(await page.evaluate(() => window.kubist.scene.software), false);
    const card = await brightness(page);
    assert(Math.abs(card.lit / software.lit - 1) < 0.15, `${card.lit} pixels beside ${software.lit}`);
    await page.evaluate(() => {
      window.kubist.state.view.mode = "density";
      window.kubist.recolor();
    });
    await page.waitForFunction(() => window.kubist.state.shown.dense && window.kubist.drawing.density.onCard);
    assert((await brightness(page)).lit > 1000);
    await close(page);
  });

  test("densities tell the mean, the maximum or the most frequent category of a column", async () => {
    const page = await open("table=airway&axes=x,y&color=&mode=density&limit=60000");
    await settled(page, (status) => status.dense);
    const by = page.getByLabel("colour by");
    await page.waitForFunction(() => document.querySelector('[aria-label="colour by"]').value === "records per area");
    await by.selectOption("z");
    await page.waitForFunction(() => /^mean of z/.test(window.kubist.drawing.legend()?.title ?? ""));
    for (const [column, shade] of [["z", "mean"], ["z", "maximum"], ["deposited", "mixture"], ["deposited", "dominant"]]) {
      await by.selectOption(column);
      await settled(page, (status) => status.view.color === column);
      await page.getByLabel("density shows").selectOption(shade);
      const [seen, expected] = await page.evaluate((shade) => {
        const { scene, drawing, requests: { current }, state } = window.kubist;
        drawing.density.onCard = false;
        drawing.paint();
        const { sums, place } = drawing.density;
        const wide = Math.ceil(scene.canvas.width / place);
        const slot = current.spec.columns.findIndex(({ name }) => name === state.view.color);
        const [low, high] = state.colorRange;
        const palette = drawing.colors();
        const found = new Map();
        for (const cell of current.tree.cells) {
          for (let row = 0; row < cell.count; row++) {
            const point = cell.low.map((low, k) => low + cell.positions[2 * row + k]);
            const [x, y] = window.placed(point);
            const at = Math.floor((scene.height - y) / place) * wide + Math.floor(x / place);
            found.set(at, [...(found.get(at) ?? []), cell.columns[slot][row]]);
          }
        }
        const along = (value) => Math.min(1, Math.max(0, (value - low) / (high - low)));
        const color = (category) => [0, 1, 2].map((k) => palette[4 * category + k] / 255);
        const of = {
          mean: (values) => [values.reduce((sum, value) => sum + along(value), 0) / values.length],
          maximum: (values) => [along(Math.max(...values))],
          mixture: (values) => color(0).map((_, k) => values.reduce((sum, value) => sum + color(value)[k], 0) / values.length),
          dominant: (values) => {
            const ones = values.filter((value) => value === 1).length;
            return 2 * ones === values.length ? null : color(2 * ones > values.length ? 1 : 0);
          },
        }[shade];
        const [seen, expected] = [[], []];
        for (const [at, values] of found) {
          const told = values.length > 2 && of(values);
          if (!told) continue;
          // A point on the border of two places may be counted in either.
          const share = shade === "maximum" ? 1 : sums[4 * at + 3];
          seen.push(told.map((_, k) => sums[4 * at + k] / share));
          expected.push(told);
        }
        return [seen, expected];
      }, shade);
      assert(expected.length > 500, `${expected.length} places`);
      const same = seen.filter((told, k) => told.every((value, at) => Math.abs(value - expected[k][at]) < 0.01)).length;
      assert(same > 0.98 * seen.length, `${shade} of ${column}: ${same} of ${seen.length} places`);
    }
    // The card and the processor give the same picture.
    for (const shade of ["mean", "maximum"]) {
      await by.selectOption("z");
      await settled(page, (status) => status.view.color === "z");
      await page.getByLabel("density shows").selectOption(shade);
      const off = await page.evaluate(() => {
        const { drawing } = window.kubist;
        const pictures = [true, false].map((card) => {
          drawing.density.onCard = card;
          return window.pictured().data;
        });
        let off = 0;
        pictures[0].forEach((value, k) => (off += Math.abs(value - pictures[1][k]) > 40 ? 1 : 0));
        return off / pictures[0].length;
      });
      assert(off < 0.01, `${shade}: ${off}`);
    }
    await close(page);
  });

  test("points are as large as a column says, in units of the axes", async () => {
    const page = await open("table=discs&axes=x,y&color=&mode=points&sizein=units&sizeby=wide");
    /** Each disc's diameter, and the diameter of a disc with as many pixels as are lit around its centre. */
    const measured = () =>
      page.evaluate(() => {
        const { requests: { current } } = window.kubist;
        const { data, width } = window.pictured();
        const unit = window.placed([2, 1])[0] - window.placed([1, 1])[0];
        const slot = current.spec.columns.findIndex(({ name }) => name === "wide");
        const [cell] = current.tree.cells;
        return Array.from({ length: cell.rows }, (_, row) => {
          const at = cell.low.map((low, k) => low + cell.positions[2 * row + k]);
          const [x, y] = window.placed(at).map(Math.round);
          let lit = 0;
          const reach = Math.round(0.6 * unit);
          for (let dy = -reach; dy <= reach; dy++) for (let dx = -reach; dx <= reach; dx++) if (data[4 * ((y + dy) * width + x + dx)] > 80) lit++;
          return [cell.columns[slot]?.[row], Math.sqrt((4 * lit) / Math.PI) / unit];
        });
      });
    const discs = await measured();
    assert.equal(discs.length, 4);
    for (const [wide, seen] of discs) assert(Math.abs(seen / wide - 1) < 0.06, `${seen} beside ${wide}`);
    await page.getByLabel("width of points").fill("0.5");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => window.kubist.state.view.width === 0.5);
    for (const [wide, seen] of await measured()) assert(Math.abs(seen / wide - 0.5) < 0.06, `${seen} beside half of ${wide}`);
    await page.getByLabel("sizes by").selectOption("");
    await settled(page, (status) => status.view.sizeBy === null && status.rows === 4);
    await page.getByLabel("width of points").fill("0.3");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => window.kubist.state.view.width === 0.3);
    for (const [, seen] of await measured()) assert(Math.abs(seen / 0.3 - 1) < 0.06, `${seen} beside 0.3`);
    await page.waitForFunction(() => /sizein=units&width=0.3/.test(location.hash));
    await close(page);
  });

  test("points as large as their spacing close a sheet, near and far", async () => {
    const page = await open("table=sheet&axes=x,y&color=&mode=points");
    const covered = () =>
      page.evaluate(() => {
        const { data, width } = window.pictured();
        const [left, bottom] = window.placed([25, 25]).map(Math.round);
        const [right, top] = window.placed([35, 35]).map(Math.round);
        let lit = 0;
        for (let y = top; y < bottom; y++) for (let x = left; x < right; x++) if (data[4 * (y * width + x)] > 80) lit++;
        return lit / ((right - left) * (bottom - top));
      });
    const pixels = await covered();
    assert(pixels < 0.25, `${pixels}`);
    await page.getByLabel("sizes in").selectOption("relative to spacing");
    await settled(page);
    for (const zoom of [1, 4]) {
      await page.evaluate((zoom) => {
        const { scene, drawing } = window.kubist;
        scene.camera.zoom = zoom;
        scene.camera.updateProjectionMatrix();
        drawing.invalidate();
      }, zoom);
      await settled(page);
      let share = await covered();
      // On a busy machine sizes are updated after the picture.
      for (let wait = 0; wait < 50 && share <= 0.6; wait++) {
        await new Promise((resolve) => setTimeout(resolve, 100));
        share = await covered();
      }
      assert(share > 0.6, `${share} at ${zoom}`);
    }
    await close(page);
  });

  test("on a phone nothing is cut or wrapped", async () => {
    const page = await open("table=airway", { viewport: { width: 390, height: 844 }, hasTouch: true });
    const boxes = await page.evaluate(() => {
      const box = (selector) => document.querySelector(selector).getBoundingClientRect().toJSON();
      return { readout: box(".readout"), player: box(".player"), head: box(".head"), toggle: box(".toggle"), side: box(".side") };
    });
    const { readout, player, head, toggle, side } = boxes;
    for (const { left, right } of [readout, player, head, toggle]) assert(left >= 0 && right <= 390, JSON.stringify(boxes));
    assert(readout.height < 26 && head.height < 34, "one line each");
    for (const mode of ["points", "density"]) {
      await page.evaluate((mode) => {
        window.kubist.state.view.mode = mode;
        window.kubist.state.changed();
      }, mode);
      await page.waitForFunction((dense) => /as densities/.test(document.querySelector(".readout").textContent) === dense, mode === "density");
      const [shown, whole] = await page.evaluate(() => [document.querySelector(".readout").clientWidth, document.querySelector(".readout").scrollWidth]);
      assert(whole <= shown, `${whole} pixels of text in ${shown}`);
    }
    await page.evaluate(() => {
      const { state } = window.kubist;
      [state.added, state.lastAdded] = [123_456, 1_234];
      state.redraw();
    });
    await page.waitForFunction(() => /\+1\u202f234 at last/.test(document.querySelector(".head span").title));
    const line = await page.evaluate(() => {
      const { scrollWidth, clientWidth, textContent } = document.querySelector(".head");
      return { scrollWidth, clientWidth, textContent };
    });
    assert(line.scrollWidth <= line.clientWidth && /records/.test(line.textContent), JSON.stringify(line));
    assert(readout.bottom <= player.top || readout.top >= player.bottom || readout.right <= player.left);
    assert(head.right <= toggle.left + 1);
    assert.equal(side.height, 0, "the picture comes first");
    await page.getByLabel("panel").first().tap();
    const sheet = await page.evaluate(() => document.querySelector(".side").getBoundingClientRect().toJSON());
    assert(sheet.width === 390 && sheet.top > 300 && sheet.bottom <= 844, JSON.stringify(sheet));
    await close(page);
  });

  test("all points of a small table are drawn, and the line below says so", async () => {
    const page = await open("table=airway&limit=20000000");
    const { rows, total } = await status(page);
    assert.equal(rows, total);
    await page.waitForFunction(() => /every record in view/.test(document.querySelector(".readout").textContent));
    await close(page);
  });
});
