/**
 * How many records a point stands for: 1/precision of the part of space it lies in.
 *
 * A cell's points lie in several parts if finer cells are drawn below it. Each point's part is
 * found by walking down the cells that are drawn; this is done again only for cells below
 * which something has changed.
 */

import type { Cell } from "./tree";

/** The finest cell that is drawn at this row of a cell. */
function finest(cell: Cell, row: number): Cell {
  const axes = cell.low.length;
  let at = cell;
  for (;;) {
    let octant = 0;
    for (let k = 0; k < axes; k++) {
      const value = cell.positions[row * axes + k] + cell.low[k];
      if (value >= (at.low[k] + at.high[k]) / 2) octant |= 1 << k;
    }
    const child = at.children[octant];
    if (!child?.drawn) return at;
    at = child;
  }
}

/** Brings the weights of a cell's points up to date. */
export function weigh(cell: Cell, weights: Float32Array): void {
  const isLeaf = !cell.children.some((child) => child?.drawn);
  if (isLeaf) weights.fill(1 / cell.end, 0, cell.count);
  else for (let row = 0; row < cell.count; row++) weights[row] = 1 / finest(cell, row).end;
  cell.stale = false;
}
