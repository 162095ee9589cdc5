/**
 * The cells of a view, from coarse to fine.
 *
 * Space is halved along each axis repeatedly. A cell contains the rows of its region in one window of priorities. Its
 * window starts where its parent's ends, and is wide enough for about ROWS rows. Therefore
 *
 * - each row is in at most one cell of a branch and is sent once;
 * - a branch contains every row below the end of its last window: a uniform sample of its region;
 * - a cell can be added or removed without changing another one.
 *
 * A cell's rows are shuffled on arrival, so its first n rows are a uniform sample too, and a cell can be
 * drawn to any fraction within its window.
 *
 * Each part of the view asks for a fraction: the same everywhere, less at a distance (see Eye.nearness), or, for even
 * detail, enough that equal screen areas get equally many points. The point budget sets the level (src/fraction.ts).
 * Drawn points stay while they are in view and not much smaller than before, so panning removes no visible point. If
 * fractions differ, each point has the weight of its part (src/weights.ts).
 */

import { type Cell, newCell } from "./cell";
import { Level } from "./fraction";
import { shuffle } from "./shuffle";
import { areBeside } from "./weights";

export const ROWS = 8192;
/** The first cell is larger, because it is visible at once. */
export const FIRST_ROWS = 24576;
/** A cell's points may be removed once it is smaller by this factor on the screen. */
const SMALLER = 0.5;
/** Smallest growth factor of windows, which limits the number of requests. */
const WIDER = 1.5;
const DEEPEST = 40;
/** With more changed cells, all cells count as changed. */
const MANY = 48;
/** Greatest ink of a point, relative to the standard; more would be a blot. */
const MOST_INK = 9;

/** How a cell appears from the camera. */
export interface Eye {
  /** Its size in pixels; 0 off the screen. */
  pixels(cell: Cell): number;
  /** Apparent area of a row compared with a near one, in (0, 1]. */
  nearness(cell: Cell): number;
  /** Relative fraction among cells of the same nearness, in (0, 1]. */
  interest(cell: Cell): number;
  /** Approximate visible fraction of the cell. */
  visible(cell: Cell): number;
}

export interface Choice {
  wanted: Cell[];
  /** Number of drawn rows. */
  rows: number;
  /** Smallest and largest fraction in view. */
  fraction: [number, number];
  /** The fraction of a point with standard ink; others have more or less. */
  reference: number;
}

export class Tree {
  readonly root: Cell;
  readonly cells = new Set<Cell>();
  /** The extremes of all loaded rows. */
  readonly least: number[];
  readonly most: number[];
  /** Number of choices so far. */
  choices = 0;
  /** The cells that this choice has changed. */
  private readonly changed: Cell[] = [];
  private readonly level = new Level();
  private even = false;
  /** Approximate number of rows in view, with far rows weighted by their apparent area. */
  private records = 0;
  /** The smallest fraction in view, without nearness. */
  private coarsest = 1;
  private readonly choice: Choice = { wanted: [], rows: 0, fraction: [1, 1], reference: 1 };

  /** `low` and `high`: approximate range of the rows; `total`: their number; `held`: the largest fraction. */
  constructor(
    readonly low: number[],
    readonly high: number[],
    total: number,
    readonly added: (cell: Cell) => void,
    readonly removed: (cell: Cell) => void,
    private readonly held = 1,
  ) {
    const axes = low.map(() => true);
    this.least = low.map(() => Infinity);
    this.most = low.map(() => -Infinity);
    const end = Math.min(held, FIRST_ROWS / Math.max(1, total));
    this.root = newCell(null, 0, low, high, axes, axes, [0, end]);
  }

  /** Stores the rows of a cell. */
  fill(cell: Cell, positions: Float32Array, columns: Float32Array[]): void {
    const axes = this.low.length;
    cell.rows = positions.length / axes;
    cell.positions = positions;
    cell.columns = columns;
    cell.state = "ready";
    cell.offset = shuffle(cell, axes);
    for (let at = 0; at < positions.length; at++) {
      const k = at % axes;
      const value = positions[at] + cell.low[k];
      if (value < this.least[k]) this.least[k] = value;
      if (value > this.most[k]) this.most[k] = value;
    }
    cell.below.fill(0);
    for (let above: Cell | null = cell; above; above = above.parent) this.countInto(cell, above);
    this.cells.add(cell);
    this.added(cell);
  }

  /** Counts the rows of `above` in each octant of `cell`. */
  private countInto(cell: Cell, above: Cell): void {
    const axes = this.low.length;
    const { positions } = above;
    for (let at = 0; at < positions.length; at += axes) {
      let octant = 0;
      let inside = true;
      for (let k = 0; k < axes; k++) {
        const value = positions[at + k] + above.low[k];
        if ((value < cell.low[k] && !cell.openLow[k]) || (value >= cell.high[k] && !cell.openHigh[k])) {
          inside = false;
          break;
        }
        if (value >= (cell.low[k] + cell.high[k]) / 2) octant |= 1 << k;
      }
      if (inside) cell.below[octant]++;
    }
  }

  private child(parent: Cell, octant: number): Cell {
    const low = parent.low.slice();
    const high = parent.high.slice();
    const openLow = parent.openLow.slice();
    const openHigh = parent.openHigh.slice();
    for (let k = 0; k < low.length; k++) {
      const middle = (low[k] + high[k]) / 2;
      if (octant & (1 << k)) {
        low[k] = middle;
        openLow[k] = false;
      } else {
        high[k] = middle;
        openHigh[k] = false;
      }
    }
    const begin = parent.window[1];
    return newCell(parent, octant, low, high, openLow, openHigh, [begin, 1]);
  }

  /** The end of the window of a cell to be requested and drawn to the fraction `want`. */
  private windowEnd({ window: [begin], parent, octant }: Cell, want: number): number {
    // Extrapolates from the rows seen so far to ROWS more.
    const most = begin * (1 + ROWS / (parent!.below[octant] + 1));
    const end = Math.min(most, Math.max(want, WIDER * begin));
    return end > 0.6 * this.held ? this.held : end;
  }

  /** Chooses the cells to draw and to fetch; allocates nothing while no new cell is needed. */
  choose(eye: Eye, budget: number, even = false): Choice {
    const { choice, root, level } = this;
    this.choices++;
    choice.wanted.length = 0;
    choice.rows = this.records = 0;
    this.coarsest = Infinity;
    choice.fraction[0] = 1;
    choice.fraction[1] = 0;
    for (const cell of this.cells) cell.inView = false;
    root.pixels = Math.max(1e-6, eye.pixels(root));
    if (root.state === "ready") {
      if (even !== this.even) this.release();
      this.even = even;
      level.clear();
      this.look(root, eye, 0);
      level.solve(budget);
      this.draw(root, eye);
    } else if (root.state === "new") choice.wanted.push(root);
    for (const cell of this.cells) {
      if (cell.drawn && !cell.inView) this.hide(cell);
      cell.drawn = cell.inView;
    }
    const all = this.changed.length > MANY;
    for (const cell of all ? [root] : this.changed) this.spread(cell);
    this.changed.length = 0;
    if (choice.fraction[1] === 0) choice.fraction[1] = choice.fraction[0];
    choice.reference = Math.min(choice.rows / Math.max(1, this.records), MOST_INK * this.coarsest, 1);
    if (choice.wanted.length > 1) choice.wanted.sort((a, b) => a.window[0] - b.window[0] || b.pixels - a.pixels);
    return choice;
  }

  /** Forgets the drawn points, so the next choice starts from scratch. */
  release(): void {
    this.level.reset();
    for (const cell of this.cells) cell.least = Infinity;
  }

  /** Whether the drawn points of a cell stay. */
  private stays(cell: Cell): boolean {
    return cell.drawn && cell.pixels >= cell.least;
  }

  /** Counts the rows in view from the finest loaded cells. */
  private look(cell: Cell, eye: Eye, kept: number): void {
    const end = cell.window[1];
    const stays = this.stays(cell) ? cell.end : kept;
    if (end >= this.held || cell.depth >= DEEPEST) {
      this.level.add(this.recordsOf(cell) * eye.visible(cell), this.importance(cell, eye), stays);
      return;
    }
    for (let octant = 0; octant < cell.children.length; octant++) {
      const before = cell.children[octant];
      const child = before ?? (cell.children[octant] = this.child(cell, octant));
      child.pixels = eye.pixels(child);
      const isOnScreen = child.pixels > 0;
      if (before && child.onScreen !== isOnScreen) {
        this.changed.push(child);
        if (isOnScreen) child.cameAt = this.choices;
      }
      child.onScreen = isOnScreen;
      if (child.pixels === 0) continue;
      if (child.state === "ready") this.look(child, eye, stays);
      else this.level.add(this.recordsOf(child) * eye.visible(child), this.importance(child, eye), stays);
    }
  }

  /** Approximate number of rows of a cell's region. */
  private recordsOf(cell: Cell): number {
    if (cell.state !== "ready") return (cell.parent?.below[cell.octant] ?? 0) / (cell.parent?.window[1] ?? 1);
    let records = 0;
    for (const below of cell.below) records += below;
    return records / cell.window[1];
  }

  /** The fraction that a cell asks for, as a multiple of the level. */
  private importance(cell: Cell, eye: Eye): number {
    const detail = eye.nearness(cell) * eye.interest(cell);
    return this.even ? (detail * cell.pixels * cell.pixels) / Math.max(1, this.recordsOf(cell)) : detail;
  }

  /** Draws a cell and its descendants as the level or their kept points require. */
  private draw(cell: Cell, eye: Eye): void {
    const { choice } = this;
    const [begin, end] = cell.window;
    cell.inView = true;
    cell.seen = this.choices;
    let wanted = 0;
    // Octants drawn no finer than this cell: their rows, and the smallest 1/nearness.
    let shallow = 0;
    let coarsest = Infinity;
    if (end >= 1 || cell.depth >= DEEPEST) {
      coarsest = 1 / eye.nearness(cell);
      wanted = this.wanted(cell, eye);
      shallow = this.recordsOf(cell) * eye.visible(cell) * eye.nearness(cell);
    } else {
      for (const child of cell.children) {
        if (!child || child.pixels === 0) continue;
        const want = this.wanted(child, eye);
        wanted = Math.max(wanted, want);
        const ready = child.state === "ready";
        if (ready && (want > end || this.stays(child))) {
          wanted = 1;
          this.draw(child, eye);
          continue;
        }
        const near = eye.nearness(child);
        coarsest = Math.min(coarsest, 1 / near);
        shallow += this.recordsOf(child) * eye.visible(child) * near;
        // Regions within 0.1 % of their target need no request.
        if (ready || want <= 1.001 * end) continue;
        if (child.state === "new") {
          child.window[1] = this.windowEnd(child, want);
          choice.wanted.push(child);
        }
      }
    }
    this.drawTo(cell, Math.min(end, Math.max(begin, wanted)));
    choice.rows += cell.count;
    if (shallow > 0) {
      this.reaches(cell.end);
      this.records += shallow;
      this.coarsest = Math.min(this.coarsest, cell.end * coarsest);
    }
  }

  private wanted(cell: Cell, eye: Eye): number {
    return Math.min(1, this.level.value * this.importance(cell, eye));
  }

  /** Draws a cell to this fraction, or keeps it if it is already finer. */
  private drawTo(cell: Cell, wanted: number): void {
    const stays = this.stays(cell) && cell.end > wanted;
    const to = stays ? cell.end : wanted;
    if (!stays) cell.least = SMALLER * cell.pixels;
    if (cell.drawn && to === cell.end) return;
    const [begin, end] = cell.window;
    cell.end = to;
    // Rows are at even steps from 0 to 1 with a random offset, so each is drawn with the same probability.
    cell.count = to >= end ? cell.rows : Math.floor((cell.rows * (to - begin)) / (end - begin) + cell.offset);
    this.changed.push(cell);
  }

  private hide(cell: Cell): void {
    cell.count = 0;
    cell.end = cell.window[0];
    cell.least = Infinity;
    this.changed.push(cell);
  }

  /** Marks the weights of a cell's region and its neighbours as outdated. */
  private spread(changed: Cell, at = this.root): boolean {
    if (!areBeside(at, changed)) return false;
    let isTouched = !at.drawn || at.children.every((child) => !child);
    if (isTouched) {
      at.changedAt = this.choices;
      at.beside = null;
    }
    if (at.drawn) for (const child of at.children) if (child && this.spread(changed, child)) isTouched = true;
    if (isTouched) at.stale = true;
    return isTouched;
  }

  private reaches(fraction: number): void {
    const range = this.choice.fraction;
    if (fraction < range[0]) range[0] = fraction;
    if (fraction > range[1]) range[1] = fraction;
  }

  /** Removes the cells that have been off the screen longest, until at most this many rows remain. */
  forget(most: number): void {
    let held = 0;
    for (const cell of this.cells) held += cell.rows;
    if (held <= most) return;
    const leaves = [...this.cells].filter((cell) => cell.depth > 0 && !cell.inView);
    // Among cells seen at the same time, children go before parents.
    leaves.sort((a, b) => a.seen - b.seen || b.depth - a.depth);
    for (const cell of leaves) {
      if (held <= most) break;
      if (cell.children.some((child) => child && child.state !== "new")) continue;
      held -= cell.rows;
      this.cells.delete(cell);
      cell.parent!.children[cell.octant] = null;
      this.removed(cell);
    }
  }
}
