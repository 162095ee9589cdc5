/** Rows in memory, a server of them, and a camera from straight above, for tests of cells. */

import assert from "node:assert/strict";
import type { Cell } from "../src/cell";
import { Tree, type Eye } from "../src/tree";

export interface Record {
  at: number[];
  priority: number;
}

/** Looks straight down on a square of this size. */
export class Window implements Eye {
  constructor(
    public middle: number[],
    public size: number,
  ) {}

  pixels(cell: Cell): number {
    for (let k = 0; k < 2; k++) {
      const [low, high] = [this.middle[k] - this.size / 2, this.middle[k] + this.size / 2];
      if ((cell.low[k] > high && !cell.openLow[k]) || (cell.high[k] < low && !cell.openHigh[k])) return 0;
    }
    return ((cell.high[0] - cell.low[0]) / this.size) * 800;
  }

  nearness(_: Cell): number {
    return 1;
  }

  interest(): number {
    return 1;
  }

  visible(cell: Cell): number {
    let share = 1;
    for (let k = 0; k < 2; k++) {
      const inside = Math.min(cell.high[k], this.middle[k] + this.size / 2) - Math.max(cell.low[k], this.middle[k] - this.size / 2);
      share *= Math.max(0, inside) / (cell.high[k] - cell.low[k]);
    }
    return share;
  }
}

export class Server {
  sent = 0;
  readonly seen = new Set<Record>();
  readonly of = new Map<Cell, Record[]>();

  /** The rows in a cell's region, by cell. */
  private readonly inside = new Map<Cell, Record[]>();

  constructor(private readonly records: Record[]) {}

  private recordsIn(cell: Cell): Record[] {
    let inside = this.inside.get(cell);
    if (!inside) {
      const around = cell.parent ? this.recordsIn(cell.parent) : this.records;
      const isIn = ({ at }: Record) =>
        at.every((value, k) => (cell.openLow[k] || value >= cell.low[k]) && (cell.openHigh[k] || value < cell.high[k]));
      this.inside.set(cell, (inside = around.filter(isIn)));
    }
    return inside;
  }

  fill(tree: Tree, cell: Cell): void {
    const found = this.recordsIn(cell).filter(({ priority }) => priority >= cell.window[0] && priority < cell.window[1]);
    for (const record of found) {
      assert(!this.seen.has(record), "a record is sent once");
      this.seen.add(record);
    }
    this.sent += found.length;
    this.of.set(cell, found);
    tree.fill(cell, new Float32Array(found.flatMap(({ at }) => at.map((value, k) => value - cell.low[k]))), []);
  }
}

/**
 * Chooses and fills until nothing is missing, calls `each` for every choice, and returns the number of drawn rows.
 */
export function settle(tree: Tree, server: Server, eye: Eye, budget: number, each = () => {}, even = false): number {
  for (let round = 0; round < 400; round++) {
    const { wanted, rows } = tree.choose(eye, budget, even);
    each();
    if (wanted.length === 0) return rows;
    for (const cell of wanted.slice(0, 12)) server.fill(tree, cell);
  }
  assert.fail("it goes on asking");
}
