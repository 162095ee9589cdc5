/**
 * Trails: the whole trajectories of some of what is in the box of interest, or else in
 * view, as lines through a particle's records in the order of time.
 *
 * Which ones: those of the records of lowest priority there. So the choice is a fair one,
 * stays while the camera moves a little, and is bounded, as are the records of all lines.
 */

import { BufferAttribute, BufferGeometry, LineSegments, Vector3 } from "three";
import * as api from "./api";
import type { App } from "./app";
import { joined } from "./frames";
import { isGone } from "./loader";
import type { Asked } from "./question";
import { narrow, regionOf, selectionOf } from "./region";

const MOST_PATHS = 200;
/** Records among which whoever is in view is looked for. */
const SAMPLE = 4000;
const MOST_RECORDS = 400_000;
/** Milliseconds of rest after which trails follow what is looked at. */
const REST = 350;

/** What came for some trajectories, one row a record. */
export interface Paths {
  positions: Float32Array;
  columns: Float32Array[];
  /** The place of each record's trajectory among those asked for. */
  of: Float32Array;
  time: Float32Array;
}

export class Trails {
  paths = 0;
  records = 0;
  busy = false;
  private lines: LineSegments | null = null;
  /** The columns that the lines came with. */
  private columns = "";
  private asking: AbortController | null = null;
  private timer = 0;

  constructor(private readonly app: App) {}

  /** Whether the table tells trajectories apart, and their records' order. */
  get possible(): boolean {
    return Boolean(this.app.facts?.path && this.app.player.column);
  }

  /** Follows what is looked at, once it rests. */
  later(): void {
    clearTimeout(this.timer);
    if (!this.app.look.trails || !this.possible) {
      this.clear();
      return;
    }
    // Other columns colour the points by now.
    if (this.lines && this.columns !== names(this.app.asked)) this.clear();
    if (!this.app.player.playing) this.timer = window.setTimeout(() => void this.draw(), REST);
  }

  /** The camera has moved: without a box others are in view. */
  moved(): void {
    if (!this.app.look.roi) this.later();
  }

  clear(): void {
    this.asking?.abort();
    this.busy = false;
    this.paths = this.records = 0;
    if (!this.lines) return;
    this.app.scene.removeTrails(this.lines);
    this.lines = null;
    this.app.invalidate();
  }

  private async draw(): Promise<void> {
    const asked = this.app.asked;
    if (!asked) return;
    this.asking?.abort();
    const { signal } = (this.asking = new AbortController());
    this.busy = true;
    try {
      let who = await this.choose(asked, signal);
      for (;;) {
        const paths = who.length > 0 ? await this.fetch(asked, who, signal) : null;
        if (signal.aborted) return;
        if (who.length > 0 && !paths) {
          // Too many records for one picture: fewer trajectories, or none.
          who = who.slice(0, Math.floor(who.length / (who.length > 4 ? 4 : 2)));
          continue;
        }
        this.clear();
        if (paths) this.show(asked, paths, who.length);
        break;
      }
    } catch (error) {
      if (signal.aborted) return;
      const refused = error instanceof api.Refusal && error.status < 500;
      // The points' own request tells what is wrong with the question, or takes a newer moment.
      if (refused) this.clear();
      else this.later();
      if (isGone(error)) this.app.refill();
    } finally {
      if (this.asking?.signal === signal) this.busy = false;
      this.app.changed();
    }
  }

  /** Trajectories of the records of lowest priority that are in the box, or on the screen. */
  private async choose(asked: Asked, signal: AbortSignal): Promise<string[]> {
    const { app } = this;
    const { look, scene } = app;
    const facts = app.facts!;
    const region = { ...(look.roi ? selectionOf(look, facts) : regionOf(look, facts)), version: asked.region.version! };
    if (!look.roi) {
      const { low, high } = scene.seen();
      look.axes.forEach((axis, k) => narrow(region, facts, axis, low[k], high[k]));
    }
    const isEmpty = ([low, high]: unknown[]) => low !== null && high !== null && Number(low) > Number(high);
    if (Object.values(region.box!).some(isEmpty)) return [];
    const by = facts.path!;
    const rows = await api.records(asked.table, region, SAMPLE, [...new Set([by, ...look.axes])], signal);
    const places = look.axes.map((axis) => rows[0].indexOf(axis));
    const at = new Vector3();
    const isSeen = (row: string[]) => {
      if (look.roi || places.some((place) => facts.column(rows[0][place]).kind === "time")) return true;
      const seen = scene.project(scene.frame.toScene(places.map((place) => Number(row[place])), at));
      return seen !== null && seen[0] >= 0 && seen[0] <= scene.width && seen[1] >= 0 && seen[1] <= scene.height;
    };
    const found = rows.slice(1).filter((row) => row[0] !== "" && isSeen(row));
    return [...new Set(found.map((row) => row[0]))].slice(0, MOST_PATHS);
  }

  /** All their records; null if they are too many. */
  private async fetch(asked: Asked, who: string[], signal: AbortSignal): Promise<Paths | null> {
    const { app } = this;
    const facts = app.facts!;
    const by = facts.path!;
    const time = app.player.column!;
    const text = facts.column(by).kind === "text";
    const said = who.map((value) => (text ? `'${value.replaceAll("'", "''")}'` : value)).join(", ");
    const any = asked.axes.map(() => null);
    const [begin] = app.player.ends;
    const question: api.PointsQuestion = {
      version: asked.region.version!,
      where: `"${by.replaceAll('"', '""')}" IN (${said})`,
      position: asked.axes,
      columns: [...asked.columns, { name: by, origin: 0, values: who }, { name: time, origin: begin }],
      cells: [{ low: any, high: any, window: [0, 1], origin: app.scene.frame.low }],
    };
    const parts: { positions: Float32Array; columns: Float32Array[] }[] = [];
    let records = 0;
    const enough = new AbortController();
    const take = (frame: { rows: number; positions: Float32Array; columns: Float32Array[] }) => {
      records += frame.rows;
      parts.push(frame);
      if (records > MOST_RECORDS) enough.abort();
    };
    try {
      await api.points(asked.table, question, take, AbortSignal.any([signal, enough.signal]));
    } catch (error) {
      if (enough.signal.aborted) return null;
      throw error;
    }
    const column = (k: number) => joined(parts.map((part) => part.columns[k]));
    const drawn = asked.columns.length;
    return {
      positions: joined(parts.map((part) => part.positions)),
      columns: asked.columns.map((_, k) => column(k)),
      of: column(drawn),
      time: column(drawn + 1),
    };
  }

  private show(asked: Asked, paths: Paths, count: number): void {
    const axes = asked.axes.length;
    const ends = segments(paths.of, paths.time);
    const geometry = new BufferGeometry();
    geometry.setAttribute("position", new BufferAttribute(gathered(paths.positions, ends, axes), axes));
    paths.columns.forEach((column, k) => geometry.setAttribute(`a${k}`, new BufferAttribute(gathered(column, ends, 1), 1)));
    this.lines = this.app.scene.addTrails(geometry, asked.columns.length);
    this.columns = names(asked);
    this.paths = count;
    this.records = paths.of.length;
    this.app.invalidate();
  }
}

const names = (asked: Asked | null) => JSON.stringify(asked && [asked.axes, asked.columns]);

/**
 * The ends of all lines, two by two: records of one trajectory that follow each other in
 * time. Records without a time are left out, and those of one time are not joined.
 */
export function segments(of: Float32Array, time: Float32Array): Uint32Array {
  const known = Uint32Array.from(of.keys()).filter((row) => !Number.isNaN(time[row]));
  const order = known.sort((a, b) => of[a] - of[b] || time[a] - time[b]);
  const ends = new Uint32Array(2 * order.length);
  let length = 0;
  for (let k = 1; k < order.length; k++) {
    if (of[order[k]] !== of[order[k - 1]] || of[order[k]] < 0) continue;
    if (time[order[k]] === time[order[k - 1]]) continue;
    ends[length++] = order[k - 1];
    ends[length++] = order[k];
  }
  return ends.subarray(0, length);
}

/** Rows in this order. */
function gathered(values: Float32Array, rows: Uint32Array, width: number): Float32Array {
  const out = new Float32Array(rows.length * width);
  for (let at = 0; at < rows.length; at++) {
    for (let k = 0; k < width; k++) out[at * width + k] = values[rows[at] * width + k];
  }
  return out;
}
