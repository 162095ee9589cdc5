/** The cells of a view, filled from records in memory, under a camera that moves. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { rowsOf } from "../src/api";
import { FrameReader, type Frame } from "../src/frames";
import { fromAddress, toAddress } from "../src/view";
import { ticks } from "../src/numbers";
import { segments } from "../src/trails";
import { Tree, type Cell, type Eye } from "../src/tree";

interface Record {
  at: number[];
  priority: number;
}

/** Numbers that are the same in every run. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** Half of them everywhere, half in a few small clusters, some beyond the box. */
function world(count: number, axes: number): Record[] {
  const draw = random(axes);
  const centers = Array.from({ length: 5 }, () => Array.from({ length: axes }, draw));
  return Array.from({ length: count }, (_, k) => {
    const center = centers[Math.floor(draw() * 5)];
    const at = k % 2 ? center.map((value) => value + 0.002 * (draw() - 0.5)) : center.map(() => 1.04 * draw() - 0.02);
    return { at: at.map(Math.fround), priority: draw() };
  });
}

/** Looks straight down on a square of this size. */
class Window implements Eye {
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
}

class Server {
  sent = 0;
  readonly seen = new Set<Record>();
  readonly of = new Map<Cell, Record[]>();

  constructor(private readonly records: Record[]) {}

  fill(tree: Tree, cell: Cell): void {
    const found = this.records.filter(
      (record) =>
        record.priority >= cell.window[0] &&
        record.priority < cell.window[1] &&
        record.at.every((value, k) => (cell.openLow[k] || value >= cell.low[k]) && (cell.openHigh[k] || value < cell.high[k])),
    );
    for (const record of found) {
      assert(!this.seen.has(record), "a record is sent once");
      this.seen.add(record);
    }
    this.sent += found.length;
    this.of.set(cell, found);
    tree.fill(cell, new Float32Array(found.flatMap((record) => record.at.map((value, k) => value - cell.low[k]))), []);
  }
}

function settle(tree: Tree, server: Server, eye: Eye, budget: number): number {
  for (let round = 0; round < 200; round++) {
    const { wanted, rows } = tree.choose(eye, budget);
    if (wanted.length === 0) return rows;
    for (const cell of wanted.slice(0, 12)) server.fill(tree, cell);
  }
  assert.fail("it goes on asking");
}

for (const axes of [2, 3]) {
  const records = world(120_000, axes);
  const box = () => [new Array(axes).fill(0), new Array(axes).fill(1)];

  test(`what is drawn is a sample of each region, in ${axes} dimensions`, () => {
    const [low, high] = box();
    const tree = new Tree(low, high, records.length, () => {}, () => {});
    const server = new Server(records);
    settle(tree, server, new Window([0.5, 0.5], 1.2), 60_000);
    const drawn = [...tree.cells].filter((cell) => cell.drawn);
    const shown = new Set(drawn.flatMap((cell) => server.of.get(cell)!));
    for (const cell of drawn) {
      // Where nothing finer is drawn, all below the end of the window are there.
      const inside = records.filter(
        (record) =>
          record.priority < cell.window[1] &&
          record.at.every((value, k) => (cell.openLow[k] || value >= cell.low[k]) && (cell.openHigh[k] || value < cell.high[k])),
      );
      for (const record of inside) assert(shown.has(record));
    }
    assert(shown.size > 20_000 && shown.size < 75_000, `${shown.size} points under a budget of 60,000`);
  });

  test(`panning takes away no point that stays in view, in ${axes} dimensions`, () => {
    const [low, high] = box();
    const tree = new Tree(low, high, records.length, () => {}, () => {});
    const server = new Server(records);
    const eye = new Window([0.3, 0.5], 0.3);
    settle(tree, server, eye, 40_000);
    for (let step = 0; step < 60; step++) {
      const before = [...tree.cells].filter((cell) => cell.drawn);
      eye.middle = [0.3 + 0.25 * Math.sin(step / 7), 0.5 + 0.2 * Math.sin(step / 11)];
      const { wanted } = tree.choose(eye, 40_000);
      for (const cell of before) assert(cell.drawn || eye.pixels(cell) === 0, "it is in view and gone");
      for (const cell of wanted.slice(0, 6)) server.fill(tree, cell);
    }
    settle(tree, server, eye, 40_000);
  });

  test(`a small budget is no reason to ask twice, in ${axes} dimensions`, () => {
    for (const budget of [10_000, 25_000, 40_000]) {
      const [low, high] = box();
      const tree = new Tree(low, high, records.length, () => {}, () => {});
      const server = new Server(records);
      // What is held beyond three budgets is let go of, as the page does.
      const eye = new Window([0.5, 0.5], 0.4);
      const choose = tree.choose.bind(tree);
      tree.choose = (...of) => {
        const choice = choose(...of);
        tree.forget(3 * budget);
        return choice;
      };
      settle(tree, server, eye, budget);
    }
  });

  test(`coming back asks for nothing again, in ${axes} dimensions`, () => {
    const [low, high] = box();
    const tree = new Tree(low, high, records.length, () => {}, () => {});
    const server = new Server(records);
    settle(tree, server, new Window([0.25, 0.5], 0.2), 50_000);
    settle(tree, server, new Window([0.75, 0.5], 0.2), 50_000);
    const { sent } = server;
    settle(tree, server, new Window([0.25, 0.5], 0.2), 50_000);
    assert.equal(server.sent, sent);
  });
}

test("what is long out of view is forgotten, leaves first", () => {
  const records = world(200_000, 2);
  const gone = new Set<Cell>();
  const tree = new Tree([0, 0], [1, 1], records.length, () => {}, (cell) => gone.add(cell));
  const server = new Server(records);
  settle(tree, server, new Window([0.1, 0.1], 0.1), 50_000);
  settle(tree, server, new Window([0.9, 0.9], 0.1), 50_000);
  const held = () => [...tree.cells].reduce((rows, cell) => rows + cell.rows, 0);
  tree.forget(30_000);
  assert(held() <= 40_000 && gone.size > 0);
  for (const cell of tree.cells) assert(!cell.parent || tree.cells.has(cell.parent));
});

test("frames come out whole, wherever they were cut", () => {
  const bytes = new Uint8Array(2 * 16 + 3 * 4 * 3);
  const view = new DataView(bytes.buffer);
  [5, 3, 0, 0].forEach((word, k) => view.setUint32(4 * k, word, true));
  for (let k = 0; k < 9; k++) view.setFloat32(16 + 4 * k, k + 0.5, true);
  [5, 0, 1, 0].forEach((word, k) => view.setUint32(52 + 4 * k, word, true));
  for (let size = 1; size <= bytes.length; size++) {
    const frames: Frame[] = [];
    const reader = new FrameReader(2, 1, (frame) => frames.push(frame));
    for (let at = 0; at < bytes.length; at += size) reader.push(bytes.subarray(at, at + size));
    reader.end();
    assert.deepEqual(frames.map((frame) => [frame.cell, frame.rows, frame.last]), [[5, 3, false], [5, 0, true]]);
    assert.deepEqual([...frames[0].positions], [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]);
    assert.deepEqual([...frames[0].columns[0]], [6.5, 7.5, 8.5]);
  }
  const reader = new FrameReader(2, 1, () => {});
  reader.push(bytes.subarray(0, 30));
  assert.throws(() => reader.end());
});

test("an address keeps the view, and nonsense in it does no harm", () => {
  const view = fromAddress(
    "table=run&axes=x,y,z&color=ux&map=viridis&log=1&range=1..5.5&filter=d%3D..3&filter=a%3Db%3D1..&where=x+%3E+1&time=t%3D0.25..0.25&roi=0..1,2..3,4..5&budget=50000&theme=dark&camera=1,2,3,4,5,6,1",
  );
  assert.deepEqual(fromAddress(toAddress(view)), view);
  assert.deepEqual(view.filters, [{ column: "d", low: null, high: 3 }, { column: "a=b", low: 1, high: null }]);
  assert.deepEqual(view.roi, { low: [0, 2, 4], high: [1, 3, 5] });
  for (const bad of ["range=5..1", "roi=a..b", "camera=1,2", "budget=-5", "filter=x=a..b", "time=t", "%%%", "axes=,,,"]) fromAddress(bad);
});

test("ticks are round", () => {
  assert.deepEqual(ticks(0, 1, 5), [0, 0.2, 0.4, 0.6, 0.8, 1]);
  assert.deepEqual(ticks(-0.13, 0.31, 4), [0, 0.2]);
  assert.deepEqual(ticks(1, 1, 5), []);
});

test("a value in quotes is one value", () => {
  assert.deepEqual(rowsOf('a,b\n1,"x, ""y""\nz"\n,2\n'), [["a", "b"], ["1", 'x, "y"\nz'], ["", "2"]]);
  assert.deepEqual(rowsOf("a,b\r\n"), [["a", "b"]]);
});

test("lines go from record to record of one trajectory, in the order of time", () => {
  const of = Float32Array.of(1, 0, 1, 0, 1, 2, -1, -1);
  const time = Float32Array.of(3, 5, 1, 4, 2, 9, 1, 2);
  assert.deepEqual([...segments(of, time)], [3, 1, 2, 4, 4, 0]);
  // A record without a time is on no line, and nothing says how two of one time follow each other.
  const some = Float32Array.of(NaN, 2, 1, 2, 3);
  assert.deepEqual([...segments(new Float32Array(5), some)], [2, 1, 3, 4]);
});
