/** Follows the commits of a running simulation. */

import * as api from "./api";
import type { App } from "./app";

const SAMPLE = 5000;

export class Live {
  /** Records that came since the table was opened, and with the last news. */
  came = 0;
  last = 0;
  private waiting: AbortController | null = null;

  constructor(private readonly app: App) {}

  /** Another table, or the same anew. */
  begin(): void {
    this.came = this.last = 0;
    void this.follow();
  }

  stop(): void {
    this.waiting?.abort();
  }

  /** Takes what the table has become. */
  take(info: api.TableInfo): void {
    const facts = this.app.facts!;
    if (info.version === facts.info.version) return;
    this.last = info.rows - facts.info.rows;
    this.came += this.last;
    facts.info = info;
  }

  async follow(): Promise<void> {
    this.stop();
    const { signal } = (this.waiting = new AbortController());
    const { app } = this;
    while (!signal.aborted && app.look.live) {
      try {
        const { table } = app.look;
        const { version } = app.facts!.info;
        const info = await api.news(table, version, signal);
        if (signal.aborted) return;
        app.trouble = null;
        if (info.version === app.facts!.info.version) continue;
        this.take(info);
        const names = [...app.facts!.histograms.keys()];
        // The points are asked for even where this fails.
        const found = await api.histogram(table, { version: info.version }, SAMPLE, names, signal).catch(() => null);
        if (signal.aborted) return;
        if (found && app.facts!.widen(found.columns)) app.rebuild();
        app.refill();
        app.changed();
        // What is on its way is shown before the next is asked for.
        while (app.isFilling && !signal.aborted) await pause(50);
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof api.Refusal)) app.tell(error);
        await pause(1000);
      }
    }
  }
}

export const pause = (milliseconds: number) => new Promise((done) => setTimeout(done, milliseconds));
