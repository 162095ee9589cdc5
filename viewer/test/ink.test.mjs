// The ink on the screen is proportional to the number of rows: pixels against fields of known density, as
// points and as densities, on the processor and the graphics card, during loading and afterwards.
//
// The picture shows a sample, so with few points chance lowers the correlation of ink and rows. This effect
// is known: a row that is drawn with probability 1/w and weight w adds w (w - 1) to the variance of a
// block's ink. The test subtracts this variance (correction for attenuation; Spearman 1904), which gives
// the correlation of the *expected* ink with the density. It is at least 0.99 for all budgets and at all
// times, and without correction for many points. Ink that ignores weights fails both tests.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { found, launch, serve } from "./browser.mjs";
import { close, newPage, run, settled } from "./visit.mjs";

const COUNT = 300_000;
const BLOCK = 32;
/** The area of a point of size 1.2. */
const POINT = (Math.PI / 4) * 1.2 ** 2;
/** Borders are examined if the fractions of both sides differ by this factor. */
const CONTRAST = 2;
/** A normal deviate exceeds this with probability one in a million; */
const RARE = 4.8916;
/** and this is the same quantile of a sum of squares (Wilson and Hilferty, 1931). */
const rarest = (squares) => squares * (1 - 2 / (9 * squares) + 4.7534 * Math.sqrt(2 / (9 * squares))) ** 3;
const skip = found ? false : "no Chromium here: apt-get install chromium-headless-shell, or say CHROMIUM=path";

/** Random numbers with a fixed seed. */
function random(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const draw = random(3);
const FIELDS = {
  uniform: () => [draw(), draw()],
  gradient: () => [Math.sqrt(draw()), draw()],
  clusters: () => {
    if (draw() < 0.35) return [draw(), draw()];
    const center = [0.27, 0.68, 0.5][Math.floor(3 * draw())];
    const [away, angle] = [0.3 * draw() ** 1.3, 2 * Math.PI * draw()];
    const at = [center + away * Math.cos(angle), 1 - center + away * Math.sin(angle)];
    return at.every((value) => value > 0 && value < 1) ? at : [draw(), draw()];
  },
};

function correlation(a, b) {
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const [ma, mb] = [mean(a), mean(b)];
  let [ab, aa, bb] = [0, 0, 0];
  a.forEach((value, k) => {
    ab += (value - ma) * (b[k] - mb);
    aa += (value - ma) ** 2;
    bb += (b[k] - mb) ** 2;
  });
  return ab / Math.sqrt(aa * bb);
}

/** The correlation of a block's expected ink with the truth, from the weights drawn there and their variance. */
function expected(ink, truth, drawn, chance) {
  const sum = (values) => values.reduce((sum, value) => sum + value, 0);
  const unit = sum(ink) / sum(drawn);
  const mean = sum(ink) / ink.length;
  const all = sum(ink.map((value) => (value - mean) ** 2));
  return correlation(ink, truth) * Math.sqrt(all / (all - unit ** 2 * sum(chance)));
}

/** Functions within the page: its size, the ink in a rectangle, and the positions of the field's corners. */
function lookAtInk() {
  window.inked = () => {
    const { data, width, height } = window.pictured();
    const { scene, drawing, state } = window.kubist;
    const [low, high] = [window.placed([0, 0]), window.placed([1, 1])];
    const bare = Math.round(255 * scene.material.uniforms.background.value.r);
    const dark = drawing.colors()[0];
    const { low: least, high: most } = drawing.density.toning;
    const told = (grey) =>
      grey < dark ? (Math.exp(least) * (grey - bare)) / (dark - bare) : (Math.exp(most) * (grey - dark)) / (255 - dark);
    const inkOf = state.shown.dense ? told : (grey) => grey - bare;
    const inkIn = (left, top, right, bottom) => {
      let ink = 0;
      for (let y = top; y < bottom; y++) for (let x = left; x < right; x++) ink += Math.max(0, inkOf(data[4 * (y * width + x)]));
      return ink;
    };
    const table = (px, axis) => (px - low[axis]) / (high[axis] - low[axis]);
    return { width, height, inkIn, table, low, high };
  };
}

/** The mean squared deviation relative to the mean. */
const spread = (values) => {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return values.reduce((sum, value) => sum + (value / mean - 1) ** 2, 0) / values.length;
};

describe("the ink", { skip }, () => {
  let directory, server, browser;
  const records = {};
  const pages = [];

  before(async () => {
    directory = mkdtempSync(join(tmpdir(), "kubist-ink-"));
    const tables = [];
    for (const [name, of] of Object.entries(FIELDS)) {
      records[name] = Array.from({ length: COUNT }, of);
      const file = join(directory, `${name}.csv`);
      writeFileSync(file, `id,x,y\n${records[name].map(([x, y], k) => `${k},${x},${y}`).join("\n")}\n`);
      tables.push(join(directory, `${name}.kubist`));
      run("ingest", tables.at(-1), file, "--dimensions", "x,y", "--identity", "id");
    }
    server = await serve(tables);
    browser = await launch();
  });

  after(async () => {
    for (const page of pages) page.free = Infinity;
    await browser?.close();
    await server?.stop();
    rmSync(directory, { recursive: true, force: true });
  });

  /**
   * Ink in blocks of the picture inside the field, the corners of the field, and the drawn points with
   * their weights. A density's ink is the legend's value of its grey.
   */
  const inked = (page) =>
    page.evaluate((block) => {
      const { requests } = window.kubist;
      const { width, height, inkIn, table, low, high } = window.inked();
      const blocks = [];
      for (let top = Math.max(0, Math.ceil(high[1])); top + block <= Math.min(height, low[1]); top += block) {
        for (let left = Math.max(0, Math.ceil(low[0])); left + block <= Math.min(width, high[0]); left += block) {
          const ink = inkIn(left, top, left + block, top + block);
          blocks.push({ ink, low: [table(left, 0), table(top + block, 1)], high: [table(left + block, 0), table(top, 1)] });
        }
      }
      const { tree, choice, fading } = requests.current;
      const points = [];
      for (const cell of tree.cells) {
        for (let row = 0; row < fading.inkOf(cell).rows; row++) {
          points.push([cell.positions[2 * row] + cell.low[0], cell.positions[2 * row + 1] + cell.low[1], fading.weightOf(cell, row)]);
        }
      }
      return { blocks, points, rows: choice.rows, fraction: [...choice.fraction] };
    }, BLOCK);

  /**
   * At borders between fractions: the ink in a strip on each side, an eighth of the finer part wide, and
   * the variance of its weights. `alike`: all points have the same weight.
   */
  const bordering = (page, alike) =>
    page.evaluate(([alike, least]) => {
      const { scene, requests: { current } } = window.kubist;
      scene.roiBox.visible = false;
      scene.material.uniforms.roiOn.value = false;
      const { fading } = current;
      if (alike) fading.alike = 1;
      const { width, height, inkIn, table } = window.inked();
      fading.alike = 0;
      const parts = [];
      const walk = (at) => {
        for (const child of at.children) {
          if (!child || child.pixels === 0) continue;
          if (child.drawn) walk(child);
          else parts.push({ low: child.low, high: child.high, end: at.end });
        }
        if (at.children.every((child) => !child)) parts.push(at);
      };
      walk(current.tree.root);
      const points = [];
      for (const cell of current.tree.cells) {
        for (let row = 0; row < cell.count; row++) points.push([cell.positions[2 * row] + cell.low[0], cell.positions[2 * row + 1] + cell.low[1], fading.weightOf(cell, row)]);
      }
      /** A rectangle of the table, on whole pixels. */
      const strip = (low, high) => {
        const [from, to] = [low, high].map((at) => window.placed(at.map((value) => Math.min(1, Math.max(0, value)))));
        const [left, right, top, bottom] = [from[0], to[0], to[1], from[1]].map(Math.round);
        if (left < 0 || top < 0 || right > width || bottom > height || right - left < 6 || bottom - top < 6) return null;
        const box = { low: [table(left, 0), table(bottom, 1)], high: [table(right, 0), table(top, 1)] };
        let variance = 0;
        for (const [x, y, weight] of points) {
          if (x >= box.low[0] && x < box.high[0] && y >= box.low[1] && y < box.high[1]) variance += weight * (weight - 1);
        }
        return { ink: inkIn(left, top, right, bottom), variance, ...box };
      };
      const borders = [];
      for (const part of parts) {
        for (const axis of [0, 1]) {
          for (const side of [0, 1]) {
            const border = side ? part.high[axis] : part.low[axis];
            const beyond = part.low.map((low, k) => (k === axis ? border + (side ? 1e-6 : -1e-6) : (low + part.high[k]) / 2));
            const beside = parts.find(({ low, high }) => low.every((low, k) => beyond[k] >= low && beyond[k] < high[k]));
            if (!beside || part.end < least * beside.end || beside.high[0] - beside.low[0] < part.high[0] - part.low[0]) continue;
            const wide = (side ? 1 : -1) * ((part.high[axis] - part.low[axis]) / 8);
            const strips = [-wide, wide].map((wide) => {
              const [low, high] = [[...part.low], [...part.high]];
              [low[axis], high[axis]] = [border, border + wide].sort((a, b) => a - b);
              return strip(low, high);
            });
            if (strips.every(Boolean)) borders.push(strips);
          }
        }
      }
      return borders;
    }, [alike, CONTRAST]);

  /**
   * Ratio of ink per row between the finer and the coarser side, as the mean of all borders and in standard
   * deviations; and the sum of squares of each border.
   */
  function steps(borders, points) {
    const within = ({ low, high }) => points.reduce((sum, [x, y]) => sum + (x >= low[0] && x < high[0] && y >= low[1] && y < high[1]), 0);
    const kept = borders.map((strips) => strips.map((strip) => ({ ...strip, records: within(strip) }))).filter((strips) => strips.every(({ records }) => records > 50));
    const sum = (values) => values.reduce((sum, value) => sum + value, 0);
    const unit = sum(kept.flat().map(({ ink }) => ink)) / sum(kept.flat().map(({ records }) => records));
    const seen = kept.map((strips) => {
      const [fine, coarse] = strips.map(({ ink, records }) => ink / unit / records);
      return { step: fine - coarse, weight: 1 / sum(strips.map(({ variance, records }) => variance / records ** 2)) };
    });
    const step = sum(seen.map(({ step, weight }) => step * weight)) / sum(seen.map(({ weight }) => weight));
    const deviations = step * Math.sqrt(sum(seen.map(({ weight }) => weight)));
    return { borders: kept.length, step, deviations, square: sum(seen.map(({ step, weight }) => step ** 2 * weight)) };
  }

  /** The number of rows per block, or the sum of weights. */
  function counted(points, blocks) {
    const counts = new Array(blocks.length).fill(0);
    const lows = [...new Set(blocks.map(({ low }) => low[0]))].sort((a, b) => a - b);
    const tops = [...new Set(blocks.map(({ high }) => high[1]))].sort((a, b) => b - a);
    const { low, high } = blocks[0];
    const [wide, tall] = [high[0] - low[0], high[1] - low[1]];
    for (const [x, y, weight = 1] of points) {
      const column = Math.floor((x - lows[0]) / wide);
      const line = Math.floor((tops[0] - y) / tall);
      if (column >= 0 && line >= 0 && column < lows.length && line < tops.length) counts[line * lows.length + column] += weight;
    }
    return counts;
  }

  async function opened(view) {
    const page = await newPage(browser, { viewport: { width: 1036, height: 740 } });
    await page.addInitScript(lookAtInk);
    page.free = Infinity;
    page.asked = 0;
    pages.push(page);
    await page.route("**/points", async (route) => {
      const turn = ++page.asked;
      while (turn > page.free) await new Promise((done) => setTimeout(done, 15));
      await route.continue().catch(() => {});
    });
    page.first = () => page.goto(`${server.url}#theme=dark&axes=x,y&color=&map=gray&tone=linear&live=0&${view}`);
    return page;
  }

  const zoom = (page, factor) =>
    page.evaluate((factor) => {
      const { scene, drawing } = window.kubist;
      scene.camera.zoom = factor;
      scene.camera.position.x = scene.controls.target.x = 0.13;
      scene.camera.updateProjectionMatrix();
      scene.controls.update();
      scene.isPlaced = true;
      drawing.invalidate();
    }, factor);

  for (const name of Object.keys(FIELDS)) {
    for (const mode of ["points", "density"]) {
      test(`${mode} of a field: ${name}`, async (t) => {
        for (const budget of mode === "points" ? [50_000, 90_000] : [150_000]) {
          const page = await opened(`table=${name}&mode=${mode}&size=1.2&limit=${budget}`);
          page.free = 1;
          await page.first();
          await page.waitForFunction(() => window.kubist?.status().firstPoints != null);
          for (const moment of ["first", "some", "all", "zoomed"]) {
            page.free = { first: 1, some: 2 }[moment] ?? Infinity;
            if (moment === "zoomed") await zoom(page, 1.8);
            if (page.free === Infinity) await settled(page);
            else await page.waitForFunction((least) => window.kubist.status().received > least, moment === "some" ? 30_000 : 10_000);
            for (const card of mode === "density" && moment === "all" ? [false, true] : [false]) {
              await page.evaluate((card) => (window.kubist.drawing.density.onCard = card), card);
              const { blocks: all, points, rows, fraction } = await inked(page);
              const share = fraction[0];
              // Where points cover the background, more of them give no more ink; densities are shown
              // there.
              const isCovered = (count) => mode === "points" && count * share * POINT > 0.4 * BLOCK ** 2;
              const inAll = counted(records[name], all);
              const blocks = all.filter((_, k) => !isCovered(inAll[k]));
              const truth = inAll.filter((count) => !isCovered(count));
              assert(blocks.length > 0.5 * all.length && all.length > 150, `${blocks.length} blocks of ${all.length}`);
              const ink = blocks.map(({ ink }) => ink);
              const open = (counts) => counts.filter((_, k) => !isCovered(inAll[k]));
              const chance = open(counted(points.map(([x, y, weight]) => [x, y, weight * (weight - 1)]), all));
              const what = `${name}, ${mode}${card ? " by the card" : ""}, ${moment}, ${rows} points, fraction ${fraction.map((end) => end.toFixed(3))}`;
              if (name === "uniform") {
                // Blocks differ only by sampling error, not by fraction.
                const sum = (values) => values.reduce((sum, value) => sum + value, 0);
                const [seen, own] = [spread(ink), ((sum(chance) + sum(truth)) * truth.length) / sum(truth) ** 2];
                t.diagnostic(`${what}: spread ${seen.toExponential(2)}, by chance ${own.toExponential(2)}`);
                assert(seen < 1.6 * own + 1e-4, what);
              } else {
                const sample = open(counted(records[name].filter(() => draw() < share), all));
                const drawn = open(counted(points, all));
                const [seen, own, best] = [correlation(ink, truth), correlation(drawn, truth), correlation(sample, truth)];
                const told = correlation(ink, drawn);
                const mean = expected(ink, truth, drawn, chance);
                t.diagnostic(`${what}: correlation of the expected ink ${mean.toFixed(4)}, of ink ${seen.toFixed(4)}, of the points' weights ${own.toFixed(4)}, of a sample ${best.toFixed(4)}; of ink and weights ${told.toFixed(4)}`);
                assert(told >= 0.99, `${what}: the ink is not that of the points: ${told}`);
                assert(mean >= 0.99 && mean < 1.02, `${what}: ${mean}`);
                if (own >= 0.993) assert(seen >= 0.99, `${what}: ${seen}`);
              }
            }
          }
          await close(page);
        }
      });
    }
  }

  for (const [name, mode] of [["uniform", "points"], ["uniform", "density"], ["gradient", "density"]]) {
    test(`no step shows where cells of different fraction meet: ${mode} of ${name}`, async (t) => {
      for (const box of ["0.58..0.9,0.55..0.94", "0.55..0.91,0.08..0.43"]) {
        const page = await opened(`table=${name}&mode=${mode}&size=1.2&limit=40000&roi=${box}`);
        await page.first();
        for (const zoomed of [false, true]) {
          if (zoomed) await zoom(page, 1.8);
          await settled(page);
          // Drawn points stay while in view; this test needs only the points that the view asks for.
          await page.evaluate(() => {
            window.kubist.requests.current.tree.release();
            window.kubist.drawing.invalidate();
          });
          const { fraction } = await settled(page, ({ weighted }) => weighted);
          const seen = steps(await bordering(page, false), records[name]);
          const alike = steps(await bordering(page, true), records[name]);
          const told = ({ step, deviations, square }) => `a step of ${(100 * step).toFixed(1)} %, ${deviations.toFixed(1)} deviations, squares ${square.toFixed(1)}`;
          const most = rarest(seen.borders);
          t.diagnostic(`${box}${zoomed ? " zoomed" : ""}, fraction ${fraction.map((end) => end.toFixed(3))}, ${seen.borders} borders: ${told(seen)} of at most ${most.toFixed(1)}; points alike: ${told(alike)}`);
          assert(seen.borders >= 4, `${seen.borders} borders`);
          assert(Math.abs(seen.deviations) < RARE && seen.square < most, told(seen));
          // Otherwise such borders would test nothing.
          assert(alike.deviations > RARE && alike.square > most, told(alike));
        }
        await close(page);
      }
    });
  }

  test("even detail does not follow it", async (t) => {
    const page = await opened("table=clusters&mode=points&size=1.2&limit=70000&even=1");
    await page.first();
    await settled(page);
    const { blocks, points } = await inked(page);
    const ink = blocks.map(({ ink }) => ink);
    const truth = counted(records.clusters, blocks);
    assert(correlation(ink, truth) < 0.97);
    // Not chance, because here each point counts once.
    const drawn = counted(points.map(([x, y]) => [x, y, 1]), blocks);
    const chance = counted(points.map(([x, y, weight]) => [x, y, 1 - 1 / weight]), blocks);
    const mean = expected(ink, truth, drawn, chance);
    t.diagnostic(`the expected ink of even detail: ${mean.toFixed(4)}`);
    assert(mean < 0.97, `${mean}`);
    await close(page);
  });

  test("crowded points become densities, and points again", async () => {
    const page = await opened("table=clusters&limit=300000");
    await page.first();
    await settled(page, (status) => status.rows > 0 && status.dense);
    await page.waitForFunction(() => /as densities/.test(document.querySelector(".readout").textContent));
    await zoom(page, 60);
    await settled(page, (status) => status.rows > 0 && !status.dense);
    await close(page);
  });
});
