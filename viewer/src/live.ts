/** Follows the commits of a running simulation, also if the table is dropped and created again. */

import * as api from "./api";
import { pause } from "./pause";
import type { Requests } from "./requests";
import type { State } from "./state";

const SAMPLE = 5000;

export class Live {
  private waiting: AbortController | null = null;

  constructor(
    private readonly state: State,
    private readonly requests: Requests,
  ) {}

  begin(): void {
    this.state.added = this.state.lastAdded = 0;
    void this.follow();
  }

  stop(): void {
    this.waiting?.abort();
  }

  async follow(): Promise<void> {
    this.stop();
    const { signal } = (this.waiting = new AbortController());
    const { state, requests } = this;
    let isLost = false;
    while (!signal.aborted && state.view.live) {
      try {
        const { table } = state.view;
        const { version, id } = state.profile!.info;
        // After a lost connection or table, the server's state is requested at once.
        const info = isLost ? await api.info(table) : await api.changes(table, version, signal);
        if (signal.aborted) return;
        if (info.id !== id) {
          location.reload();
          return;
        }
        if (isLost) {
          isLost = false;
          state.message = null;
          state.changed();
        }
        if (info.version === state.profile!.info.version) continue;
        state.update(info);
        const names = [...state.profile!.histograms.keys()];
        // The points are requested even if this fails.
        const found = await api.histogram(table, { version: info.version }, SAMPLE, names, signal).catch(() => null);
        if (signal.aborted) return;
        if (found && state.profile!.widen(found.columns)) state.rebuild();
        requests.reload();
        state.changed();
        // This version is shown before the next one is requested.
        while (requests.isLoading && !signal.aborted) await pause(50);
      } catch (error) {
        if (signal.aborted) return;
        isLost = true;
        state.report(error);
        await pause(1000);
      }
    }
  }
}
