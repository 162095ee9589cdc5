/**
 * Transitions of point weights, over a quarter of a second.
 *
 * When a cell arrives, its points appear, and existing points in its region represent fewer rows each; when it leaves,
 * the reverse. During the transition each weight is a mean of the old and the new one, and new points start at 0. Both
 * sets of weights represent all rows of the region, so their mean does too: nothing appears or vanishes abruptly, and
 * the total stays correct. A change during a transition starts from the current weights.
 *
 * Regions that the camera brings onto the screen get their weights at once. While all points have the same
 * constant weight and none arrive, nothing is done.
 */

import type { Cell } from "./cell";
import { SAME, type Weights } from "./weights";

export const FADE = 250;

const NONE = new Float32Array(0);

export class Ink {
  /** Target and start of the transition; the same array unless `isMoving`. */
  weights = NONE;
  before = NONE;
  /** Drawn rows: more than the cell's count while some fade out. */
  rows = 0;
  isMoving = false;
  /** The arrays have changed since this was last set to false. */
  isNew = false;
  /** The cell's count for `weights`; 0 if they are older than the tree's last choice. */
  count = 0;
}

interface Chosen {
  fraction: [number, number];
  reference: number;
}

export class Fading {
  /** Progress of the transition, from 0 to 1. */
  share = 1;
  /** The fraction of a point with standard ink. */
  reference = 1;
  private readonly inks = new Map<Cell, Ink>();
  private begun = -Infinity;
  /** The common fraction of all points; 0 if each has its own weight. */
  private alike = 0;
  private referenceBefore = 1;

  constructor(private readonly by: Weights) {}

  get isFading(): boolean {
    return this.share < 1;
  }

  get hasWeights(): boolean {
    return this.alike === 0;
  }

  inkOf(cell: Cell): Ink {
    let ink = this.inks.get(cell);
    if (!ink) this.inks.set(cell, (ink = new Ink()));
    return ink;
  }

  /** The current weight of a drawn row. */
  weightOf(cell: Cell, row: number): number {
    if (this.alike > 0) return 1 / this.alike;
    const { before, weights } = this.inkOf(cell);
    return before[row] + this.share * (weights[row] - before[row]);
  }

  forget(cell: Cell): void {
    this.inks.delete(cell);
  }

  /** Call after each choice of the tree. `isSeen`: its points were on the screen before. */
  update(cells: Iterable<Cell>, chosen: Chosen, now: number, isSeen: boolean): void {
    const [least, most] = chosen.fraction;
    const alike = most > SAME * least ? 0 : least;
    this.share = Math.min(1, Math.max(0, (now - this.begun) / FADE));
    const target = alike || chosen.reference;
    const isSame = alike > 0 && this.alike > 0 && Math.abs(Math.log(alike / this.alike)) < Math.log(SAME);
    const stays = isSame && this.isQuiet(cells);
    if (this.share === 1) this.cut();
    if (stays) this.keep(cells, alike);
    else if (!isSeen) this.jump(cells);
    else this.move(cells, now);
    if (this.share === 1 && alike > 0 && !stays) this.keep(cells, alike);
    this.reference = this.referenceBefore + this.share * (target - this.referenceBefore);
  }

  /** Whether drawn points are unchanged, except for those that came onto the screen or left it. */
  private isQuiet(cells: Iterable<Cell>): boolean {
    for (const cell of cells) if (cell.count !== this.inkOf(cell).rows && !this.by.comesOrGoes(cell)) return false;
    return true;
  }

  private cut(): void {
    for (const ink of this.inks.values()) if (ink.isMoving) ink.rows = ink.count;
  }

  /** All points have one weight, so individual weights are dropped. */
  private keep(cells: Iterable<Cell>, alike: number): void {
    this.alike = alike;
    for (const cell of cells) {
      const ink = this.inkOf(cell);
      ink.rows = cell.count;
      ink.count = 0;
      ink.isMoving = false;
    }
  }

  private jump(cells: Iterable<Cell>): void {
    this.begin(cells);
    this.begun = -Infinity;
    this.share = 1;
    this.cut();
  }

  private move(cells: Iterable<Cell>, now: number): void {
    if (this.alike === 0 && !this.isChanged(cells)) return;
    this.begin(cells);
    this.begun = now;
    this.share = 0;
  }

  private isChanged(cells: Iterable<Cell>): boolean {
    for (const cell of cells) if (cell.count !== this.inkOf(cell).count || (cell.count > 0 && cell.stale)) return true;
    return false;
  }

  /** Starts a transition from the current weights to those of the tree. */
  private begin(cells: Iterable<Cell>): void {
    this.referenceBefore = this.reference;
    for (const cell of cells) {
      const ink = this.inkOf(cell);
      const isChanged = cell.stale || cell.count !== ink.count;
      cell.stale = false;
      if (!isChanged && !ink.isMoving) continue;
      this.rebase(cell, ink);
      if (isChanged) this.aim(cell, ink);
      ink.isMoving = isChanged || this.share < 1;
    }
    this.alike = 0;
  }

  private rebase(cell: Cell, ink: Ink): void {
    if (ink.weights.length === 0) {
      if (cell.count === 0 && ink.rows === 0) return;
      [ink.weights, ink.before] = [new Float32Array(cell.rows), new Float32Array(cell.rows)];
    }
    const { before, weights, rows } = ink;
    const { alike, share } = this;
    if (alike > 0) before.fill(1 / alike, 0, rows);
    else if (share === 1) before.set(weights.subarray(0, rows));
    else for (let row = 0; row < rows; row++) before[row] += share * (weights[row] - before[row]);
    before.fill(0, rows);
    ink.isNew = true;
  }

  private aim(cell: Cell, ink: Ink): void {
    if (cell.count > 0) this.by.weigh(cell, ink.weights, ink.count > 0, ink.before);
    if (ink.rows > cell.count) ink.weights.fill(0, cell.count, ink.rows);
    ink.rows = Math.max(ink.rows, cell.count);
    ink.count = cell.count;
  }
}
