/**
 * The requests that follow from the state: points, counts, estimates and single rows.
 *
 * A change of the query (a column, a wider filter, a time, a new version of the table) starts a new point
 * cloud, which replaces the one on the screen once it has about as many points.
 */

import * as api from "./api";
import { PointCloud } from "./cloud";
import { pause } from "./pause";
import { nearest } from "./pick";
import { pointsSpec, type PointsSpec } from "./query";
import { regionOf, selectionOf } from "./region";
import type { Scene } from "./scene";
import { isExpired, type State } from "./state";

/** Milliseconds after its root cell until a cloud of another query is shown. */
const PATIENCE = 700;
const PATIENCE_PLAYING = 150;
/** Milliseconds without change before a filter's points are requested. */
const REST = 250;

export class Requests {
  current: PointCloud | null = null;
  /** The points that will replace them. */
  private next: PointCloud | null = null;
  private nextSince = 0;
  /** Timer until `reload` while a control is moved; 0 otherwise. */
  private timer = 0;
  private counting: AbortController | null = null;

  /** `replaced` is called after the points on the screen were replaced. */
  constructor(
    private readonly state: State,
    private readonly scene: Scene,
    private readonly replaced: () => void,
  ) {}

  get isLoading(): boolean {
    return this.next !== null;
  }

  /** The query of the points on the screen. */
  get spec(): PointsSpec | null {
    return this.current?.spec ?? null;
  }

  get hasPoints(): boolean {
    return this.current !== null || this.next?.tree.root.state === "ready";
  }

  /** Positions the points in the scene's new frame. */
  place(): void {
    this.current?.place();
    this.next?.place();
  }

  clear(): void {
    this.current?.close();
    this.next?.close();
    this.current = this.next = null;
  }

  reload(): void {
    clearTimeout(this.timer);
    this.timer = 0;
    const { state } = this;
    const { view, profile } = state;
    if (!profile) return;
    const before = this.current;
    this.next?.close();
    const { low, high } = this.scene.frame;
    // Successive time steps have about the same number of rows.
    const root = before?.tree.root;
    const guess = view.time && root?.state === "ready" ? root.rows / root.window[1] : 0;
    const total = guess > 0 && before?.spec.region.box?.[view.time!.column] ? guess : profile.info.rows;
    const failed = (error: unknown) => void this.retry(error);
    this.next = new PointCloud(this.scene, pointsSpec(view, profile), low, high, total, profile.held, () => state.invalidate(), failed);
    this.nextSince = 0;
    state.shown.busy = true;
    state.total = null;
    state.inRoi = null;
    this.recount();
    state.changed();
  }

  /** Reloads once a control is at rest, or at once when it is released. */
  reloadLater(done: boolean): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.reload(), done ? 0 : REST);
    this.state.shown.busy = true;
  }

  /** After a failure: stops for an invalid query, otherwise requests the newest version. */
  private async retry(error: unknown): Promise<void> {
    const { state } = this;
    const rejected = error instanceof api.ApiError && error.status < 500 && !isExpired(error);
    state.report(error);
    if (rejected) {
      this.next?.close();
      this.next = null;
      state.changed();
      return;
    }
    await pause(isExpired(error) ? 0 : 800);
    const { table } = state.view;
    try {
      const info = await api.info(table);
      if (table !== state.view.table) return;
      state.update(info);
      state.message = null;
      this.reload();
      state.rebuild();
    } catch (again) {
      void this.retry(again);
    }
  }

  recount(): void {
    this.counting?.abort();
    const { signal } = (this.counting = new AbortController());
    const { state } = this;
    const profile = state.profile!;
    const { version } = profile.info;
    const { table } = state.view;
    state.figures = null;
    const count = async () => {
      await pause(120);
      if (signal.aborted) return;
      state.total ??= await api.count(table, { ...regionOf(state.view, profile), version }, signal);
      const selection = { ...selectionOf(state.view, profile), version };
      if (state.view.roi || state.view.lasso) state.inRoi = await api.count(table, selection, signal);
      state.redraw();
      const { color } = state.view;
      if (color === null || profile.column(color).kind !== "number") return;
      const name = `"${color.replaceAll('"', '""')}"`;
      const aggregates = ["mean", "median", "p95"].map((figure) => `${figure}(${name})`);
      state.figures = await api.estimate(table, selection, aggregates, signal);
      state.redraw();
    };
    // A failed count is not shown; the request for points fails too and reports the error.
    count().catch(() => {});
  }

  /** Chooses the cells of this frame and requests missing ones. */
  update(now: number, playing: boolean): void {
    const { shown, view } = this.state;
    const isSpaced = view.sizeIn === "spacing";
    this.current?.update(view.limit, view.even, isSpaced, now);
    if (this.next) {
      this.next.update(view.limit, view.even, isSpaced, now);
      this.replace(now, playing ? PATIENCE_PLAYING : PATIENCE);
    }
    shown.rows = this.current?.choice?.rows ?? 0;
    shown.fraction = this.current?.choice?.fraction ?? [1, 1];
    shown.weighted = !view.even && !isSpaced && (this.current?.weighted ?? false);
    const isFading = this.current?.fading.isFading ?? false;
    shown.busy = this.timer !== 0 || this.next !== null || !this.current?.settled || isFading;
    if (this.current) this.current.isShown = shown.rows > 0;
    if (isFading) this.state.invalidate();
  }

  /** Shows the next cloud once it has enough points, or after this time. */
  private replace(now: number, milliseconds: number): void {
    const { next, current } = this;
    if (!next || next.tree.root.state !== "ready") return;
    this.nextSince ||= now;
    // For a newer version of the same query, the old points stay until all new ones have arrived.
    const same = current && withoutVersion(current.spec) === withoutVersion(next.spec);
    const patience = same ? Infinity : milliseconds;
    const enough = next.settled || (next.choice?.rows ?? 0) >= 0.8 * (current?.choice?.rows ?? 0);
    if (current && !enough && now - this.nextSince < patience) {
      if (!same) setTimeout(() => this.state.invalidate(), patience);
      return;
    }
    current?.close();
    this.current = next;
    this.next = null;
    this.state.message = null;
    this.replaced();
  }

  /** The row nearest to a canvas position. */
  async record(x: number, y: number): Promise<{ names: string[]; values: string[] } | null> {
    const { current } = this;
    const { view, profile } = this.state;
    if (!current || !profile) return null;
    const found = nearest(this.scene, current.tree, x, y, this.scene.material.uniforms.ranges.value);
    if (!found) return null;
    const region = regionOf(view, profile);
    view.axes.forEach((axis, k) => {
      const whole = profile.column(axis).kind === "time";
      const slack = 3e-7 * Math.max(Math.abs(found.offset[k]), 1e-3 * Math.abs(found.at[k])) + 1e-30;
      const ends = [found.at[k] - slack, found.at[k] + slack];
      region.box![axis] = (whole ? [Math.ceil(ends[0]), Math.floor(ends[1])] : ends) as [number, number];
    });
    const rows = await api.records(view.table, { ...region, version: current.spec.region.version! }, 1);
    return rows.length > 1 ? { names: rows[0], values: rows[1] } : null;
  }
}

const withoutVersion = ({ axes, columns, region }: PointsSpec) =>
  JSON.stringify([axes, columns.map((column) => column.name), { ...region, version: null }]);
