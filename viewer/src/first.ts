/**
 * What the page needs first, asked for while the rest of it is still on its way.
 *
 * A script of its own, of a few lines, that runs as soon as it is here.
 */

import { open, type Opened } from "./api";
import { fromAddress } from "./look";

declare global {
  interface Window {
    kubistFirst?: Promise<Opened>;
  }
}

window.kubistFirst = open(fromAddress(location.hash.slice(1)).table);
// Whoever waits for it hears of a failure.
window.kubistFirst.catch(() => {});
