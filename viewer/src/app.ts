/**
 * Handles the user's actions: each changes the state, then starts requests and drawing. This module also creates the
 * page's parts.
 */

import * as api from "./api";
import { capture } from "./capture";
import { Drawing } from "./drawing";
import type { FigureSpec } from "./figure";
import { host } from "./host";
import { Keeping } from "./keeping";
import type { Second } from "./kinds";
import { Live } from "./live";
import { Marking } from "./marking";
import { pause } from "./pause";
import { Player } from "./player";
import { TableProfile } from "./profile";
import { complete } from "./query";
import { Requests } from "./requests";
import { RoiBox } from "./roi";
import { Scene } from "./scene";
import { proposed } from "./second";
import { Selecting } from "./selecting";
import { State } from "./state";
import { Trails } from "./trails";
import { fromAddress, type ViewSpec } from "./view";

/** Milliseconds between requests for the layout of a changed table. */
const LAYOUT_MS = 60_000;

export interface Page {
  redraw(): void;
  rebuild(): void;
  /** The points on the screen were replaced or moved. */
  otherPoints(): void;
}

export class App {
  readonly state: State;
  readonly scene: Scene;
  readonly requests: Requests;
  readonly drawing: Drawing;
  readonly player: Player;
  readonly live: Live;
  readonly trails: Trails;
  readonly marking: Marking;
  /** The settings of the next saved figure. */
  readonly figure: FigureSpec = { width: 1200, height: 900, title: "", style: "as shown", form: "png", isClear: false };
  readonly selecting: Selecting;
  readonly keeping: Keeping;
  readonly roi: RoiBox;
  private choices = 0;

  constructor(
    stage: HTMLElement,
    private readonly page: Page,
  ) {
    const { redraw, rebuild } = page;
    const invalidate = () => this.drawing.invalidate();
    const viewChanged = () => this.keeping.follow();
    this.state = new State(host.address(), { redraw, rebuild, invalidate, viewChanged });
    const { state } = this;
    const [canvas, marks] = [...stage.querySelectorAll("canvas")];
    this.scene = new Scene(canvas, () => {
      viewChanged();
      invalidate();
      this.trails.cameraMoved();
      page.otherPoints();
    });
    if (this.scene.software && !host.address().includes("limit=")) state.view.limit = 250_000;
    this.roi = new RoiBox(stage.querySelector(".layer")!, this.scene, (roi, done) => this.selecting.moved(roi, done));
    this.requests = new Requests(state, this.scene, () => this.replaced());
    this.player = new Player(state, this.requests, {
      show: (time) => this.setTime(time),
      stopped: () => this.trails.updateLater(),
    });
    this.live = new Live(state, this.requests);
    this.trails = new Trails(state, this.scene, this.requests, this.player);
    this.marking = new Marking(stage, state, this.scene, this.requests, (lasso) => this.selecting.setLasso(lasso));
    this.drawing = new Drawing(state, this.scene, this.requests, this.roi, this.marking, marks, () => this.player.playing);
    this.keeping = new Keeping(state, this.scene);
    this.selecting = new Selecting(state, this);
    new ResizeObserver(() => {
      this.scene.resize();
      if (!this.scene.isPlaced) this.scene.home(null);
      invalidate();
    }).observe(stage);
    matchMedia("(prefers-color-scheme: light)").addEventListener("change", () => this.drawing.applyTheme());
  }

  async start(): Promise<void> {
    await this.go(this.state.view.table, window.kubistFirst?.opened);
  }

  /** Opens a table, and retries after a failure until another table is chosen. */
  async go(table: string, opened?: ReturnType<typeof api.open>): Promise<void> {
    const choice = ++this.choices;
    for (; choice === this.choices; opened = undefined) {
      try {
        await this.open(table, choice, opened);
        return;
      } catch (error) {
        if (choice === this.choices) this.state.report(error);
        await pause(1000);
      }
    }
  }

  private async open(table: string, choice: number, opened = api.open(table)): Promise<void> {
    const { state } = this;
    this.live.stop();
    this.clear();
    state.reset(table);
    const described = await opened;
    if (choice !== this.choices) return;
    state.tables = described.tables;
    state.view.table = described.info.name;
    state.profile = TableProfile.of(described);
    complete(state.view, state.profile);
    this.drawing.setFrame(state.view.camera);
    this.drawing.applyTheme();
    this.requests.reload();
    this.live.begin();
    void this.followLayout(choice);
    // The first points are drawn before the panel is created.
    requestAnimationFrame(() => setTimeout(() => state.rebuild()));
  }

  /** Loads the layout of the table, again some time after a change. */
  private async followLayout(choice: number): Promise<void> {
    const { state } = this;
    for (let seen = ""; choice === this.choices; await pause(LAYOUT_MS)) {
      while (this.requests.isLoading && choice === this.choices) await pause(50);
      if (choice !== this.choices) return;
      const { name, version } = state.profile!.info;
      if (version === seen) continue;
      const layout = await api.layout(name, version).catch(() => null);
      if (choice !== this.choices) return;
      if (!layout) continue;
      seen = version;
      state.layout = layout;
      state.redraw();
    }
  }

  private clear(): void {
    this.requests.clear();
    this.trails.clear();
  }

  private replaced(): void {
    this.drawing.showCurrent();
    this.page.otherPoints();
    this.trails.updateLater();
    this.player.continue();
  }

  /* Actions */

  showView(number: number): void {
    const { kept, theme } = this.state.view;
    if (!kept[number]) return;
    const view = { ...fromAddress(kept[number]), kept, theme };
    const { profile } = this.state;
    if (!profile || view.table !== profile.info.name) return;
    complete(view, profile);
    this.state.view = view;
    this.clear();
    this.drawing.setFrame(view.camera);
    this.drawing.applyColors();
    this.requests.reload();
    this.state.rebuild();
  }

  setAxes(axes: string[]): void {
    const { view, profile } = this.state;
    view.axes = axes;
    view.stretch = profile!.differ(axes);
    view.roi = view.camera = view.frame = null;
    view.lasso = view.measure = null;
    view.clip = false;
    this.clear();
    this.drawing.setFrame(null);
    this.requests.reload();
    this.state.rebuild();
  }

  setStretch(stretch: boolean): void {
    this.state.view.stretch = stretch;
    this.clear();
    this.drawing.setFrame(null);
    this.requests.reload();
  }

  setColor(color: string | null): void {
    const { view } = this.state;
    view.color = color;
    view.range = null;
    view.log = false;
    this.requests.reload();
    this.state.rebuild();
  }

  recolor(): void {
    this.drawing.applyColors();
    this.state.changed();
  }

  /** Sets the unit and the column of point sizes. */
  setSizes(sizeIn: ViewSpec["sizeIn"], sizeBy: string | null): void {
    const { view } = this.state;
    const isOther = sizeBy !== view.sizeBy;
    Object.assign(view, { sizeIn, sizeBy, width: null });
    if (isOther) this.requests.reload();
    this.state.changed();
    this.state.rebuild();
  }

  setSecond(second: Second | null): void {
    this.state.view.second = second;
    this.state.changed();
    this.state.rebuild();
  }

  toggleSecond(): void {
    const { view, profile } = this.state;
    this.setSecond(view.second ? null : proposed("histogram", view, profile!));
  }

  setTime(time: ViewSpec["time"]): void {
    this.state.view.time = time;
    this.drawing.applyRanges();
    this.requests.reload();
    this.state.changed();
  }

  setSpeed(speed: number): void {
    this.state.view.speed = speed;
    this.state.changed();
  }

  /** Makes clicks measure a distance, or select rows again. */
  setMeasuring(isMeasuring: boolean): void {
    this.marking.isMeasuring = isMeasuring;
    this.state.view.measure = null;
    this.state.changed();
  }

  async picture(): Promise<Blob> {
    return capture(this, this.figure);
  }

  async savePicture(): Promise<void> {
    try {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(await this.picture());
      link.download = `${this.state.view.table}.${this.figure.form}`;
      link.click();
      URL.revokeObjectURL(link.href);
    } catch (error) {
      this.state.report(error);
    }
  }

  setTrails(trails: boolean): void {
    this.state.view.trails = trails;
    this.trails.updateLater();
    this.state.changed();
    this.state.rebuild();
  }

  setTail(tail: number): void {
    const { view } = this.state;
    // Whole trails show the particles at one time; shorter ones continue as time changes.
    const isOther = view.tail >= 1 !== tail >= 1;
    view.tail = tail;
    if (isOther) this.trails.updateLater();
    this.state.changed();
  }

  setTheme(theme: ViewSpec["theme"]): void {
    this.state.view.theme = theme;
    this.drawing.applyTheme();
    this.state.rebuild();
  }

  setLive(live: boolean): void {
    this.state.view.live = live;
    this.state.changed();
    if (live) void this.live.follow();
    else this.live.stop();
  }

  /** Looks along one of three axes, without perspective. */
  lookAlong(axis: number): void {
    if (this.state.view.axes.length === 3) this.scene.lookAlong(axis);
  }

  /** Looks along the axis of this name, or else along the axis with its index. */
  lookAlongNamed(name: "x" | "y" | "z"): void {
    const { axes } = this.state.view;
    const names = ["x", "y", "z"];
    const isNamed = axes.some((axis) => names.includes(axis.toLowerCase()));
    const axis = isNamed ? axes.findIndex((axis) => axis.toLowerCase() === name) : names.indexOf(name);
    if (axis >= 0) this.lookAlong(axis);
  }

  home(): void {
    this.requests.current?.tree.release();
    this.scene.setParallel(false);
    this.scene.home(null);
    if (this.drawing.refit(true)) this.requests.reload();
    this.state.changed();
  }

  /** The state of the page, for scripts and tests. */
  status() {
    const { state, drawing, trails } = this;
    const { current } = this.requests;
    const cells = [...(current?.tree.cells ?? [])];
    return {
      ...state.shown,
      seen: drawing.seen,
      total: state.total,
      inRoi: state.inRoi,
      figures: state.figures,
      version: current?.spec.region.version ?? null,
      received: current?.received ?? 0,
      cells: cells.length,
      drawnCells: cells.filter((cell) => cell.drawn).map((cell) => [...cell.low, cell.depth].join(" ")),
      message: state.message,
      trails: { paths: trails.paths, records: trails.records, busy: trails.busy },
      added: state.added,
      frameTime: drawing.frameTime,
      frames: drawing.frames,
      firstPoints: drawing.firstPoints,
      calls: this.scene.renderer.info.render.calls,
      second: state.second,
      view: structuredClone(state.view),
    };
  }
}
