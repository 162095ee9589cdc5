/**
 * Where the page lives: what answers its requests, and what keeps its view.
 *
 * In a tab of its own that is the server that it came from, and the address of the tab. In a cell of
 * a notebook it is the kernel, over the notebook's own connection (python/kubist/widget.js).
 */

import type { CountRequest } from "./generated/query";

export interface Host {
  /** Answers a request to the HTTP interface, as `fetch` does. */
  request(path: string, init: RequestInit): Promise<Response>;
  /** The view that was kept, in the form of an address. */
  address(): string;
  /** Keeps the view, and which records of which version it selects. */
  keep(address: string, selection: CountRequest | null): void;
  /** Python code that opens the table. */
  python(table: string): string;
}

declare global {
  interface Window {
    /** Set before the page's scripts run, where it lives elsewhere than in a tab. */
    kubistHost?: Host;
  }
}

const tab: Host = {
  request: (path, init) => fetch(path, init),
  address: () => location.hash.slice(1),
  keep: (address) => history.replaceState(null, "", `#${address}`),
  python: (table) => `kubist.connect("${location.origin}", ${JSON.stringify(table)})`,
};

/** Tests of the parts run without a window. */
export const host: Host = (typeof window === "undefined" ? undefined : window.kubistHost) ?? tab;
