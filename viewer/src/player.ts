/** Time, by steps or as a range that slides. */

import type { App } from "./app";
import { timeOf } from "./question";

/** Milliseconds that a picture stays, at least. */
const PACE = 160;
const MOST_MOMENTS = 1024;

export class Player {
  playing = false;
  private playedAt = 0;

  constructor(private readonly app: App) {}

  get column(): string | null {
    return this.app.facts && timeOf(this.app.look, this.app.facts);
  }

  /** The moments that can be stepped through; none: time is a range that slides. */
  get moments(): number[] | null {
    const distinct = this.app.facts?.histograms.get(this.column ?? "")?.distinct;
    return distinct && distinct.length > 1 && distinct.length <= MOST_MOMENTS ? distinct : null;
  }

  get ends(): [number, number] {
    const { low = 0, high = 1 } = this.app.facts?.histograms.get(this.column ?? "") ?? {};
    return [low, high];
  }

  private get width(): number {
    const { time } = this.app.look;
    const [low, high] = this.ends;
    return time ? time.high - time.low : (high - low) / 50;
  }

  /** Shows this place of the slider: the moment of this number, or the range that begins there. */
  show(at: number): void {
    const column = this.column!;
    const { moments } = this;
    const low = moments ? moments[Math.round(at)] : at;
    this.app.setTime({ column, low, high: moments ? low : low + this.width });
  }

  /** Time goes on by so many steps, around the end. */
  step(by: number): void {
    if (!this.column) return;
    const { moments, width } = this;
    const { time } = this.app.look;
    if (moments) {
      const here = time ? nearestIndex(moments, time.low) : by > 0 ? -1 : 0;
      this.show((here + by + moments.length) % moments.length);
      return;
    }
    const [low, high] = this.ends;
    let from = time ? time.low + (by * width) / 2 : low;
    if (from >= high) from = low;
    if (from + width <= low) from = high - width;
    this.show(from);
  }

  play(playing: boolean): void {
    this.playing = playing && this.column !== null;
    this.app.changed();
    if (this.playing) this.go();
    else this.app.trails.later();
  }

  private go(): void {
    this.playedAt = performance.now();
    this.step(1);
  }

  /** What was asked for is on the screen: time goes on. */
  shown(): void {
    if (!this.playing) return;
    const wait = Math.max(0, PACE - (performance.now() - this.playedAt));
    setTimeout(() => {
      if (this.playing && !this.app.isFilling) this.go();
    }, wait);
  }
}

export function nearestIndex(sorted: number[], value: number): number {
  let best = 0;
  sorted.forEach((other, k) => {
    if (Math.abs(other - value) < Math.abs(sorted[best] - value)) best = k;
  });
  return best;
}
