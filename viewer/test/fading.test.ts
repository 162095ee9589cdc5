/** Point weights change without jumps and the sum of ink stays correct while cells and the view change. */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Cell } from "../src/cell";
import { FADE, Fading } from "../src/fading";
import { generator } from "../src/shuffle";
import { Tree } from "../src/tree";
import { Weights } from "../src/weights";
import { Server, Window, type Record } from "./world";

const COUNT = 120_000;
const FRAME = 16;
const BUDGET = 8_000;

const draw = generator(11);
const records: Record[] = Array.from({ length: COUNT }, () => ({ at: [Math.sqrt(draw()), draw()].map(Math.fround), priority: draw() }));

/** A view whose regions have different fractions, or one. */
function viewed(isEven: boolean) {
  const eye = new Window([0.35, 0.4], 0.5);
  if (!isEven) eye.nearness = (cell: Cell) => 2 ** -Math.round(4 * Math.hypot((cell.low[0] + cell.high[0]) / 2 - 0.5, (cell.low[1] + cell.high[1]) / 2 - 0.5));
  const removed = (cell: Cell) => fading.forget(cell);
  const tree = new Tree([0, 0], [1, 1], COUNT, () => {}, removed);
  const fading = new Fading(new Weights(tree));
  return { eye, tree, fading, numbers: new Map<Cell, number>() };
}

type View = ReturnType<typeof viewed>;

const isSeen = ({ middle, size }: Window, at: number[]) => at.every((value, k) => Math.abs(value - middle[k]) <= size / 2);

interface Point {
  weight: number;
  at: number[];
}

/** The drawn points in view, by cell number and row. */
function shown({ eye, tree, fading, numbers }: View): Map<number, Point> {
  const found = new Map<number, Point>();
  for (const cell of tree.cells) {
    if (!numbers.has(cell)) numbers.set(cell, numbers.size * COUNT);
    for (let row = 0; row < fading.inkOf(cell).rows; row++) {
      const at = [0, 1].map((k) => cell.positions[2 * row + k] + cell.low[k]);
      if (isSeen(eye, at)) found.set(numbers.get(cell)! + row, { weight: fading.weightOf(cell, row), at });
    }
  }
  return found;
}

/** Pans and zooms frame by frame while cells arrive, and calls `each` for every frame. */
function travel(view: View, each: (now: number) => void): void {
  const { eye, tree, fading } = view;
  const server = new Server(records);
  let now = 1000;
  let isShown = false;
  for (let frame = 0; frame < 300; frame++, now += FRAME) {
    if (frame > 40 && frame < 120) eye.middle = [0.35 + 0.003 * (frame - 40), 0.4 + 0.001 * (frame - 40)];
    if (frame > 130 && frame < 180) eye.size *= 0.985;
    if (frame > 210 && frame < 270) eye.size *= 1.02;
    const choice = tree.choose(eye, BUDGET);
    fading.update(tree.cells, choice, now, isShown);
    isShown ||= choice.rows > 0;
    each(now);
    if (frame % 5 === 0) for (const cell of choice.wanted.slice(0, 4)) server.fill(tree, cell);
  }
}

for (const isEven of [true, false]) {
  test(`no point appears, vanishes or changes at once where fractions ${isEven ? "become one" : "differ"}`, (t) => {
    const view = viewed(isEven);
    let before = new Map<number, Point>();
    let [worst, moments, changed, frames] = [0, 0, 0, 0];
    travel(view, () => {
      const { eye, tree, fading } = view;
      const after = shown(view);
      let [ink, squares] = [0, 0];
      for (const { weight } of after.values()) {
        ink += weight;
        squares += weight * weight;
      }
      if (after.size === 0) return;
      if (frames++ % 3 === 0) {
        const inView = records.reduce((sum, { at }) => sum + Number(isSeen(eye, at)), 0);
        assert(Math.abs(ink - inView) < 4 * Math.sqrt(squares), `${ink} of ${inView} records`);
      }
      // Ink is weight times the fraction of a standard point; each change is proportional to the elapsed
      // time.
      const most = Math.max(...[...tree.cells].filter((cell) => cell.drawn).map((cell) => 1 / cell.end));
      const least = (2 * FRAME) / FADE;
      if (before.size > 0) {
        for (const [key, { weight, at }] of after) {
          const was = before.get(key)?.weight;
          // Points that just came into view were not visible before.
          if (was === undefined && !at.every((value, k) => Math.abs(value - eye.middle[k]) <= 0.47 * eye.size)) continue;
          worst = Math.max(worst, Math.abs(weight - (was ?? 0)) / most);
          if (weight !== was) changed++;
        }
        for (const [key, { weight, at }] of before) {
          if (!after.has(key) && at.every((value, k) => Math.abs(value - eye.middle[k]) <= 0.47 * eye.size)) worst = Math.max(worst, weight / most);
        }
        assert(worst < least, `a point's ink changes by ${worst}`);
      }
      moments += Number(fading.isFading);
      before = after;
    });
    t.diagnostic(`${moments} frames of change, ${changed} changes of points, at most ${worst.toFixed(3)} of the greatest weight in a frame`);
    assert(moments > 30 && changed > 50_000, `${moments} ${changed}`);
  });
}

test("at rest each point has the weight of its part, and nothing is drawn that has gone", () => {
  const view = viewed(false);
  travel(view, () => {});
  const { tree, fading, eye } = view;
  for (let now = 1e6; ; now += FADE) {
    fading.update(tree.cells, tree.choose(eye, BUDGET), now, true);
    if (!fading.isFading) break;
    assert(now < 1e6 + 5 * FADE, "it goes on");
  }
  const by = new Weights(tree);
  for (const cell of tree.cells) {
    assert.equal(fading.inkOf(cell).rows, cell.count);
    const weights = new Float32Array(cell.rows);
    if (cell.count > 0) by.weigh(cell, weights);
    for (let row = 0; row < cell.count; row++) assert(Math.abs(fading.weightOf(cell, row) - weights[row]) <= 1e-5 * weights[row]);
  }
});
