/**
 * The number of rows that a point represents: 1/fraction of its region. If finer cells are drawn below a
 * cell, its points are in several regions, which are found by walking down the drawn cells.
 *
 * Next to a coarser region, within half of its own width, a finer region blends into the coarser fraction: its points
 * below that fraction grow to the coarser weight, the others fade. Weights at each position still represent all rows,
 * so neither density nor grain has a visible step at borders.
 *
 * Weights are computed again only where a region or its neighbour has changed (Tree.spread).
 */

import type { Beside, Cell } from "./cell";
import type { Frame } from "./frame";

/** Fractions with a smaller ratio count as equal. */
export const SAME = 1.02;

const NOTHING: Beside = new Float64Array(0);

interface Box {
  low: number[];
  high: number[];
}

/** Whether two boxes touch or overlap. */
export function areBeside(a: Box, b: Box): boolean {
  for (let k = 0; k < a.low.length; k++) if (b.low[k] > a.high[k] || b.high[k] < a.low[k]) return false;
  return true;
}

/** The neighbours of a region that is drawn to this fraction. */
function besideOf(part: Cell, end: number, root: Cell): Beside {
  const axes = part.low.length;
  let beside = NOTHING;
  const put = (box: Box, coarse: number) => {
    if (beside.length === 0) beside = new Float64Array((1 << axes) * axes).fill(Infinity);
    for (let half = 0; half < 1 << axes; half++) {
      for (let k = 0; k < axes; k++) if (isAcross(part, half, k, box)) beside[half * axes + k] = Math.min(beside[half * axes + k], coarse);
    }
  };
  const look = (at: Cell) => {
    // Descendants of a cell are at least as fine.
    if (at.end * SAME >= end || !areBeside(part, at)) return;
    if (at.children.every((child) => !child)) put(at, at.end);
    for (const child of at.children) {
      // Off the screen there is no border.
      if (!child || child.pixels === 0) continue;
      if (child.drawn) look(child);
      else if (areBeside(part, child)) put(child, at.end);
    }
  };
  look(root);
  return beside;
}

/** Whether a box is across the outer side, along this axis, of a half of a region. */
function isAcross(part: Box, half: number, axis: number, box: Box): boolean {
  for (let k = 0; k < part.low.length; k++) {
    const isUpper = (half >> k) & 1;
    if (k === axis) {
      if (isUpper ? box.low[k] !== part.high[k] : box.high[k] !== part.low[k]) return false;
      continue;
    }
    const middle = (part.low[k] + part.high[k]) / 2;
    const [low, high] = isUpper ? [middle, part.high[k]] : [part.low[k], middle];
    if (box.low[k] >= high || box.high[k] <= low) return false;
  }
  return true;
}

/**
 * The distance of neighbours in a region in scene units, and its number of points, if points are on a surface (Schütz,
 * Potree, 2016).
 */
function spacingOf(at: Cell, part: Cell, frame: Frame): { spacing: number; points: number } {
  let widest = 0;
  for (let k = 0; k < part.low.length; k++) widest = Math.max(widest, (part.high[k] - part.low[k]) * Math.abs(frame.scale[k]));
  const here = part === at ? at.below.reduce((sum, some) => sum + some, 0) : at.below[part.octant];
  const points = (here * at.end) / at.window[1];
  return { spacing: widest / Math.sqrt(Math.max(1, points)), points };
}

/** Greatest size of a point in a sparse region, relative to the standard. */
const LARGEST = 3;

export class Weights {
  private readonly point: number[];

  constructor(private readonly tree: { readonly root: Cell; readonly choices: number }) {
    this.point = tree.root.low.map(() => 0);
  }

  /**
   * Updates the weights of a cell's points. With `known`, weights that were valid before the tree's last
   * choice are updated only in changed regions. `before` receives the weights of regions that came onto the
   * screen.
   */
  weigh(cell: Cell, weights: Float32Array, known = false, before?: Float32Array): void {
    const came = this.hasCome(cell);
    const isLeaf = cell.children.every((child) => !child);
    if (isLeaf && this.besideOf(cell).length === 0) {
      weights.fill(1 / cell.end, 0, cell.count);
      if (came) before?.fill(1 / cell.end, 0, cell.count);
      return;
    }
    const { point, tree } = this;
    const axes = point.length;
    const [begin, end] = cell.window;
    const step = (end - begin) / cell.rows;
    for (let row = 0; row < cell.count; row++) {
      for (let k = 0; k < axes; k++) point[k] = cell.positions[row * axes + k] + cell.low[k];
      const part = this.partAt(cell);
      if (known && part.changedAt !== tree.choices) continue;
      // A row is drawn once its cell is drawn to this fraction.
      weights[row] = this.weightAt(part, begin + (row + 1 - cell.offset) * step);
      if (before && (came || this.hasCome(part, cell))) before[row] = weights[row];
    }
  }

  /** Whether the last choice brought a cell onto the screen, or it is off the screen. */
  comesOrGoes(cell: Cell): boolean {
    for (let at: Cell | null = cell; at; at = at.parent) if (at.pixels === 0 || at.cameAt === this.tree.choices) return true;
    return false;
  }

  /** Whether the last choice brought a region, or an ancestor up to `within`, onto the screen. */
  private hasCome(part: Cell, within: Cell | null = null): boolean {
    for (let at: Cell | null = part; at && at !== within; at = at.parent) if (at.cameAt === this.tree.choices) return true;
    return false;
  }

  private besideOf(part: Cell): Beside {
    return (part.beside ??= besideOf(part, drawnIn(part).end, this.tree.root));
  }

  /** The greatest spacing of drawn points: LARGEST times the median. */
  greatestSpacing(frame: Frame): number {
    const parts: { spacing: number; points: number }[] = [];
    const look = (at: Cell) => {
      if (at.children.every((child) => !child)) parts.push(spacingOf(at, at, frame));
      for (const child of at.children) {
        if (child?.drawn) look(child);
        else if (child && child.pixels > 0) parts.push(spacingOf(at, child, frame));
      }
    };
    look(this.tree.root);
    parts.sort((a, b) => a.spacing - b.spacing);
    let left = parts.reduce((sum, { points }) => sum + points, 0) / 2;
    return LARGEST * (parts.find(({ points }) => (left -= points) <= 0)?.spacing ?? Infinity);
  }

  /** The distance of neighbours for each point of a cell in scene units, at most `greatest`. */
  space(cell: Cell, frame: Frame, greatest: number, spacings: Float32Array): void {
    const { point } = this;
    for (let row = 0; row < cell.count; row++) {
      for (let k = 0; k < point.length; k++) point[k] = cell.positions[row * point.length + k] + cell.low[k];
      const part = this.partAt(cell);
      spacings[row] = Math.min(greatest, spacingOf(drawnIn(part), part, frame).spacing);
    }
  }

  /** The finest drawn region that contains `point`. */
  private partAt(cell: Cell): Cell {
    const { point } = this;
    let at = cell;
    for (;;) {
      let octant = 0;
      for (let k = 0; k < point.length; k++) if (point[k] >= (at.low[k] + at.high[k]) / 2) octant |= 1 << k;
      const child = at.children[octant];
      if (!child?.drawn) return child ?? at;
      at = child;
    }
  }

  /** The weight of a row of this priority at `point` in this region. */
  private weightAt(part: Cell, priority: number): number {
    const { point } = this;
    const { end: finest } = drawnIn(part);
    const beside = part.beside ?? this.besideOf(part);
    if (beside.length === 0) return 1 / finest;
    const axes = point.length;
    let half = 0;
    for (let k = 0; k < axes; k++) if (point[k] >= (part.low[k] + part.high[k]) / 2) half |= 1 << k;
    let own = 1;
    let all = 0;
    let others = 0;
    for (let k = 0; k < axes; k++) {
      const end = beside[half * axes + k];
      if (end === Infinity) continue;
      // From 0 at the side to 1 in the middle of the region; rows beyond the view count as at its side.
      const off = ((half >> k) & 1 ? part.high[k] - point[k] : point[k] - part.low[k]) / (part.high[k] - part.low[k]);
      const share = Math.min(1, Math.max(0, 2 * off));
      const away = share * share * (3 - 2 * share);
      own *= away;
      all += 1 - away;
      if (priority <= end) others += (1 - away) / end;
    }
    return all > 0 ? own / finest + ((1 - own) * others) / all : 1 / finest;
  }
}

/** The finest drawn cell that contains this region. */
const drawnIn = (part: Cell): Cell => (part.drawn || !part.parent ? part : part.parent);
