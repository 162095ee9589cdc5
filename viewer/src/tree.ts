/**
 * The cells of a view, coarse to fine.
 *
 * Space is halved along each axis, again and again. A cell holds the records of its
 * part of space in one window of the priorities: its own begins where its parent's
 * ends, and is as wide as makes about ROWS of them. So
 *
 * - each record is in at most one cell of a branch: it is sent once;
 * - what a branch holds is every record below the end of its last window: a uniform
 *   sample of that part of space, as fine as the branch is deep;
 * - a cell can come and go without another one changing.
 *
 * Which cells are drawn: those in view that are large enough on the screen, the largest
 * first, as many as the budget of points allows. A cell that is drawn stays so while it
 * is in view and not much smaller than it was: panning takes away no point that stays
 * in view.
 */

export const ROWS = 8192;
/** The first cell holds more: what is seen at once. */
export const FIRST_ROWS = 24576;
/** How small on the screen, in pixels, a cell may be when it is fetched. */
const FETCH_PIXELS = 120;
/** And when it is let go. */
const KEEP_PIXELS = 60;
const DEEPEST = 40;

export interface Cell {
  depth: number;
  parent: Cell | null;
  octant: number;
  /** Its part of space, in the table's units. */
  low: number[];
  high: number[];
  /** A side at the border of the whole is open: the cell also holds the records beyond it. */
  openLow: boolean[];
  openHigh: boolean[];
  window: [number, number];
  state: "new" | "requested" | "ready";
  rows: number;
  positions: Float32Array;
  columns: Float32Array[];
  /** By octant: how many records of it are here and above. */
  below: Uint32Array;
  children: (Cell | null)[];
  drawn: boolean;
  inView: boolean;
  pixels: number;
  /** When it was last in view, in choices. */
  seen: number;
}

/** How a cell appears from the camera. */
export interface Eye {
  /** Its size in pixels, or 0 if it is out of view. */
  pixels(cell: Cell): number;
}

export interface Choice {
  /** Cells to request, the most important first. */
  wanted: Cell[];
  /** Rows that are drawn. */
  rows: number;
  /** Lowest and highest precision in view. */
  precision: [number, number];
}

export class Tree {
  readonly root: Cell;
  readonly cells = new Set<Cell>();
  private choices = 0;
  private readonly fringe: Cell[] = [];
  private readonly choice: Choice = { wanted: [], rows: 0, precision: [1, 1] };

  /** `low` and `high`: about where the records lie; `total`: how many there are. */
  constructor(
    readonly low: number[],
    readonly high: number[],
    total: number,
    readonly added: (cell: Cell) => void,
    readonly removed: (cell: Cell) => void,
  ) {
    const axes = low.map(() => true);
    const end = Math.min(1, FIRST_ROWS / Math.max(1, total));
    this.root = this.cell(null, 0, low, high, axes, axes, [0, end]);
  }

  private cell(
    parent: Cell | null,
    octant: number,
    low: number[],
    high: number[],
    openLow: boolean[],
    openHigh: boolean[],
    window: [number, number],
  ): Cell {
    const octants = 1 << low.length;
    return {
      depth: parent ? parent.depth + 1 : 0,
      parent,
      octant,
      low,
      high,
      openLow,
      openHigh,
      window,
      state: "new",
      rows: 0,
      positions: new Float32Array(0),
      columns: [],
      below: new Uint32Array(octants),
      children: new Array<Cell | null>(octants).fill(null),
      drawn: false,
      inView: false,
      pixels: 0,
      seen: 0,
    };
  }

  /** Stores the records of a cell. */
  fill(cell: Cell, positions: Float32Array, columns: Float32Array[]): void {
    const axes = this.low.length;
    cell.rows = positions.length / axes;
    cell.positions = positions;
    cell.columns = columns;
    cell.state = "ready";
    cell.below.fill(0);
    for (let above: Cell | null = cell; above; above = above.parent) this.countInto(cell, above);
    this.cells.add(cell);
    this.added(cell);
  }

  /** Counts the records of `above` that lie in each octant of `cell`. */
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
    // These records have come from here at this precision; ROWS more are wanted.
    const begin = parent.window[1];
    const end = Math.min(1, begin * (1 + ROWS / (parent.below[octant] + 1)));
    // A small remainder is included rather than left for another cell.
    return this.cell(parent, octant, low, high, openLow, openHigh, [begin, end > 0.6 ? 1 : end]);
  }

  /** Chooses the cells to draw and to fetch. Allocates nothing while no new cell is wanted. */
  choose(eye: Eye, budget: number): Choice {
    const { choice, fringe } = this;
    this.choices++;
    choice.wanted.length = 0;
    choice.rows = 0;
    choice.precision[0] = 1;
    choice.precision[1] = 0;
    fringe.length = 0;
    for (const cell of this.cells) cell.inView = false;
    this.root.pixels = Math.max(1e-6, eye.pixels(this.root));
    fringe.push(this.root);
    // What is drawn and stays so comes first: others share what is left of the budget.
    let kept = 0;
    for (const cell of this.cells) {
      if (!cell.drawn) continue;
      cell.pixels = eye.pixels(cell);
      if (cell.pixels >= KEEP_PIXELS) kept += cell.rows;
    }
    let left = budget - kept;
    // Once a cell that has come finds no room, no others are asked for: they are smaller on
    // the screen, and would find none either.
    let full = false;
    while (fringe.length > 0) {
      const cell = largest(fringe);
      if (cell.state !== "ready") {
        if (cell.depth === 0 || (left > 0 && !full)) {
          if (cell.state === "new") choice.wanted.push(cell);
          left -= this.expected(cell);
        }
        this.reaches(cell.window[0]);
        continue;
      }
      cell.inView = true;
      cell.seen = this.choices;
      const keeps = cell.drawn && (cell.depth === 0 || cell.pixels >= KEEP_PIXELS);
      if (!keeps && cell.depth > 0 && left < cell.rows) {
        this.reaches(cell.window[0]);
        cell.inView = false;
        full = true;
        continue;
      }
      if (!keeps) left -= cell.rows;
      choice.rows += cell.rows;
      if (cell.window[1] >= 1) {
        this.reaches(1);
        continue;
      }
      if (cell.depth >= DEEPEST) continue;
      let finer = false;
      for (let octant = 0; octant < cell.children.length; octant++) {
        const child = cell.children[octant] ?? (cell.children[octant] = this.child(cell, octant));
        child.pixels = eye.pixels(child);
        const least = child.drawn ? KEEP_PIXELS : FETCH_PIXELS;
        if (child.pixels >= least) {
          fringe.push(child);
          finer = true;
        }
      }
      if (!finer) this.reaches(cell.window[1]);
    }
    for (const cell of this.cells) cell.drawn = cell.inView;
    if (choice.precision[1] === 0) choice.precision[1] = choice.precision[0];
    return choice;
  }

  private reaches(precision: number): void {
    const range = this.choice.precision;
    if (precision < range[0]) range[0] = precision;
    if (precision > range[1]) range[1] = precision;
  }

  /** The estimated number of records of a cell that has not arrived. */
  private expected(cell: Cell): number {
    if (!cell.parent) return FIRST_ROWS;
    const share = (cell.window[1] - cell.window[0]) / cell.window[0];
    return cell.parent.below[cell.octant] * share;
  }

  /** Removes the cells that have been out of view longest, until at most this number of rows is held. */
  forget(most: number): void {
    let held = 0;
    for (const cell of this.cells) held += cell.rows;
    if (held <= most) return;
    const leaves = [...this.cells].filter((cell) => cell.depth > 0 && !cell.inView);
    // Finer ones first among those that were seen at the same time: children go before parents.
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

/** Takes the cell that is largest on the screen. */
function largest(cells: Cell[]): Cell {
  let best = 0;
  for (let at = 1; at < cells.length; at++) if (cells[at].pixels > cells[best].pixels) best = at;
  const cell = cells[best];
  cells[best] = cells[cells.length - 1];
  cells.pop();
  return cell;
}
