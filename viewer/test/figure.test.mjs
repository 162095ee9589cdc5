// The figure that the page saves: any size, compared with `kubist plot`, opaque and transparent; and views
// along axes, on the page and in the figure.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inflateSync } from "node:zlib";
import { after, before, describe, test } from "node:test";
import { found, launch, serve } from "./browser.mjs";
import { close, run, settled, status, visit } from "./visit.mjs";

const skip = found ? false : "no Chromium here: apt-get install chromium-headless-shell, or say CHROMIUM=path";

describe("a figure", { skip }, () => {
  let directory, table, server, browser;

  before(async () => {
    directory = mkdtempSync(join(tmpdir(), "kubist-figure-"));
    table = join(directory, "ring.kubist");
    // A ring, denser on its right side, above a bar.
    const lines = Array.from({ length: 2400 }, (_, k) => {
      const angle = 2 * Math.PI * (k / 2400) ** 2;
      const away = 0.06 + 0.02 * ((k * 0.618034) % 1);
      return [k, 0.1 + away * Math.cos(angle), 0.05 + away * Math.sin(angle), 0.01 * ((k * 0.7548777) % 1), (k % 97) / 10, angle < Math.PI ? "upper" : "lower"].join();
    });
    writeFileSync(join(directory, "ring.csv"), `id,x,y,z,speed,side\n${lines.join("\n")}\n`);
    run("ingest", table, join(directory, "ring.csv"), "--dimensions", "x,y,z", "--identity", "id", "--create", "units=x=m,y=m,z=m,speed=m/s");
    server = await serve([table]);
    browser = await launch();
  });

  after(async () => {
    await browser?.close();
    await server?.stop();
    rmSync(directory, { recursive: true, force: true });
  });

  /** Saves the page's figure with its button. */
  async function saved(page, spec) {
    const labels = { title: "title of the figure", width: "width of the figure", height: "height of the figure" };
    for (const [name, label] of Object.entries(labels)) {
      if (spec[name] === undefined) continue;
      await page.getByLabel(label).fill(String(spec[name]));
      await page.getByLabel(label).press("Tab");
    }
    if (spec.form) await page.getByLabel("file format of the figure").selectOption(spec.form);
    if (spec.style) await page.getByLabel("style of the figure").selectOption(spec.style);
    if (spec.isClear) await page.getByLabel("transparent background").check();
    const file = page.waitForEvent("download");
    await page.getByLabel("save the figure").click();
    return readFileSync(await (await file).path());
  }

  /** Properties of a PNG: size, frame of the plot, ink in parts of it, and alpha of the corner. */
  const looked = (page, png, parts) =>
    page.evaluate(async ([source, parts]) => {
      const image = new Image();
      image.src = source;
      await image.decode();
      const { data, width, height } = window.valuesOf(image);
      const isLine = (x, y) => [90, 94, 102].every((value, k) => Math.abs(data[4 * (y * width + x) + k] - value) < 3);
      // The first and last column and row that are a line over most of the picture.
      const columns = [], rows = [];
      for (let x = 0; x < 0.9 * width; x++) {
        let lit = 0;
        for (let y = 0; y < height; y++) lit += isLine(x, y);
        if (lit > 0.4 * height) columns.push(x);
      }
      for (let y = 0; y < height; y++) {
        let lit = 0;
        for (let x = 0; x < width; x++) lit += isLine(x, y);
        if (lit > 0.25 * width) rows.push(y);
      }
      const frame = { left: columns[0], right: columns.at(-1), top: rows[0], bottom: rows.at(-1) };
      const ink = new Array(parts * parts).fill(0);
      for (let y = frame.top + 3; y < frame.bottom - 2; y++) {
        for (let x = frame.left + 3; x < frame.right - 2; x++) {
          const at = 4 * (y * width + x);
          // Colours differ from grey lines.
          const off = Math.max(data[at], data[at + 1], data[at + 2]) - Math.min(data[at], data[at + 1], data[at + 2]);
          const [column, row] = [(x - frame.left) / (frame.right - frame.left), (y - frame.top) / (frame.bottom - frame.top)].map((share) => Math.floor(share * parts));
          if (off > 24) ink[row * parts + column]++;
        }
      }
      return { width, height, frame, ink, corner: data[3] };
    }, [`data:image/png;base64,${png.toString("base64")}`, parts]);

  function correlation(a, b) {
    const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
    const [ma, mb] = [mean(a), mean(b)];
    const sum = (of) => a.reduce((sum, _, k) => sum + of(a[k] - ma, b[k] - mb), 0);
    return sum((p, q) => p * q) / Math.sqrt(sum((p) => p * p) * sum((_, q) => q * q));
  }

  test("it is that of the command: axes, places of the points, size", async (t) => {
    const page = await visit(browser, server.url, "axes=x,y&color=speed&map=viridis&mode=points&size=6&range=0..9.6");
    const look = ["--axes", "x,y", "--style", "point_size=3", "--color", "speed", "--range", "0:9.6", "--title", "A ring"];
    for (const [width, height] of [[1200, 900], [1800, 700]]) {
      const file = join(directory, "plot.png");
      run("plot", table, ...look, "--size", `${width}x${height}`, "-o", file);
      const ours = await looked(page, await saved(page, { width, height, title: "A ring", style: "paper" }), 24);
      const theirs = await looked(page, readFileSync(file), 24);
      assert.deepEqual([ours.width, ours.height], [width, height]);
      for (const side of ["left", "right", "top", "bottom"]) {
        const off = Math.abs(ours.frame[side] - theirs.frame[side]);
        assert(off <= 0.03 * width, `${side} of the frame: ${ours.frame[side]} and ${theirs.frame[side]}`);
      }
      const same = correlation(ours.ink, theirs.ink);
      t.diagnostic(`${width} x ${height}: ${JSON.stringify(ours.frame)} beside ${JSON.stringify(theirs.frame)}, correlation of ink ${same.toFixed(4)}`);
      assert(same > 0.95, `${same}`);
      assert.equal(ours.corner, 255);
    }
    const { rows } = await settled(page);
    assert.equal(rows, 2400);
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
    assert.deepEqual(await page.evaluate(() => [window.kubist.drawing.inks.background, window.kubist.scene.canvas.width]), ["#0b0d12", 984]);
    await close(page);
  });

  /** Texts of an SVG with their positions, its title, and the number of shapes by kind. */
  const read = (page, svg) =>
    page.evaluate((source) => {
      const { documentElement: root } = new DOMParser().parseFromString(source, "image/svg+xml");
      const all = (name) => [...root.getElementsByTagName(name)];
      const texts = all("text").map((text) => [text.textContent, Number(text.getAttribute("x")), Number(text.getAttribute("y")), text.getAttribute("text-anchor")]);
      return { name: root.tagName, title: all("title")[0]?.textContent, desc: all("desc")[0]?.textContent, texts, images: all("image").length, gradients: all("linearGradient").length, faults: all("parsererror").length };
    }, svg.toString());

  test("as SVG it says what the command's SVG says, where that says it", async () => {
    const page = await visit(browser, server.url, "axes=x,y&color=speed&map=viridis&mode=points&size=6&range=0..9.6");
    const file = join(directory, "plot.svg");
    run("plot", table, "--axes", "x,y", "--color", "speed", "--range", "0:9.6", "--title", "A <ring>", "--size", "1200x900", "-o", file);
    const ours = await read(page, await saved(page, { width: 1200, height: 900, title: "A <ring>", style: "paper", form: "svg" }));
    const theirs = await read(page, readFileSync(file));
    assert.deepEqual([ours.name, ours.faults, ours.title, ours.images, ours.gradients], ["svg", 0, "A <ring>", 1, 1]);
    // The captions differ in wording, and the command has space for more colour values.
    const besides = ({ texts, desc }) => texts.filter(([text]) => !desc.includes(text));
    const onAxes = (svg) => besides(svg).filter(([, , , anchor]) => anchor !== "start").map(([text]) => text).sort();
    assert.deepEqual(onAxes(ours), onAxes(theirs));
    assert(onAxes(ours).length > 10, `${onAxes(ours)}`);
    for (const [text, x, y, anchor] of besides(ours)) {
      const same = theirs.texts.filter(([other, , , side]) => other === text && side === anchor);
      const off = Math.min(...same.map(([, otherX, otherY]) => Math.hypot(otherX - x, otherY - y)));
      // Fonts may be wider there.
      assert(off < 0.03 * 1200, `${text} at ${x}, ${y}: ${JSON.stringify(same)} of ${JSON.stringify(theirs.texts)}`);
    }
    await close(page);
  });

  test("as SVG it looks as it does as PNG", async (t) => {
    for (const view of ["axes=x,y&color=speed&mode=points&range=1.7..8.3&measure=0.05,0.05;0.15,0.05", "axes=x,y,z&color=speed", "axes=x,y&color=side&mode=points"]) {
      const page = await visit(browser, server.url, view);
      const spec = { width: 900, height: 675, title: "A ring", style: "dark" };
      const [svg, png] = [await saved(page, { ...spec, form: "svg" }), await saved(page, { ...spec, form: "png" })];
      const { off, words } = await page.evaluate(async (sources) => {
        const seen = async (source) => {
          const image = new Image();
          image.src = source;
          await image.decode();
          return window.valuesOf(image);
        };
        const [{ data: a }, { data: b, width, height }] = [await seen(sources[0]), await seen(sources[1])];
        let off = 0, words = 0;
        for (let k = 0; k < a.length; k += 4) {
          if (Math.abs(a[k] - b[k]) + Math.abs(a[k + 1] - b[k + 1]) + Math.abs(a[k + 2] - b[k + 2]) > 120) off++;
          if ((k / 4) % width < 0.18 * width && b[k] > 120) words++;
        }
        return { off: off / (width * height), words };
      }, [`data:image/svg+xml;base64,${svg.toString("base64")}`, `data:image/png;base64,${png.toString("base64")}`]);
      t.diagnostic(`${view}: ${(100 * off).toFixed(2)} % of the pixels differ`);
      assert(off < 0.01, `${view}: ${off}`);
      if (!view.includes("x,y,z")) assert(words > 30, `${view}: ${words}`);
      const { texts } = await read(page, svg);
      for (const name of ["x [m]", "y [m]"]) assert(texts.some(([text]) => text === name), `${view}: ${JSON.stringify(texts)}`);
      if (view.includes("measure")) assert(texts.some(([text]) => text === "0.1 m"), JSON.stringify(texts));
      await close(page);
    }
  });

  /** The inflated streams of a PDF by object number; checks the offset of each object. */
  function streamsOf(pdf) {
    const text = pdf.toString("latin1");
    const table = Number(/startxref\n(\d+)\n%%EOF\n$/.exec(text)[1]);
    const [, count] = /^xref\n0 (\d+)\n/.exec(text.slice(table));
    const begins = [...text.slice(table).matchAll(/^(\d{10}) 00000 n $/gm)].map(([, begin]) => Number(begin));
    assert.equal(begins.length, count - 1);
    return begins.map((begin, k) => {
      const [head, about, length] = new RegExp(`^${k + 1} 0 obj\n<< (.*?)(?: /Length (\\d+))? >>\n`).exec(text.slice(begin)) ?? assert.fail(`object ${k + 1} is not at ${begin}`);
      const from = begin + head.length + "stream\n".length;
      return { about, stream: length === undefined ? null : inflateSync(pdf.subarray(from, from + Number(length))) };
    });
  }

  test("as PDF it says what it says as SVG, and the points are the same image", async () => {
    const page = await visit(browser, server.url, "axes=x,y&color=speed&map=viridis&mode=points&measure=0.05,0.05;0.15,0.05");
    const spec = { width: 900, height: 675, title: "Ringe: Größe ≤ 1 µm", style: "paper" };
    const svg = await read(page, await saved(page, { ...spec, form: "svg" }));
    const parts = streamsOf(await saved(page, { ...spec, form: "pdf" }));
    const content = parts[3].stream.toString("latin1");
    const latin = (hex) => Buffer.from(hex, "hex").toString("latin1").replaceAll("\x96", "−");
    // Text with a character that Helvetica lacks becomes an image.
    const said = [...content.matchAll(/ Tm <([0-9a-f]+)> Tj/g)].map(([, hex]) => latin(hex));
    assert.deepEqual(said.sort(), svg.texts.map(([text]) => text.replaceAll("\u202f", "\u00a0")).filter((text) => !text.includes("≤")).sort());
    assert(said.includes("x [m]") && said.includes("0.1 m"), said.join());
    const images = parts.filter(({ about }) => /DeviceRGB/.test(about)).map(({ about, stream }) => [...["Width", "Height"].map((side) => Number(new RegExp(`/${side} (\\d+)`).exec(about)[1])), stream.length]);
    assert.equal(images.length, 3, "points, colours, the title");
    for (const [width, height, bytes] of images) assert.equal(bytes, 3 * width * height);
    const title = Buffer.from(/\/Title <feff([0-9a-f]*)>/.exec(parts[5].about)[1], "hex").swap16().toString("utf16le");
    assert.equal(title, spec.title);
    assert.match(parts[2].about, /MediaBox \[0 0 675 506\.25\]/);
    await close(page);
  });

  test("colours have round values with arrows where there are others beyond, categories a key", async () => {
    /** Texts on the figure, and the colours of its filled shapes. */
    const drawn = (page) =>
      page.evaluate(async () => {
        const { fillText, fill, fillRect } = CanvasRenderingContext2D.prototype;
        const [texts, shapes, squares] = [[], [], []];
        Object.assign(CanvasRenderingContext2D.prototype, {
          fillText(text, ...where) { texts.push(text); return fillText.call(this, text, ...where); },
          fill(...what) { if (!this.canvas.isConnected) shapes.push(this.fillStyle); return fill.apply(this, what); },
          fillRect(x, y, wide, tall) { if (!this.canvas.isConnected && wide > 5 && Math.abs(wide - tall) <= 1) squares.push(this.fillStyle); return fillRect.call(this, x, y, wide, tall); },
        });
        window.kubist.figure.style = "paper";
        await window.kubist.picture();
        Object.assign(CanvasRenderingContext2D.prototype, { fillText, fill, fillRect });
        return { texts, shapes, squares };
      });
    const page = await visit(browser, server.url, "axes=x,y&color=speed&mode=points&range=1.7..8.3");
    const some = await drawn(page);
    for (const text of ["2", "4", "6", "8"]) assert(some.texts.includes(text), `${some.texts}`);
    assert(!some.texts.includes("1.7") && some.shapes.length === 2, `${some.shapes}`);
    await close(page);
    const whole = await visit(browser, server.url, "axes=x,y&color=speed&mode=points&range=0..10");
    assert.equal((await drawn(whole)).shapes.length, 0);
    await close(whole);
    const named = await visit(browser, server.url, "axes=x,y&color=side&mode=points");
    const keyed = await drawn(named);
    for (const text of ["side", "upper", "lower"]) assert(keyed.texts.includes(text), `${keyed.texts}`);
    assert.equal(new Set(keyed.squares).size, 2, `${keyed.squares}`);
    await close(named);
  });

  test("without a ground, it is the same over any ground", async () => {
    for (const view of ["axes=x,y&color=speed&mode=points", "axes=x,y,z&color=speed&shaded=1&fog=0.8", "axes=x,y&mode=density&shade=records"]) {
      const page = await visit(browser, server.url, view);
      const spec = { width: 600, height: 450, style: "paper" };
      const opaque = await saved(page, spec);
      const bare = await saved(page, { ...spec, isClear: true });
      const { off, corner } = await page.evaluate(async (sources) => {
        const over = async (source) => {
          const image = new Image();
          image.src = source;
          await image.decode();
          const canvas = document.createElement("canvas");
          [canvas.width, canvas.height] = [image.width, image.height];
          const context = canvas.getContext("2d");
          context.drawImage(image, 0, 0);
          const corner = context.getImageData(0, 0, 1, 1).data[3];
          context.globalCompositeOperation = "destination-over";
          context.fillStyle = "#ffffff";
          context.fillRect(0, 0, canvas.width, canvas.height);
          return { data: context.getImageData(0, 0, canvas.width, canvas.height).data, corner };
        };
        const [a, b] = [await over(sources[0]), await over(sources[1])];
        let off = 0;
        a.data.forEach((value, k) => (off += Math.abs(value - b.data[k]) > 12 ? 1 : 0));
        return { off: off / a.data.length, corner: b.corner };
      }, [opaque, bare].map((png) => `data:image/png;base64,${png.toString("base64")}`));
      assert.equal(corner, 0, `${view}: nothing is behind the corner`);
      assert(off < 0.004, `${view}: ${off} of the values differ`);
      await close(page);
    }
  });

  /** Directions of the axes on the screen in pixels, and whether there is perspective. */
  const directions = (page) =>
    page.evaluate(() => {
      const { scene } = window.kubist;
      const { low, high } = scene.frame;
            scene.updateCamera();
      const from = window.placed(low);
      const to = low.map((_, axis) => window.placed(low.map((end, k) => (k === axis ? high[k] : end))));
      return { parallel: scene.isParallel, ways: to.map((place) => [place[0] - from[0], place[1] - from[1]]) };
    });

  test("a key looks along an axis, and again from the other side", async () => {
    const page = await visit(browser, server.url, "axes=x,y,z&color=speed");
    assert.equal((await directions(page)).parallel, false);
    await page.locator(".stage canvas").first().focus();
    for (const [key, right, up, hidden] of [["x", 2, 1, 0], ["y", 0, 2, 1], ["z", 0, 1, 2]]) {
      const signs = [];
      for (let turn = 0; turn < 2; turn++) {
        await page.keyboard.press(key);
        await settled(page);
        const { parallel, ways } = await directions(page);
        assert(parallel);
        assert(Math.hypot(...ways[hidden]) < 1, `${key} is along the line of sight: ${ways}`);
        assert(Math.abs(ways[right][1]) < 1 && Math.abs(ways[up][0]) < 1, `${key}: ${ways}`);
        const { low, high } = await page.evaluate(() => window.kubist.scene.frame);
        const scales = [right, up].map((axis) => Math.hypot(...ways[axis]) / (high[axis] - low[axis]));
        assert(Math.abs(scales[0] / scales[1] - 1) < 1e-3, `${scales}`);
        signs.push([Math.sign(ways[right][0]), Math.sign(-ways[up][1])].join());
      }
      assert.equal(signs[0], "1,1", `${key}: to the right and up`);
      assert.notEqual(signs[1], signs[0], "from the other side");
    }
    await page.waitForFunction(() => /parallel=1/.test(location.hash));
    const kept = await page.evaluate(() => location.hash.slice(1));
    const again = await visit(browser, server.url, kept.replace("theme=dark&", ""));
    assert((await directions(again)).parallel, "the address keeps it");
    await close(again);
    await page.keyboard.press("o");
    assert.equal((await directions(page)).parallel, false);
    await page.keyboard.press("h");
    await page.waitForFunction(() => !/parallel=/.test(location.hash));
    assert.equal((await status(page)).view.parallel, false);
    await close(page);
  });

  test("what is far away fades, as much as is asked for", async () => {
    const page = await visit(browser, server.url, "axes=x,z,y&color=&shaded=0&size=4");
  /** The brightest grey at both ends of the third axis. */
    const greys = async (fog) => {
      await page.getByLabel("fog").fill(String(fog));
      return page.evaluate(() => {
        const { scene } = window.kubist;
        scene.material.uniforms.fog.value = window.kubist.state.view.fog;
        const { data, width } = window.pictured();
        const brightest = (far) => {
          let most = 0;
          for (const cell of window.kubist.requests.current.tree.cells) {
            for (let row = 0; row < cell.count; row++) {
              const point = cell.low.map((low, k) => low + cell.positions[3 * row + k]);
              // The third axis is from 0 to 0.13.
              if (far ? point[2] > -0.015 : point[2] < 0.115) continue;
              const at = window.placed(point);
              most = Math.max(most, data[4 * (Math.round(at[1]) * width + Math.round(at[0]))] ?? 0);
            }
          }
          return most;
        };
        return { low: brightest(true), high: brightest(false) };
      });
    };
    const without = await greys(0);
    assert(Math.abs(without.low - without.high) <= 2, JSON.stringify(without));
    const deep = await greys(1);
    const [near, far] = [Math.max(deep.low, deep.high), Math.min(deep.low, deep.high)];
    assert(far < 0.9 * near, JSON.stringify(deep));
    assert(near < without.high, JSON.stringify([deep, without]));
    await close(page);
  });
});
