/**
 * How many records a point stands for: 1/precision of the part of space it lies in.
 *
 * A cell's points lie in several parts if finer cells are drawn below it. Each point's part is
 * found by walking down the cells that are drawn.
 *
 * Beside a coarser part, within half of its own width, a finer part goes over to the coarser one's
 * precision: its points below that precision grow to the coarser one's weight, the others fade. In each
 * place the weights of all points make up as many records as before, so that neither the density nor
 * the grain of the picture has a step where parts meet.
 *
 * Weights are made anew only where a part, or one beside it, has changed (Tree.changed).
 */

import type { Cell } from "./tree";

/** How wide the part of a cell is that goes over to a coarser one, as a share of the cell. */
export const BAND = 0.5;
/** Precisions whose ratio is less are one. */
export const SAME = 1.02;

/** What is drawn at one precision, in one box or more. */
interface Coarser {
  end: number;
  boxes: { low: number[]; high: number[] }[];
}

/** Whether two boxes are nearer to each other than `band` of the first one's sides. */
export function areClose(a: { low: number[]; high: number[] }, b: { low: number[]; high: number[] }, band: number): boolean {
  for (let k = 0; k < a.low.length; k++) {
    const reach = band * (a.high[k] - a.low[k]);
    if (b.low[k] > a.high[k] + reach || b.high[k] < a.low[k] - reach) return false;
  }
  return true;
}

/** The coarser parts beside a part of space, found once for all of its points. */
class Neighbours {
  private readonly found = new Map<Cell, Coarser[]>();

  constructor(private readonly root: Cell) {}

  of(part: Cell, end: number): Coarser[] {
    let coarser = this.found.get(part);
    if (!coarser) {
      this.found.set(part, (coarser = []));
      this.collect(part, end, this.root, coarser);
    }
    return coarser;
  }

  private collect(part: Cell, end: number, at: Cell, into: Coarser[]): void {
    // What is below a cell is at least as fine.
    if (at.end * SAME >= end || !areClose(part, at, BAND)) return;
    if (at.children.every((child) => !child)) this.add(at, at.end, into);
    for (const child of at.children) {
      // What is not on the screen has no border there.
      if (!child || child.pixels === 0 || !areClose(part, child, BAND)) continue;
      if (child.drawn) this.collect(part, end, child, into);
      else this.add(child, at.end, into);
    }
  }

  private add(box: Cell, end: number, into: Coarser[]): void {
    const same = into.find((other) => other.end === end);
    if (same) same.boxes.push(box);
    else into.push({ end, boxes: [box] });
  }
}

/** How far a point is from the nearest of some boxes, in sides of its own part; at most BAND. */
function distance(point: number[], part: Cell, boxes: Coarser["boxes"]): number {
  let least = BAND;
  for (const { low, high } of boxes) {
    let away = 0;
    for (let k = 0; k < point.length; k++) {
      const off = Math.max(low[k] - point[k], point[k] - high[k]) / (part.high[k] - part.low[k]);
      if (off > away) away = off;
    }
    if (away < least) least = away;
  }
  return least;
}

export class Weights {
  private neighbours: Neighbours;
  private readonly point: number[];

  constructor(private readonly root: Cell) {
    this.neighbours = new Neighbours(root);
    this.point = root.low.map(() => 0);
  }

  /** Cells have changed: what lies beside what is found anew. */
  forget(): void {
    this.neighbours = new Neighbours(this.root);
  }

  /** Brings the weights of a cell's points up to date. */
  weigh(cell: Cell, weights: Float32Array): void {
    cell.stale = false;
    const isLeaf = cell.children.every((child) => !child);
    if (isLeaf && this.neighbours.of(cell, cell.end).length === 0) {
      weights.fill(1 / cell.end, 0, cell.count);
      return;
    }
    const { point } = this;
    const axes = point.length;
    const [begin, end] = cell.window;
    for (let row = 0; row < cell.count; row++) {
      for (let k = 0; k < axes; k++) point[k] = cell.positions[row * axes + k] + cell.low[k];
      // A row is drawn once its cell is drawn to this precision.
      const priority = begin + ((row + 1 - cell.offset) / cell.rows) * (end - begin);
      weights[row] = this.weightAt(cell, priority);
    }
  }

  /** The weight of a record of this priority at `point`, of this cell or one below it. */
  private weightAt(cell: Cell, priority: number): number {
    const { point } = this;
    let at = cell;
    let part = cell;
    for (;;) {
      let octant = 0;
      for (let k = 0; k < point.length; k++) if (point[k] >= (at.low[k] + at.high[k]) / 2) octant |= 1 << k;
      const child = at.children[octant];
      if (!child) break;
      part = child;
      if (!child.drawn) break;
      at = child;
    }
    const coarser = this.neighbours.of(part, at.end);
    if (coarser.length === 0) return 1 / at.end;
    let own = 1;
    let all = 0;
    let others = 0;
    for (const { end, boxes } of coarser) {
      const share = distance(point, part, boxes) / BAND;
      const away = share * share * (3 - 2 * share);
      own *= away;
      all += 1 - away;
      if (priority <= end) others += (1 - away) / end;
    }
    return all > 0 ? own / at.end + ((1 - own) * others) / all : 1 / at.end;
  }
}
