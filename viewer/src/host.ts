/**
 * The environment of the page, which sends requests and stores the view: in a browser tab the server and the tab's URL,
 * in a notebook cell the kernel and the notebook's connection (python/kubist/widget.js).
 */

import type { CountRequest } from "./generated/query";

export interface Host {
  /** Sends a request to the HTTP interface, like `fetch`. */
  request(path: string, init: RequestInit): Promise<Response>;
  /** The stored view, as URL parameters. */
  address(): string;
  /** Stores the view, and the selected rows with their version. */
  keep(address: string, selection: CountRequest | null): void;
  python(table: string): string;
}

declare global {
  interface Window {
    /** Set before the page's scripts run, if the page is not in a tab. */
    kubistHost?: Host;
  }
}

const tab: Host = {
  request: (path, init) => fetch(path, init),
  address: () => location.hash.slice(1),
  keep: (address) => history.replaceState(null, "", `#${address}`),
  python: (table) => `kubist.connect("${location.origin}", ${JSON.stringify(table)})`,
};

/** Unit tests have no window. */
export const host: Host = (typeof window === "undefined" ? undefined : window.kubistHost) ?? tab;
