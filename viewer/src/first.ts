/**
 * What the page needs first, asked for while the rest of it is still on its way: what is
 * known of the table, and the points of the first cell.
 *
 * A script of its own, a small one, that runs as soon as it is here.
 */

import { open, points, type Opened, type PointsQuestion } from "./api";
import { Facts } from "./facts";
import type { Frame } from "./frames";
import { fromAddress } from "./look";
import { askedOf, endsOf, pointsQuestion, settle } from "./question";
import { Tree } from "./tree";

/** Points that were asked for before anybody wanted them. */
export interface Ahead {
  question: PointsQuestion;
  frames: Promise<Frame[]>;
}

declare global {
  interface Window {
    kubistFirst?: { opened: Promise<Opened>; ahead: Promise<Ahead> };
  }
}

function firstPoints(opened: Opened): Ahead {
  const look = fromAddress(location.hash.slice(1));
  const facts = Facts.of(opened);
  look.table = facts.info.name;
  settle(look, facts);
  const asked = askedOf(look, facts);
  const { low, high } = endsOf(look, facts);
  const { root } = new Tree(low, high, facts.info.rows, () => {}, () => {});
  const question = pointsQuestion(asked, [root]);
  const frames: Frame[] = [];
  const came = points(asked.table, question, (frame) => frames.push(frame));
  return { question, frames: came.then(() => frames) };
}

const opened = open(fromAddress(location.hash.slice(1)).table);
const ahead = opened.then(firstPoints);
window.kubistFirst = { opened, ahead };
// Whoever waits for them hears of a failure.
opened.catch(() => {});
ahead.then(({ frames }) => frames).catch(() => {});
