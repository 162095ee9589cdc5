/** Marks, edges and positions for any ranges: finite, ascending, in bounded time. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { marksOf } from "../src/axismarks";
import { dateOf, dateTicks } from "../src/dates";
import { Frame } from "../src/frame";
import { legendOf } from "../src/legend";
import { averaged, contentOf, counted } from "../src/secondplot";
import { generator } from "../src/shuffle";
import { around, equal, logarithmicMarks, logarithmicShare, marks, part, resolution, share } from "../src/steps";

const { MAX_VALUE: MAX, MIN_VALUE: MIN } = Number;
const EXTREMES = [0, -0, MIN, -MIN, 2.3e-308, MAX, -MAX, 1e300, -1e-300, 2 ** 53, 9.2e18, 1, 1 + 2 ** -52, -1, 1.7e18];
const draw = generator(11);

function value(): number {
  if (draw() < 0.6) return EXTREMES[Math.floor(draw() * EXTREMES.length)];
  return (draw() - 0.5) * 10 ** Math.floor(draw() * 600 - 300);
}

/** Two finite ascending numbers, often close to each other. */
function range(): [number, number] {
  const [a, b] = [value(), value()];
  const near = draw() < 0.3 ? a + Math.ceil(4 * draw()) * resolution(a, a) : b;
  const [low, high] = [Math.min(a, near), Math.max(a, near)];
  return low < high && Number.isFinite(high) ? [low, high] : around(a);
}

const isAscending = (values: number[]) => values.every((value, k) => Number.isFinite(value) && (k === 0 || value > values[k - 1]));

test("marks and edges of any range are finite and ascending", () => {
  for (let round = 0; round < 6000; round++) {
    const [low, high] = range();
    const most = 1 + Math.floor(12 * draw());
    const found = marks(low, high, most, 2);
    assert(isAscending(found) && found.length <= 4 * most + 12, `${low} ${high}: ${found}`);
    const slack = part(low, high, 1e4) + resolution(low, high);
    assert(found.every((at) => at >= low - slack && at <= high + slack), `${low} ${high}: ${found}`);
    const edges = equal(low, high, 60);
    assert(isAscending(edges) && edges[0] === low && edges[edges.length - 1] === high, `${low} ${high}: ${edges}`);
    assert.deepEqual([share(low, high, low), share(low, high, high)], [0, 1]);
    if (low > 0) {
      assert(isAscending(logarithmicMarks(low, high)));
      assert.deepEqual([logarithmicShare(low, high, low), logarithmicShare(low, high, high)], [0, 1]);
    }
  }
});

test("marks are round", () => {
  assert.deepEqual(marks(0, 1, 5, 2), [0, 0.2, 0.4, 0.6, 0.8, 1]);
  assert.deepEqual(marks(0, MAX, 4, 2), [0, 5e307, 1e308, 1.5e308]);
  assert.deepEqual(marks(-MAX, MAX, 2, 2), [-1e308, 0, 1e308]);
  assert.deepEqual(marks(0, 1e-323, 2, 2), [0, 5e-324, 1e-323]);
  assert.deepEqual(logarithmicMarks(0.5, 30), [0.5, 1, 2, 5, 10, 20]);
});

test("axes of any range have few marks, whose texts tell them apart", () => {
  const types = ["Float64", "Date32", "Date64", "Timestamp(s, None)", "Timestamp(ns, None)"];
  for (let round = 0; round < 2000; round++) {
    const [low, high] = range();
    for (const data_type of types) {
      const found = marksOf({ name: "x", data_type, kind: "number", unit: null }, low, high, 1 + Math.floor(8 * draw()));
      assert(found.length <= 130 && isAscending(found.map(({ at }) => at)), `${data_type} ${low} ${high}: ${JSON.stringify(found)}`);
      if (data_type === "Float64") assert.equal(new Set(found.map(({ text }) => text)).size, found.length, `${low} ${high}: ${JSON.stringify(found)}`);
      assert(dateOf(low, 1).length > 0);
    }
    const column = { name: "x", data_type: "Float64", kind: "number" as const, unit: null };
    const [from, to] = low > 0 ? [low, high] : [MIN, Math.max(high, 2 * MIN)];
    for (const legend of [legendOf(column, "", new Uint8Array(1024), [low, high], false, [low, high]), legendOf(column, "", new Uint8Array(1024), [from, to], true, [from, to])]) {
      assert(legend.marks.every((mark) => mark.share >= 0 && mark.share <= 1), JSON.stringify(legend.marks));
    }
  }
});

test("dates at the limits of types", () => {
  const years = dateTicks(-(2 ** 31), 2 ** 31, 4, 86_400_000);
  assert(years.length >= 2 && years.every(({ text }) => /^-?\d+$/.test(text)), JSON.stringify(years));
  assert.deepEqual(dateTicks(0, 100 * 365, 4, 86_400_000).map(({ text }) => text), ["2000", "2050"]);
  assert.deepEqual(dateTicks(19_000, 19_200, 4, 86_400_000).map(({ text }) => text), ["2022-04", "2022-07"]);
  assert.equal(dateOf(19_000, 86_400_000), "2022-01-08");
  assert.equal(dateOf(1.5, 1000), "1970-01-01 00:00:01.500");
  assert.equal(dateOf(-1, 1000), "1969-12-31 23:59:59");
});

test("bars and means of extreme values", () => {
  const values = Float64Array.of(-MAX, 0, MAX, MAX);
  const edges = equal(-MAX, MAX, 4);
  assert.deepEqual(counted(values, 1, edges).map((bar) => bar.value), [1, 0, 1, 2]);
  const [bar] = averaged(Float64Array.of(0, 0, 0), Float64Array.of(MAX, MAX, -MAX), 0.5, [-1, 1]);
  assert(Math.abs(bar.value / (MAX / 3) - 1) < 1e-12);
  const column = { name: "x", data_type: "Float64", kind: "number" as const, unit: null };
  for (const kind of ["histogram", "scatter", "series"] as const) {
    for (const [low, high] of [[-MAX, MAX], [MAX, MAX], [0, MIN], [MIN, MIN], [2 ** 60, 2 ** 60]]) {
      const sample = { rows: 2, fraction: 1, values: [Float64Array.of(low, high), Float64Array.of(high, low)] };
      const { x, y, bars } = contentOf({ kind, axes: ["x", "x"], log: false }, [column, column], sample, [{ low, high }, { low, high }], [null, null]);
      for (const ends of [x, y]) assert(Number.isFinite(ends.low) && Number.isFinite(ends.high) && ends.low < ends.high, JSON.stringify([kind, low, high, ends]));
      if (kind === "histogram") assert.equal(bars.reduce((sum, bar) => sum + bar.value, 0), 2);
    }
  }
});

test("a frame places any box within about one unit", () => {
  for (let round = 0; round < 2000; round++) {
    const [a, b] = [range(), range()];
    const frame = new Frame([a[0], b[0]], [a[1], b[1]], true);
    for (const [k, [low, high]] of [a, b].entries()) {
      // The middle between adjacent numbers is one or the other.
      for (const at of [low, high]) assert(Math.abs(frame.along(at, k)) <= 2, `${low} ${high}: ${frame.along(at, k)}`);
    }
  }
});
