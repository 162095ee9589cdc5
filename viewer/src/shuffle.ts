/** Puts the rows of a cell in an order by chance that depends on nothing but the cell. */

/** What the order follows from, and what is put in order. */
interface Cell {
  readonly parent: Cell | null;
  readonly octant: number;
  readonly depth: number;
  readonly rows: number;
  readonly positions: Float32Array;
  readonly columns: readonly Float32Array[];
}

/** A generator of numbers in [0, 1), the same for the same seed (mulberry32). */
export function generator(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

/** The cell's place in the tree as a number. */
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

/** Shuffles the rows; returns one more number of the same kind. */
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
