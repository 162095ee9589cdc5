/** The cells of a view, filled from rows in memory, under a moving camera. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { rowsOf, type Column } from "../src/api";
import { marksOf } from "../src/axismarks";
import { FrameReader, type Frame } from "../src/frames";
import { categories, contrast, COLORMAPS, palette, ramp, type Rgb } from "../src/colormaps";
import { dateTicks, millisecondsOf } from "../src/dates";
import { fromAddress, toAddress } from "../src/view";
import { sumOf, toning, TONES } from "../src/tones";
import { segments } from "../src/trails";
import { generator } from "../src/shuffle";
import type { Cell } from "../src/cell";
import { Tree } from "../src/tree";
import { Server, settle, Window, type Record } from "./world";

/** Half uniform, half in a few small clusters, some outside of the box. */
function world(count: number, axes: number): Record[] {
  const draw = generator(axes);
  const centers = Array.from({ length: 5 }, () => Array.from({ length: axes }, draw));
  return Array.from({ length: count }, (_, k) => {
    const center = centers[Math.floor(draw() * 5)];
    const at = k % 2 ? center.map((value) => value + 0.002 * (draw() - 0.5)) : center.map(() => 1.04 * draw() - 0.02);
    return { at: at.map(Math.fround), priority: draw() };
  });
}

for (const axes of [2, 3]) {
  const records = world(120_000, axes);
  const box = () => [new Array(axes).fill(0), new Array(axes).fill(1)];

  test(`what is drawn is a sample of each region, in ${axes} dimensions`, () => {
    const [low, high] = box();
    const tree = new Tree(low, high, records.length, () => {}, () => {});
    const server = new Server(records);
    settle(tree, server, new Window([0.5, 0.5], 1.2), 60_000);
    const drawn = [...tree.cells].filter((cell) => cell.drawn);
    let points = 0;
    for (const cell of drawn) {
      points += cell.count;
      // A cell with drawn descendants is drawn completely, other cells up to their end.
      const isInner = cell.children.some((child) => child?.drawn);
      assert.equal(cell.end, isInner ? cell.window[1] : Math.min(cell.end, cell.window[1]));
      const share = (cell.end - cell.window[0]) / (cell.window[1] - cell.window[0]);
      assert(Math.abs(cell.count - share * cell.rows) <= 1, `${cell.count} of ${cell.rows} rows at a share of ${share}`);
      const inside = records.filter(
        ({ at, priority }) =>
          priority >= cell.window[0] && priority < cell.window[1] &&
          at.every((value, k) => (cell.openLow[k] || value >= cell.low[k]) && (cell.openHigh[k] || value < cell.high[k])),
      );
      assert.equal(cell.rows, inside.length);
      const place = (at: ArrayLike<number>) => Array.from(at).map((value) => value.toPrecision(5)).join();
      const rows = Array.from({ length: cell.rows }, (_, row) => place(cell.positions.subarray(axes * row, axes * (row + 1))));
      const offsets = Float32Array.from(inside.flatMap(({ at }) => at.map((value, k) => value - cell.low[k])));
      assert.deepEqual(rows.sort(), inside.map((_, row) => place(offsets.subarray(axes * row, axes * (row + 1)))).sort());
    }
    assert(points > 40_000 && points < 66_000, `${points} points under a budget of 60,000`);
  });

  test(`panning takes away no point that stays in view, in ${axes} dimensions`, () => {
    const [low, high] = box();
    const tree = new Tree(low, high, records.length, () => {}, () => {});
    const server = new Server(records);
    const eye = new Window([0.3, 0.5], 0.3);
    settle(tree, server, eye, 40_000);
    for (let step = 0; step < 60; step++) {
      const before = [...tree.cells].filter((cell) => cell.drawn);
      const counts = before.map((cell) => cell.count);
      eye.middle = [0.3 + 0.25 * Math.sin(step / 7), 0.5 + 0.2 * Math.sin(step / 11)];
      const { wanted } = tree.choose(eye, 40_000);
      before.forEach((cell, k) => assert(cell.count >= counts[k] || eye.pixels(cell) === 0, "it is in view and gone"));
      for (const cell of wanted.slice(0, 6)) server.fill(tree, cell);
    }
    settle(tree, server, eye, 40_000);
  });

  test(`a small budget is no reason to ask twice, in ${axes} dimensions`, () => {
    for (const budget of [10_000, 25_000, 40_000]) {
      const [low, high] = box();
      const tree = new Tree(low, high, records.length, () => {}, () => {});
      const server = new Server(records);
      const eye = new Window([0.5, 0.5], 0.4);
      const choose = tree.choose.bind(tree);
      tree.choose = (...of) => {
        const choice = choose(...of);
        tree.forget(3 * budget);
        return choice;
      };
      settle(tree, server, eye, budget);
    }
  });

  test(`a partial copy is asked for no more than it holds, in ${axes} dimensions`, () => {
    const [low, high] = box();
    const tree = new Tree(low, high, records.length, () => {}, () => {}, 0.3);
    settle(tree, new Server(records), new Window([0.5, 0.5], 0.1), 60_000);
    const ends = [...tree.cells].map((cell) => cell.window[1]);
    assert.equal(Math.max(...ends), 0.3);
    assert(ends.every((end) => end <= 0.3));
  });

  test(`coming back asks for nothing again, in ${axes} dimensions`, () => {
    const [low, high] = box();
    const tree = new Tree(low, high, records.length, () => {}, () => {});
    const server = new Server(records);
    settle(tree, server, new Window([0.25, 0.5], 0.2), 50_000);
    settle(tree, server, new Window([0.75, 0.5], 0.2), 50_000);
    const { sent } = server;
    settle(tree, server, new Window([0.25, 0.5], 0.2), 50_000);
    assert.equal(server.sent, sent);
  });
}

test("what is long out of view is forgotten, leaves first", () => {
  const records = world(200_000, 2);
  const gone = new Set<Cell>();
  const tree = new Tree([0, 0], [1, 1], records.length, () => {}, (cell) => gone.add(cell));
  const server = new Server(records);
  settle(tree, server, new Window([0.1, 0.1], 0.1), 50_000);
  settle(tree, server, new Window([0.9, 0.9], 0.1), 50_000);
  const held = () => [...tree.cells].reduce((rows, cell) => rows + cell.rows, 0);
  tree.forget(30_000);
  assert(held() <= 40_000 && gone.size > 0);
  for (const cell of tree.cells) assert(!cell.parent || tree.cells.has(cell.parent));
});

test("frames come out whole, wherever they were cut", () => {
  const bytes = new Uint8Array(2 * 16 + 3 * 4 * 3);
  const view = new DataView(bytes.buffer);
  [5, 3, 0, 0].forEach((word, k) => view.setUint32(4 * k, word, true));
  for (let k = 0; k < 9; k++) view.setFloat32(16 + 4 * k, k + 0.5, true);
  [5, 0, 1, 0].forEach((word, k) => view.setUint32(52 + 4 * k, word, true));
  for (let size = 1; size <= bytes.length; size++) {
    const frames: Frame[] = [];
    const reader = new FrameReader(2, 1, (frame) => frames.push(frame));
    for (let at = 0; at < bytes.length; at += size) reader.push(bytes.subarray(at, at + size));
    reader.end();
    assert.deepEqual(frames.map((frame) => [frame.cell, frame.rows, frame.last]), [[5, 3, false], [5, 0, true]]);
    assert.deepEqual([...frames[0].positions], [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]);
    assert.deepEqual([...frames[0].columns[0]], [6.5, 7.5, 8.5]);
  }
  const reader = new FrameReader(2, 1, () => {});
  reader.push(bytes.subarray(0, 30));
  assert.throws(() => reader.end());
});

test("an address keeps the view, and nonsense in it does no harm", () => {
  const view = fromAddress(
    "table=run&axes=x,y,z&color=ux&map=viridis&log=1&range=1..5.5&box=d%3D..3&box=a%3Db%3D1..&where=x+%3E+1&time=t%3D0.25..0.25&roi=0..1,2..3,4..5&clip=1&limit=50000&even=1&size=3&sizein=units&sizeby=d&width=0.25&mode=density&shade=maximum&frame=0..1,2..4,-1..1&theme=dark&camera=1,2,3,4,5,6,1",
  );
  assert.deepEqual(fromAddress(toAddress(view)), view);
  assert.deepEqual(view.filters, [{ column: "d", low: null, high: 3 }, { column: "a=b", low: 1, high: null }]);
  assert.deepEqual(view.roi, { low: [0, 2, 4], high: [1, 3, 5] });
  const flat = fromAddress("table=run&axes=x,y&lasso=0,0;1,0;0.5,2.5&measure=1,2;3,4&clip=1");
  assert.deepEqual(fromAddress(toAddress(flat)), flat);
  assert(flat.lasso?.length === 3 && flat.measure?.length === 2 && flat.clip);
  for (const bad of ["axes=x,y&lasso=1,2;3;4,5", "axes=x,y&measure=a,b", "clip=1", "range=5..1", "roi=a..b", "camera=1,2", "limit=-5", "box=x=a..b", "time=t", "%%%", "axes=,,,", "axes=a,b&frame=1..0,2..3&camera=1,2,3,4,5,6,1"]) fromAddress(bad);
});

test("marks of different values have different texts", () => {
  const column = (data_type: string) => ({ name: "a", data_type, kind: "number", unit: null }) as Column;
  for (const [low, high] of [[0, 1], [4e6, 4.02e6], [1.7e15, 1.71e15], [636000, 637100], [4e-4, 4.02e-4], [-1e20, 1e20]]) {
    const texts = marksOf(column("Float64"), low, high, 6).map(({ text }) => text);
    assert(texts.length > 2 && new Set(texts).size === texts.length, `${texts}`);
    for (const { at, text } of marksOf(column("Float64"), low, high, 6)) assert(Math.abs(Number(text) - at) <= 1e-9 * Math.max(Math.abs(low), Math.abs(high)), `${text} at ${at}`);
  }
});

test("a value in quotes is one value", () => {
  assert.deepEqual(rowsOf('a,b\n1,"x, ""y""\nz"\n,2\n'), [["a", "b"], ["1", 'x, "y"\nz'], ["", "2"]]);
  assert.deepEqual(rowsOf("a,b\r\n"), [["a", "b"]]);
});

test("lines go from record to record of one trajectory, in the order of time", () => {
  const of = Float32Array.of(1, 0, 1, 0, 1, 2, -1, -1);
  const time = Float32Array.of(3, 5, 1, 4, 2, 9, 1, 2);
  assert.deepEqual([...segments(of, time)], [3, 1, 2, 4, 4, 0]);
  const some = Float32Array.of(NaN, 2, 1, 2, 3);
  assert.deepEqual([...segments(new Float32Array(5), some)], [2, 1, 3, 4]);
});

const THEMES: Rgb[] = [[11, 13, 18], [251, 250, 248]];

test("every colour of every map can be seen on both themes", () => {
  for (const background of THEMES) {
    for (const name of Object.keys(COLORMAPS)) {
      const colors = ramp(name, background);
      for (let k = 0; k < 256; k++) {
        const color = [...colors.subarray(4 * k, 4 * k + 3)] as Rgb;
        assert(contrast(color, background) >= 2, `${name} at ${k} on ${background}: ${color}`);
      }
    }
  }
});

test("shades tell the sums that they stand for, in every tone", () => {
  const sums = new Float32Array(4 * 5000);
  for (let k = 0; k < 5000; k++) sums[4 * k + 3] = k % 3 === 0 ? 0 : 1 + (k % 97) ** 2;
  for (const tone of TONES) {
    const { shades, ...ends } = toning(tone, sums, 4, 3);
    assert(shades.every((shade, k) => k === 0 || shade >= shades[k - 1]), `${tone} is not even`);
    assert(shades[255] > 0.98 && shades[0] < 0.02);
    for (let k = 5; k < 255; k += 10) {
      const sum = Math.exp(ends.low + ((ends.high - ends.low) * k) / 255);
      const back = sumOf({ shades, ...ends }, shades[k]);
      assert(shades[k] === shades[k - 1] || Math.abs(back / sum - 1) < 0.05, `${tone}: ${back} for ${sum}`);
    }
  }
  const { shades, low, high } = toning("equalised", sums, 4, 3);
  const of = (sum: number) => shades[Math.round(((Math.log(sum) - low) / (high - low)) * 255)];
  const seen = Array.from({ length: 5000 }, (_, k) => sums[4 * k + 3]).filter((sum) => sum > 0).map(of);
  assert(Math.abs(seen.filter((shade) => shade < 0.5).length / seen.length - 0.5) < 0.03);
  toning("log", new Float32Array(8), 4, 3);
  assert(toning("log", Float32Array.of(0, 0, 0, 7), 4, 3).shades[255] === 1);
});

test("no two categories have one colour, nor the others", () => {
  for (const background of THEMES) {
    const colors = categories(background);
    colors.forEach((color, k) => {
      assert(contrast(color, background) >= 2, `${color} on ${background}`);
      for (const other of colors.slice(0, k)) {
        assert(Math.hypot(...color.map((value, at) => value - other[at])) > 24, `${color} beside ${other}`);
      }
    });
    const many = palette(Array.from({ length: 40 }, (_, k) => k), background);
    const told = new Set(Array.from({ length: 40 }, (_, k) => many.subarray(4 * k, 4 * k + 3).join()));
    assert.equal(told.size, colors.length + 1);
  }
});

test("dates on axes are round", () => {
  const at = (text: string) => Date.parse(`${text}Z`);
  const texts = (low: string, high: string, about = 5) => dateTicks(at(low), at(high), about, 1).map(({ text }) => text);
  assert.deepEqual(texts("2023-11-14T00:00", "2023-11-18T12:00"), ["2023-11-14", "2023-11-15", "2023-11-16", "2023-11-17", "2023-11-18"]);
  assert.deepEqual(texts("2023-11-14T22:30", "2023-11-15T04:00"), ["23:00", "2023-11-15", "01:00", "02:00", "03:00", "04:00"].filter((_, k) => k % 3 === 1));
  assert.deepEqual(texts("2023-01-20T00:00", "2023-06-20T00:00"), ["2023-02", "2023-03", "2023-04", "2023-05", "2023-06"]);
  assert.deepEqual(texts("2023-11-14T00:00", "2024-03-09T00:00", 2.5), ["2023-12", "2024-01", "2024-02", "2024-03"]);
  assert.deepEqual(texts("1900-01-01T00:00", "2020-01-02T00:00", 3), ["1900", "1950", "2000"]);
  assert.deepEqual(texts("2023-11-14T00:00:01", "2023-11-14T00:00:04"), ["00:00:01", "00:00:02", "00:00:03", "00:00:04"].filter((text) => text));
  assert.deepEqual([millisecondsOf("Timestamp(ns, UTC)"), millisecondsOf("Timestamp(µs)"), millisecondsOf("Date32"), millisecondsOf("Float64")], [1e-6, 1e-3, 86400000, null]);
});
