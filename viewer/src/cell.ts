/** A cell: the rows of a region of space in one window of priorities, and its drawing state. */

/**
 * The fractions of coarser regions next to a region, indexed by half along each axis (bits) and by axis: infinity if
 * the neighbour is not coarser, and empty if none is.
 */
export type Beside = Float64Array;

export interface Cell {
  depth: number;
  parent: Cell | null;
  octant: number;
  /** Its region of space, in the table's units. */
  low: number[];
  high: number[];
  /** At the border of the view, cells are open: they also contain the rows beyond. */
  openLow: boolean[];
  openHigh: boolean[];
  window: [number, number];
  state: "new" | "requested" | "ready";
  rows: number;
  /** In a random order that depends only on the cell. */
  positions: Float32Array;
  columns: Float32Array[];
  /** The fraction up to which it and its ancestors draw its region. */
  end: number;
  /** Number of drawn rows: the first ones. */
  count: number;
  /** Rounding offset of `count`, in [0, 1). */
  offset: number;
  /** Below this size on the screen, in pixels, its fraction may decrease. */
  least: number;
  stale: boolean;
  /** The choice that last changed it or its neighbours. */
  changedAt: number;
  /** Coarser neighbours; null if unknown. */
  beside: Beside | null;
  /** By octant: number of rows in this cell and its ancestors. */
  below: Uint32Array;
  children: (Cell | null)[];
  drawn: boolean;
  inView: boolean;
  onScreen: boolean;
  /** The choice that brought it onto the screen. */
  cameAt: number;
  pixels: number;
  /** The choice at which it was last on the screen. */
  seen: number;
}

export function newCell(
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
    end: 0,
    count: 0,
    offset: 0,
    least: Infinity,
    stale: true,
    changedAt: 0,
    beside: null,
    below: new Uint32Array(octants),
    children: new Array<Cell | null>(octants).fill(null),
    drawn: false,
    inView: false,
    onScreen: false,
    cameAt: 0,
    pixels: 0,
    seen: 0,
  };
}
