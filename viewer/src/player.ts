/** Plays time, step by step or as a sliding range. */

import { timeOf } from "./query";
import type { Requests } from "./requests";
import type { State } from "./state";
import type { ViewSpec } from "./view";

/** Shortest display time of a picture in milliseconds, at normal speed. */
const PACE = 160;
const MOST_STEPS = 1024;

export interface Actions {
  show(time: ViewSpec["time"]): void;
  stopped(): void;
}

export class Player {
  playing = false;
  private playedAt = 0;

  constructor(
    private readonly state: State,
    private readonly requests: Requests,
    private readonly actions: Actions,
  ) {}

  get column(): string | null {
    return this.state.profile && timeOf(this.state.view, this.state.profile);
  }

  /** The times to step through; null if time is a sliding range. */
  get steps(): number[] | null {
    const distinct = this.state.profile?.histograms.get(this.column ?? "")?.distinct;
    return distinct && distinct.length > 1 && distinct.length <= MOST_STEPS ? distinct : null;
  }

  get ends(): [number, number] {
    const { low = 0, high = 1 } = this.state.profile?.histograms.get(this.column ?? "") ?? {};
    return [low, high];
  }

  private get width(): number {
    const { time } = this.state.view;
    const [low, high] = this.ends;
    return time ? time.high - time.low : (high - low) / 50;
  }

  /** Shows the step with this index, or the range that starts at this slider position. */
  show(at: number): void {
    const column = this.column!;
    const { steps } = this;
    const low = steps ? steps[Math.round(at)] : at;
    const isWhole = /^u?int/i.test(this.state.profile!.column(column).data_type);
    const [from, wide] = isWhole && !steps ? [Math.round(low), Math.max(0, Math.round(this.width))] : [low, this.width];
    this.actions.show({ column, low: from, high: steps ? from : from + wide });
  }

  /** Advances by this number of steps, cyclically. */
  step(by: number): void {
    if (!this.column) return;
    const { steps, width } = this;
    const { time } = this.state.view;
    if (steps) {
      const here = time ? nearestIndex(steps, time.low) : by > 0 ? -1 : 0;
      this.show((here + by + steps.length) % steps.length);
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
    this.state.changed();
    if (this.playing) this.go();
    else this.actions.stopped();
  }

  private go(): void {
    this.playedAt = performance.now();
    this.step(1);
  }

  /** Schedules the next step once this one is on the screen. */
  continue(): void {
    if (!this.playing) return;
    const wait = Math.max(0, PACE / this.state.view.speed - (performance.now() - this.playedAt));
    setTimeout(() => {
      if (this.playing && !this.requests.isLoading) this.go();
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
