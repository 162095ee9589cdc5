/** A cell: the records of a part of space in one window of the priorities, and how they are drawn. */

/**
 * What lies beside a part, by half of it along each axis (bits of the number) and by axis: the fraction across
 * the side of that axis, if it is less than the part's; Infinity otherwise. Empty: nothing beside it is coarser.
 */
export type Beside = Float64Array;

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
  /** In an order by chance, which is the same whenever the cell comes. */
  positions: Float32Array;
  columns: Float32Array[];
  /** The fraction to which its part of space is drawn by it and the cells above. */
  end: number;
  /** How many of its rows are drawn: the first ones. */
  count: number;
  /** In [0, 1): where its rows lie between the steps of `count`. */
  offset: number;
  /** Below this size on the screen, in pixels, it may be drawn to a lower fraction. */
  least: number;
  /** The weights of its points are not those of the present cells. */
  stale: boolean;
  /** The choice that last changed it, or what is beside it, as a part of what is drawn. */
  changedAt: number;
  /** What is drawn less finely beside it; null: not known. */
  beside: Beside | null;
  /** By octant: how many records of it are here and above. */
  below: Uint32Array;
  children: (Cell | null)[];
  drawn: boolean;
  inView: boolean;
  /** Whether it was on the screen at the last choice. */
  onScreen: boolean;
  /** The choice at which it came onto the screen. */
  cameAt: number;
  pixels: number;
  /** When it was last in view, in choices. */
  seen: number;
}

/** A cell without records yet. */
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
