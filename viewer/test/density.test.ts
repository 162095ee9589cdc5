/**
 * The screen represents all rows: the ink of a part of the picture, points times weights, is proportional to its number
 * of rows, at every stage of refinement.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { generator } from "../src/shuffle";
import type { Cell } from "../src/cell";
import { Tree } from "../src/tree";
import { Weights } from "../src/weights";
import { Server, settle, Window, type Record } from "./world";

const COUNT = 400_000;
const BLOCKS = 32;

const draw = generator(7);

/** Positions in a field of known density on the unit square. */
const FIELDS: { [name: string]: () => number[] } = {
  uniform: () => [draw(), draw()],
  gradient: () => [Math.sqrt(draw()), draw()],
  clusters: () => {
    if (draw() < 0.2) return [draw(), draw()];
    const center = [0.23, 0.71, 0.52][Math.floor(3 * draw())];
    const [away, angle] = [0.3 * draw() ** 2, 2 * Math.PI * draw()];
    return [center + away * Math.cos(angle), 1 - center + away * Math.sin(angle)];
  },
};

function world(of: () => number[]): Record[] {
  return Array.from({ length: COUNT }, () => ({ at: of().map(Math.fround), priority: draw() }));
}

class Blocks {
  readonly sums = new Float64Array(BLOCKS * BLOCKS);
  /** Sums of squared weights are the variance of a sum. */
  readonly squares = new Float64Array(BLOCKS * BLOCKS);

  constructor(private readonly eye: Window) {}

  add([x, y]: number[], weight: number): void {
    const { middle, size } = this.eye;
    const column = Math.floor(((x - middle[0]) / size + 0.5) * BLOCKS);
    const row = Math.floor(((y - middle[1]) / size + 0.5) * BLOCKS);
    if (column < 0 || row < 0 || column >= BLOCKS || row >= BLOCKS) return;
    this.sums[row * BLOCKS + column] += weight;
    this.squares[row * BLOCKS + column] += weight * weight;
  }
}

/** The ink of the drawn points, weighted or not. */
function inkOf(tree: Tree, eye: Window, weighted: boolean): Blocks {
  const blocks = new Blocks(eye);
  const by = new Weights(tree);
  for (const cell of tree.cells) {
    if (!cell.drawn) continue;
    const weights = new Float32Array(cell.rows).fill(1);
    if (weighted) by.weigh(cell, weights);
    for (let row = 0; row < cell.count; row++) {
      blocks.add([cell.positions[2 * row] + cell.low[0], cell.positions[2 * row + 1] + cell.low[1]], weights[row]);
    }
  }
  return blocks;
}

function correlation(a: ArrayLike<number>, b: ArrayLike<number>): number {
  const mean = (values: ArrayLike<number>) => Array.from(values).reduce((sum, value) => sum + value, 0) / values.length;
  const [ma, mb] = [mean(a), mean(b)];
  let [ab, aa, bb] = [0, 0, 0];
  for (let k = 0; k < a.length; k++) {
    ab += (a[k] - ma) * (b[k] - mb);
    aa += (a[k] - ma) ** 2;
    bb += (b[k] - mb) ** 2;
  }
  return ab / Math.sqrt(aa * bb);
}

/** The correlation of a simple random sample of `points` rows. */
function ofSample(records: Record[], eye: Window, points: number, truth: Blocks): number {
  const inView = records.filter(({ at }) => at.every((value, k) => Math.abs(value - eye.middle[k]) <= eye.size / 2));
  const blocks = new Blocks(eye);
  const share = points / inView.length;
  for (const { at } of inView) if (draw() < share) blocks.add(at, 1);
  return correlation(blocks.sums, truth.sums);
}

interface Part {
  low: number[];
  high: number[];
  end: number;
}

/** The regions with a common fraction. */
function partsOf(at: Cell, into: Part[] = []): Part[] {
  if (at.children.every((child) => !child)) into.push(at);
  for (const child of at.children) {
    if (!child || child.pixels === 0) continue;
    if (child.drawn) partsOf(child, into);
    else into.push({ low: child.low, high: child.high, end: at.end });
  }
  return into;
}

/** Position and weight of each drawn point. */
function drawnOf(tree: Tree): { at: number[]; weight: number }[] {
  const by = new Weights(tree);
  const drawn = [];
  for (const cell of tree.cells) {
    const weights = new Float32Array(cell.rows);
    if (cell.drawn) by.weigh(cell, weights);
    for (let row = 0; row < cell.count; row++) {
      drawn.push({ at: [0, 1].map((k) => cell.positions[2 * row + k] + cell.low[k]), weight: weights[row] });
    }
  }
  return drawn;
}

const isIn = ({ low, high }: { low: number[]; high: number[] }, at: number[]) =>
  at.every((value, k) => value >= low[k] && value < high[k]);

/** A strip along the lower side of a region, inside or outside, of this relative width. */
function strip({ low, high }: Part, axis: number, share: number): { low: number[]; high: number[] } {
  const to = low[axis] + share * (high[axis] - low[axis]);
  const ends = [Math.min(low[axis], to), Math.max(low[axis], to)];
  return { low: low.map((end, k) => (k === axis ? ends[0] : end)), high: high.map((end, k) => (k === axis ? ends[1] : end)) };
}

/** Ink against rows on both sides of borders, in standard deviations; by chance, the mean square is about 1. */
function steps(tree: Tree, records: Record[]): number {
  const drawn = drawnOf(tree);
  let [sum, count] = [0, 0];
  for (const part of partsOf(tree.root)) {
    for (const share of [1 / 8, -1 / 8]) {
      const side = strip(part, 0, share);
      const all = records.reduce((within, { at }) => within + Number(isIn(side, at)), 0);
      const inside = drawn.filter(({ at }) => isIn(side, at));
      const ink = inside.reduce((sum, { weight }) => sum + weight, 0);
      // The squared weight covers the variance of a row's weight and of the row.
      const variance = inside.reduce((sum, { weight }) => sum + weight * (weight - 1), 0);
      if (variance < 25) continue;
      sum += (ink - all) ** 2 / variance;
      count++;
    }
  }
  return count > 0 ? sum / count : 1;
}

/** The difference of grain (ink of a standard point) across borders in powers of two, with and without blending. */
function grains(tree: Tree): { blended: number; plain: number; borders: number } {
  const drawn = drawnOf(tree);
  const parts = partsOf(tree.root);
  const grain = (box: { low: number[]; high: number[] }) => {
    const inside = drawn.filter(({ at }) => isIn(box, at));
    const [ink, squares] = inside.reduce(([a, b], { weight }) => [a + weight, b + weight * weight], [0, 0]);
    return inside.length < 30 ? NaN : squares / ink;
  };
  let [blended, plain, borders] = [0, 0, 0];
  for (const fine of parts) {
    for (const axis of [0, 1]) {
      const [within, beside] = [strip(fine, axis, 1 / 16), strip(fine, axis, -1 / 16)];
      const middle = beside.low.map((end, k) => (end + beside.high[k]) / 2);
      const coarse = parts.find((part) => isIn(part, middle));
      if (!coarse || coarse.end * 1.5 > fine.end) continue;
      const ratio = Math.log2(grain(beside) / grain(within));
      if (!Number.isFinite(ratio)) continue;
      blended += Math.abs(ratio);
      plain += Math.log2(fine.end / coarse.end);
      borders++;
    }
  }
  return { blended: blended / borders, plain: plain / borders, borders };
}

for (const [name, of] of Object.entries(FIELDS)) {
  const records = world(of);
  test(`ink follows the records of a field: ${name}`, (t) => {
    for (const [middle, size] of [[[0.5, 0.5], 1], [[0.4, 0.55], 0.45]] as [number[], number][]) {
      for (const budget of [60_000, 160_000]) {
        const eye = new Window(middle, size);
        const truth = new Blocks(eye);
        for (const { at } of records) truth.add(at, 1);
        const tree = new Tree([0, 0], [1, 1], COUNT, () => {}, () => {});
        let moments = 0;
        const look = () => {
          const { sums, squares } = inkOf(tree, eye, true);
          if (moments++ % 3 > 0 || sums.every((sum) => sum === 0)) return;
          const inView = sums.reduce((sum, ink) => sum + ink, 0);
          const all = truth.sums.reduce((sum, ink) => sum + ink, 0);
          assert(Math.abs(inView - all) < 5 * Math.sqrt(squares.reduce((sum, one) => sum + one, 0)), `${inView} of ${all}`);
          if (name === "uniform") return;
          const points = inView ** 2 / squares.reduce((sum, one) => sum + one, 0);
          const found = correlation(sums, truth.sums);
          if (found >= 0.99) return;
          const best = ofSample(records, eye, points, truth);
          assert(found >= best - 0.006, `${found} at moment ${moments}, ${best} of a sample`);
        };
        settle(tree, new Server(records), eye, budget, look);
        const { fraction } = tree.choose(eye, budget);
        assert(fraction[1] <= 1.02 * fraction[0], `one fraction for all that is in view: ${fraction}`);
        const found = correlation(inkOf(tree, eye, true).sums, truth.sums);
        t.diagnostic(`${name}, view of ${size}, ${budget} points: ${moments} moments, correlation ${found.toFixed(4)} at the end`);
        if (name !== "uniform" && budget === 160_000) assert(found >= 0.99, `${found}`);
      }
    }
  });
}

test("parts of different fraction show no step at their borders, and points alike do", (t) => {
  const records = world(FIELDS.clusters);
  const eye = new Window([0.5, 0.5], 1);
  // Distant regions ask for less, so many fractions are side by side.
  eye.nearness = (cell: Cell) => 2 ** -Math.round(5 * Math.hypot((cell.low[0] + cell.high[0]) / 2 - 0.3, (cell.low[1] + cell.high[1]) / 2 - 0.6));
  const tree = new Tree([0, 0], [1, 1], COUNT, () => {}, () => {});
  settle(tree, new Server(records), eye, 80_000);
  const { fraction } = tree.choose(eye, 80_000);
  assert(fraction[1] > 3 * fraction[0], `${fraction}`);
  const found = steps(tree, records);
  assert(found < 1.6, `the squares of deviations are ${found} in the mean`);
  const { blended, plain, borders } = grains(tree);
  t.diagnostic(`${borders} borders: the grain differs by 2^${blended.toFixed(2)}, without blending by 2^${plain.toFixed(2)}`);
  assert(borders >= 5 && plain > 0.7, "fractions differ at borders");
  assert(blended < 0.4 * plain, `${blended} beside ${plain}`);
  const truth = new Blocks(eye);
  for (const { at } of records) truth.add(at, 1);
  assert(correlation(inkOf(tree, eye, true).sums, truth.sums) >= 0.99);
  assert(correlation(inkOf(tree, eye, false).sums, truth.sums) < 0.97);
});

test("weights that were kept are those that would be made anew, while cells come and the view moves", () => {
  const records = world(FIELDS.clusters);
  const eye = new Window([0.4, 0.5], 0.8);
  eye.nearness = (cell: Cell) => 2 ** -Math.round(5 * Math.hypot((cell.low[0] + cell.high[0]) / 2 - 0.3, (cell.low[1] + cell.high[1]) / 2 - 0.6));
  const tree = new Tree([0, 0], [1, 1], COUNT, () => {}, () => {});
  const kept = new Map<Cell, Float32Array>();
  const by = new Weights(tree);
  let compared = 0;
  const look = () => {
    for (const cell of tree.cells) {
      const { stale } = cell;
      cell.stale = false;
      if (cell.count === 0) {
        kept.delete(cell);
        continue;
      }
      const known = kept.get(cell);
      const weights = known ?? new Float32Array(cell.rows);
      if (stale || !known) by.weigh(cell, weights, known !== undefined);
      kept.set(cell, weights);
    }
    const parts = [...tree.cells].map((cell) => [cell, ...cell.children]).flat();
    for (const part of parts) if (part) part.beside = null;
    for (const [cell, weights] of kept) {
      const anew = new Float32Array(cell.rows);
      by.weigh(cell, anew);
      for (let row = 0; row < cell.count; row++) assert(Math.abs(weights[row] - anew[row]) < 1e-6 * anew[row], `${weights[row]} and not ${anew[row]}`);
      compared += cell.count;
    }
  };
  const server = new Server(records);
  for (const middle of [[0.4, 0.5], [0.55, 0.45], [0.62, 0.4], [0.4, 0.5]]) {
    eye.middle = middle;
    settle(tree, server, eye, 50_000, look);
  }
  assert(compared > 300_000, `${compared}`);
});

test("even detail draws crowded and empty parts alike", () => {
  const records = world(FIELDS.clusters);
  const eye = new Window([0.5, 0.5], 1);
  const truth = new Blocks(eye);
  for (const { at } of records) truth.add(at, 1);
  const tree = new Tree([0, 0], [1, 1], COUNT, () => {}, () => {});
  const server = new Server(records);
  settle(tree, server, eye, 60_000, () => {}, true);
  const alike = correlation(inkOf(tree, eye, false).sums, truth.sums);
  assert(alike < 0.98, `points alike: ${alike}`);
  settle(tree, server, eye, 60_000);
  const { fraction } = tree.choose(eye, 60_000);
  assert(fraction[1] <= 1.02 * fraction[0], `${fraction}`);
  assert(correlation(inkOf(tree, eye, false).sums, truth.sums) > 0.99);
});
