// The second view: its figures compared with the rows, and brushing in each view compared with the other.

import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { found, launch, root, serve } from "./browser.mjs";
import { close, run, settled as arrived, status, visit } from "./visit.mjs";

const skip = found ? false : "no Chromium here: apt-get install chromium-headless-shell, or say CHROMIUM=path";

describe("the second view", { skip }, () => {
  let directory, table, server, browser;
  /** All rows: time, x, ux, diameter. */
  let records;

  before(async () => {
    directory = mkdtempSync(join(tmpdir(), "kubist-linked-"));
    table = join(directory, "airway.kubist");
    const steps = join(root, "examples/airway/steps");
    const files = readdirSync(steps).sort().slice(-12).map((name) => join(steps, name));
    run("ingest", table, ...files, "--dimensions", "x,y,z,time", "--identity", "pid,time", "--create", "units=ux=m/s");
    server = await serve([table]);
    const text = await (await fetch(`${server.url}v1/tables/airway/query`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ columns: ["time", "x", "ux", "diameter"], format: "csv" }),
    })).text();
    records = text.trim().split("\n").slice(1).map((line) => line.split(",").map(Number)).map(([time, x, ux, diameter]) => ({ time, x, ux, diameter }));
    browser = await launch();
  });

  after(async () => {
    await browser?.close();
    await server?.stop();
    rmSync(directory, { recursive: true, force: true });
  });

  const open = (view) => visit(browser, server.url, `axes=x,y,z&${view}`);
  const settled = (page, what = () => true) => arrived(page, (status) => !status.second.busy && status.second.content !== null && status.rows > 0 && what(status));
  const second = async (page) => (await status(page)).second;

  /** Drags over the second view between two positions, in its values. */
  async function brush(page, from, to) {
    const ends = await page.evaluate(([from, to]) => {
      const { left, top, width, height, x, y } = window.kubist.state.second.plot;
      const around = document.querySelector(".second canvas").getBoundingClientRect();
      const place = ([across, up]) => [
        around.left + left + ((across - x.low) / (x.high - x.low)) * width,
        around.top + top + (1 - (up - y.low) / (y.high - y.low)) * height,
      ];
      return [place(from), place(to)];
    }, [from, to]);
    await page.mouse.move(...ends[0]);
    await page.mouse.down();
    await page.mouse.move((ends[0][0] + ends[1][0]) / 2, (ends[0][1] + ends[1][1]) / 2);
    await page.mouse.move(...ends[1]);
    await page.mouse.up();
  }

  /** Bars of a sample agree with all rows up to sampling error. */
  function holds(bars, fraction, of) {
    let [outside, seen] = [0, 0];
    for (const { low, high, value } of bars) {
      const all = of.filter((value) => value >= low && value < high).length;
      if (all * fraction < 20) continue;
      seen++;
      const deviation = Math.sqrt((all * (1 - fraction)) / fraction) || 1e-9;
      if (Math.abs(value - all) > 4.5 * deviation + 0.002 * all) outside++;
    }
    assert(seen > 10, `${seen} bars`);
    assert(outside <= 1, `${outside} of ${seen} bars are not those of the records`);
  }

  test("a histogram counts the records of the selection, and follows a box in the first view", async () => {
    const page = await open("color=ux");
    await page.locator(".stage canvas").first().focus();
    await page.keyboard.press("v");
    const { content } = (await settled(page)).second;
    assert.deepEqual([content.kind, content.columns[0].name], ["histogram", "ux"]);
    holds(content.bars, content.sample.fraction, records.map(({ ux }) => ux));
    await page.waitForFunction(() => /second=histogram%2Cux/.test(location.hash));
    const middle = await page.evaluate(() => {
      const { low, high } = window.kubist.scene.frame;
      const half = (low[0] + high[0]) / 2;
      window.kubist.selecting.setRoi({ low, high: [half, high[1], high[2]] });
      return half;
    });
    const inBox = (await settled(page, (status) => status.inRoi !== null)).second.content;
    const of = records.filter(({ x }) => x <= middle).map(({ ux }) => ux);
    assert(of.length < 0.9 * records.length);
    holds(inBox.bars, inBox.sample.fraction, of);
    await close(page);
  });

  test("brushing a histogram leaves only these records in the first view", async () => {
    const page = await open("color=ux&second=log-histogram,diameter");
    const before = (await settled(page)).second.content;
    const { low, high } = before.x;
    const [from, to] = [low + 0.3 * (high - low), low + 0.6 * (high - low)];
    await brush(page, [from, before.y.low], [to, before.y.low]);
    const { total, view } = await settled(page, ({ view }) => view.filters.length === 1);
    const [filter] = view.filters;
    assert.equal(filter.column, "diameter");
    assert(Math.abs(filter.low - from) < 0.02 * (high - low) && Math.abs(filter.high - to) < 0.02 * (high - low), JSON.stringify(filter));
    const left = records.filter(({ diameter }) => diameter >= filter.low && diameter <= filter.high).length;
    assert.equal(total, left);
    assert(left > 0 && left < records.length);
    const { content } = await second(page);
    assert.equal(content.sample.rows, before.sample.rows);
    // It is a filter like others: in the panel, and removed by a double click.
    await page.locator('[aria-label="Filter"] [data-column="diameter"]').waitFor();
    const around = await page.locator(".second canvas").boundingBox();
    await page.mouse.dblclick(around.x + around.width / 2, around.y + 60);
    const all = await settled(page, ({ view }) => view.filters.length === 0);
    assert.equal(all.total, records.length);
    await close(page);
  });

  test("an end of what is brushed can be moved, and all of it", async () => {
    const page = await open("second=histogram,x&box=x%3D0.05..0.1");
    const { y } = (await settled(page)).second.content;
    const middle = y.low + 0.5 * (y.high - y.low);
    const range = async () => (await status(page)).view.filters.map(({ low, high }) => [low, high])[0];
    await brush(page, [0.1, middle], [0.15, middle]);
    await settled(page, ({ view }) => view.filters[0].high > 0.14);
    assert.equal((await range())[0], 0.05, "the other end stays");
    await brush(page, [0.09, middle], [0.07, middle]);
    await settled(page, ({ view }) => view.filters[0].low < 0.04);
    const [low, high] = await range();
    assert(Math.abs(high - low - 0.1) < 0.004, `${low} to ${high}`);
    await close(page);
  });

  test("a rectangle in a scatter plot narrows both columns", async () => {
    const page = await open("color=ux&second=scatter,x,diameter");
    const { content } = (await settled(page)).second;
    const [x, y] = [content.x, content.y];
    const along = ({ low, high }, share) => low + share * (high - low);
    await brush(page, [along(x, 0.2), along(y, 0.2)], [along(x, 0.7), along(y, 0.8)]);
    const { view, total } = await settled(page, ({ view }) => view.filters.length === 2);
    const [a, b] = ["x", "diameter"].map((name) => view.filters.find(({ column }) => column === name));
    assert(Math.abs(a.low - along(x, 0.2)) < 0.02 * (x.high - x.low), JSON.stringify(a));
    assert.equal(total, records.filter((of) => of.x >= a.low && of.x <= a.high && of.diameter >= b.low && of.diameter <= b.high).length);
    const values = content.sample.values[2];
    assert(values && new Set(Object.values(values)).size > 100);
    await close(page);
  });

  test("what is shown is busy from the moment that the view asks for something else", async () => {
    const page = await open("second=histogram,x");
    await settled(page);
    const isBusy = await page.evaluate(async () => {
      const { selecting } = window.kubist;
      const seen = [];
      const look = () => seen.push(window.kubist.status().busy || window.kubist.status().total === null);
      selecting.narrow("x", 0.05, 0.1);
      selecting.filtered(false);
      for (let frame = 0; frame < 4; frame++) {
        look();
        await new Promise(requestAnimationFrame);
      }
      return seen;
    });
    assert(isBusy.every(Boolean), `${isBusy}`);
    const { total } = await settled(page);
    assert.equal(total, records.filter(({ x }) => x >= 0.05 && x <= 0.1).length);
    await close(page);
  });

  test("a series has the means of the records, and a brush on it is a range of time", async () => {
    const page = await open("second=series,time,ux");
    const { content } = (await settled(page)).second;
    const times = [...new Set(records.map(({ time }) => time))].sort((a, b) => a - b);
    assert.equal(content.bars.length, times.length, "a place for each time");
    let outside = 0;
    content.bars.forEach(({ value, from, to }, k) => {
      const of = records.filter(({ time }) => time === times[k]).map(({ ux }) => ux);
      const mean = of.reduce((sum, ux) => sum + ux, 0) / of.length;
      if (mean < from - 1e-6 * Math.abs(mean) || mean > to + 1e-6 * Math.abs(mean)) outside++;
      assert(Math.abs(value - mean) < 0.25 * Math.abs(mean), `${value} and not ${mean}`);
    });
    // More than three of twelve 95 % intervals miss once in 2,000 times.
    assert(outside <= 3, `${outside} intervals miss`);
    const middle = (content.y.low + content.y.high) / 2;
    const between = (k) => (times[k] + times[k + 1]) / 2;
    await brush(page, [between(2), middle], [between(6), middle]);
    const { total, view } = await settled(page, ({ view }) => view.time !== null);
    assert.equal(view.time.column, "time");
    assert.equal(total, records.filter(({ time }) => time > between(2) && time < between(6)).length);
    await close(page);
  });

  test("a view of columns that the table lacks is none, and it is closed as it was opened", async () => {
    const page = await open("second=histogram,nothing");
    assert.equal((await status(page)).view.second, null);
    await page.getByLabel("second view", { exact: true }).selectOption("scatter");
    await settled(page);
    await page.getByLabel("close the second view").click();
    await page.waitForFunction(() => !/second=/.test(location.hash));
    assert.equal(await page.evaluate(() => document.querySelector(".second").offsetHeight), 0);
    await close(page);
  });
});
