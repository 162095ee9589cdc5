/** Shuffles the rows of a cell in an order that depends only on the cell. */

interface Cell {
  readonly parent: Cell | null;
  readonly octant: number;
  readonly depth: number;
  readonly rows: number;
  readonly positions: Float32Array;
  readonly columns: readonly Float32Array[];
}

/** A random number generator in [0, 1) with a seed (mulberry32). */
export function generator(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

/** A seed from the cell's position in the tree. */
function seedOf(cell: Cell): number {
  let seed = 1;
  for (let at: Cell | null = cell; at; at = at.parent) seed = (Math.imul(seed, 0x9e3779b1) + at.octant + at.depth) | 0;
  return seed;
}

function swap(values: Float32Array, a: number, b: number, width: number): void {
  for (let k = 0; k < width; k++) {
    const value = values[a * width + k];
    values[a * width + k] = values[b * width + k];
    values[b * width + k] = value;
  }
}

/** Shuffles the rows; returns one more random number. */
export function shuffle(cell: Cell, axes: number): number {
  const next = generator(seedOf(cell));
  const offset = next();
  for (let row = cell.rows - 1; row > 0; row--) {
    const other = Math.floor(next() * (row + 1));
    swap(cell.positions, row, other, axes);
    for (const column of cell.columns) swap(column, row, other, 1);
  }
  return offset;
}
