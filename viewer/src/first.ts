/**
 * Requests the table's description and the points of the first cell while the main script is still loading. A small
 * separate script starts earliest.
 */

import { open, points, type Opened } from "./api";
import { TableProfile } from "./profile";
import type { Frame } from "./frames";
import { host } from "./host";
import type { PointsRequest } from "./generated/query";
import { fromAddress } from "./view";
import { pointsSpec, extentOf, pointsQuery, complete } from "./query";
import { Tree } from "./tree";

export interface Prefetched {
  query: PointsRequest;
  frames: Promise<Frame[]>;
}

declare global {
  interface Window {
    kubistFirst?: { opened: Promise<Opened>; ahead: Promise<Prefetched> };
  }
}

function firstPoints(opened: Opened): Prefetched {
  const view = fromAddress(host.address());
  const profile = TableProfile.of(opened);
  view.table = profile.info.name;
  complete(view, profile);
  const spec = pointsSpec(view, profile);
  const { low, high } = extentOf(view, profile);
  const { root } = new Tree(low, high, profile.info.rows, () => {}, () => {}, profile.held);
  const query = pointsQuery(spec, [root]);
  const frames: Frame[] = [];
  const received = points(spec.table, query, (frame) => frames.push(frame));
  return { query, frames: received.then(() => frames) };
}

const opened = open(fromAddress(host.address()).table);
const ahead = opened.then(firstPoints);
window.kubistFirst = { opened, ahead };
// The code that awaits these promises reports failures.
opened.catch(() => {});
ahead.then(({ frames }) => frames).catch(() => {});
