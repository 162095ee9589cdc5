/**
 * Trails: particle trajectories in the box of interest, or in view, as lines through a particle's rows in order of
 * time. They are whole, or end at the displayed time and fade with age.
 *
 * The particles have the rows with the lowest priorities: a uniform sample of bounded size that is stable under small
 * camera movements.
 */

import { BufferAttribute, BufferGeometry, LineSegments, Vector3 } from "three";
import * as api from "./api";
import { joined } from "./frames";
import type { PointsRequest } from "./generated/query";
import type { Player } from "./player";
import type { PointsSpec } from "./query";
import { narrow, regionOf, selectionOf } from "./region";
import type { Requests } from "./requests";
import type { Scene } from "./scene";
import { isExpired, type State } from "./state";
import { tailOf } from "./tail";

const MOST_PATHS = 200;
/** Rows to search for particles in view. */
const SAMPLE = 4000;
const MOST_RECORDS = 400_000;
/** Milliseconds without change before trails are updated. */
const REST = 350;

export interface Paths {
  positions: Float32Array;
  columns: Float32Array[];
  /** The index of each row's trajectory in the request. */
  of: Float32Array;
  /** Time of each row, relative to `begin`. */
  time: Float32Array;
  begin: number;
}

export class Trails {
  paths = 0;
  records = 0;
  busy = false;
  private lines: LineSegments | null = null;
  private columns = "";
  private fetching: AbortController | null = null;
  private timer = 0;

  constructor(
    private readonly state: State,
    private readonly scene: Scene,
    private readonly requests: Requests,
    private readonly player: Player,
  ) {}

  /** Whether the table has a trajectory column and a time column. */
  get possible(): boolean {
    return Boolean(this.state.profile?.path && this.player.column);
  }

  /** Updates the trails once the view is at rest. */
  updateLater(): void {
    clearTimeout(this.timer);
    if (!this.state.view.trails || !this.possible) {
      this.clear();
      return;
    }
    if (this.lines && this.columns !== names(this.requests.spec)) this.clear();
    if (!this.player.playing) this.timer = window.setTimeout(() => void this.draw(), REST);
    else if (!this.lines && !this.busy) void this.draw();
  }

  /** Without a box of interest, other particles are in view now. */
  cameraMoved(): void {
    if (!this.state.view.roi) this.updateLater();
  }

  clear(): void {
    this.fetching?.abort();
    this.busy = false;
    this.paths = this.records = 0;
    if (!this.lines) return;
    this.scene.removeTrails(this.lines);
    this.lines = null;
    this.state.invalidate();
  }

  private async draw(): Promise<void> {
    const { spec } = this.requests;
    if (!spec) return;
    this.fetching?.abort();
    const { signal } = (this.fetching = new AbortController());
    this.busy = true;
    try {
      let particles = await this.choose(spec, signal);
      for (;;) {
        const paths = particles.length > 0 ? await this.fetch(spec, particles, signal) : null;
        if (signal.aborted) return;
        if (particles.length > 0 && !paths) {
          // Too many rows for one picture: requests fewer trajectories, or none.
          particles = particles.slice(0, Math.floor(particles.length / (particles.length > 4 ? 4 : 2)));
          continue;
        }
        this.clear();
        if (paths) this.show(spec, paths, particles.length);
        break;
      }
    } catch (error) {
      if (signal.aborted) return;
      const rejected = error instanceof api.ApiError && error.status < 500;
      // The request for points fails too, and reports the error or requests a newer version.
      if (rejected) this.clear();
      else this.updateLater();
      if (isExpired(error)) this.requests.reload();
    } finally {
      if (this.fetching?.signal === signal) this.busy = false;
      this.state.changed();
    }
  }

  /** Trajectories of the rows of lowest priority in the box or on the screen. */
  private async choose(spec: PointsSpec, signal: AbortSignal): Promise<string[]> {
    const { scene } = this;
    const profile = this.state.profile!;
    const view = tailOf(this.state.view, profile) ? { ...this.state.view, time: null } : this.state.view;
    const region = { ...(view.roi ? selectionOf(view, profile) : regionOf(view, profile)), version: spec.region.version! };
    if (!view.roi) {
      const { low, high } = scene.seen();
      view.axes.forEach((axis, k) => narrow(region, profile, axis, low[k], high[k]));
    }
    const isEmpty = ([low, high]: unknown[]) => low !== null && high !== null && Number(low) > Number(high);
    if (Object.values(region.box!).some(isEmpty)) return [];
    const by = profile.path!;
    const rows = await api.records(spec.table, region, SAMPLE, [...new Set([by, ...view.axes])], signal);
    const positions = view.axes.map((axis) => rows[0].indexOf(axis));
    const at = new Vector3();
    const isSeen = (row: string[]) => {
      if (view.roi || positions.some((position) => profile.column(rows[0][position]).kind === "time")) return true;
      const seen = scene.project(scene.frame.toScene(positions.map((position) => Number(row[position])), at));
      return seen !== null && seen[0] >= 0 && seen[0] <= scene.width && seen[1] >= 0 && seen[1] <= scene.height;
    };
    const found = rows.slice(1).filter((row) => row[0] !== "" && isSeen(row));
    return [...new Set(found.map((row) => row[0]))].slice(0, MOST_PATHS);
  }

  /** All their rows; null if there are too many. */
  private async fetch(spec: PointsSpec, particles: string[], signal: AbortSignal): Promise<Paths | null> {
    const { player } = this;
    const profile = this.state.profile!;
    const by = profile.path!;
    const time = player.column!;
    const text = profile.column(by).kind === "text";
    const literals = particles.map((value) => (text ? `'${value.replaceAll("'", "''")}'` : value)).join(", ");
    const any = spec.axes.map(() => null);
    const [begin] = player.ends;
    const query: PointsRequest = {
      version: spec.region.version!,
      where: `"${by.replaceAll('"', '""')}" IN (${literals})`,
      position: spec.axes,
      columns: [...spec.columns, { name: by, origin: 0, values: particles }, { name: time, origin: begin }],
      cells: [{ low: any, high: any, window: [0, 1], origin: this.scene.frame.low }],
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
      await api.points(spec.table, query, take, AbortSignal.any([signal, enough.signal]));
    } catch (error) {
      if (enough.signal.aborted) return null;
      throw error;
    }
    const column = (k: number) => joined(parts.map((part) => part.columns[k]));
    const drawn = spec.columns.length;
    return {
      positions: joined(parts.map((part) => part.positions)),
      columns: spec.columns.map((_, k) => column(k)),
      of: column(drawn),
      time: column(drawn + 1),
      begin,
    };
  }

  private show(spec: PointsSpec, paths: Paths, count: number): void {
    const axes = spec.axes.length;
    const ends = segments(paths.of, paths.time);
    const geometry = new BufferGeometry();
    geometry.setAttribute("position", new BufferAttribute(gathered(paths.positions, ends, axes), axes));
    paths.columns.forEach((column, k) => geometry.setAttribute(`a${k}`, new BufferAttribute(gathered(column, ends, 1), 1)));
    geometry.setAttribute("moment", new BufferAttribute(gathered(paths.time, ends, 1), 1));
    this.lines = this.scene.addTrails(geometry, spec.columns.length, paths.begin);
    this.columns = names(spec);
    this.paths = count;
    this.records = paths.of.length;
    this.state.invalidate();
  }
}

const names = (spec: PointsSpec | null) => JSON.stringify(spec && [spec.axes, spec.columns]);

/**
 * Pairs of successive rows in a trajectory, to be joined by a line. Rows without a time, and pairs with equal times,
 * are left out.
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

/** The rows in this order. */
function gathered(values: Float32Array, rows: Uint32Array, width: number): Float32Array {
  const out = new Float32Array(rows.length * width);
  for (let at = 0; at < rows.length; at++) {
    for (let k = 0; k < width; k++) out[at * width + k] = values[rows[at] * width + k];
  }
  return out;
}
