/**
 * What is looked at, and the points that show it.
 *
 * Whatever changes what is asked (a column, a filter let go, a time, a new moment of the
 * table) makes a new filling, which takes the place of the one on the screen once it
 * shows about as much. Whatever changes only how points look is applied at once.
 */

import * as api from "./api";
import { hues, ramp, type Rgb } from "./colormaps";
import { Facts } from "./facts";
import { Live, pause } from "./live";
import { Filling, isGone } from "./loader";
import { fromAddress, toAddress, type Filter, type Look } from "./look";
import { Overlay } from "./overlay";
import { nearest } from "./pick";
import { Player } from "./player";
import { askedOf, endsOf, settle, SLOTS, type Asked } from "./question";
import { regionOf, selectionOf } from "./region";
import { RoiBox } from "./roi";
import { Frame, Scene } from "./scene";
import { OPEN } from "./shader";
import { Trails } from "./trails";

/** After the root has come, how long a filling may take to replace one of something else. */
const PATIENCE = 700;
const PATIENCE_PLAYING = 150;

export interface Shown {
  rows: number;
  precision: [number, number];
  busy: boolean;
}

export class App {
  look: Look;
  facts: Facts | null = null;
  tables: string[] = [];
  shown: Shown = { rows: 0, precision: [1, 1], busy: true };
  /** Matching records, once they are counted; of the box of interest too. */
  total: number | null = null;
  inRoi: number | null = null;
  /** Of the column that colours, in the region. */
  figures: api.Figure[] | null = null;
  trouble: string | null = null;
  /** Milliseconds that drawing takes, lately. */
  frameTime = 0;
  frames = 0;
  /** From the start to the first points on the screen. */
  firstPoints: number | null = null;

  readonly scene: Scene;
  readonly roi: RoiBox;
  readonly player = new Player(this);
  readonly live = new Live(this);
  readonly trails = new Trails(this);
  private readonly overlay: Overlay;
  private current: Filling | null = null;
  private next: Filling | null = null;
  private nextSince = 0;
  /** How often a table was chosen. */
  private choices = 0;
  private scheduled = false;
  private refillTimer = 0;
  private addressTimer = 0;
  private counting: AbortController | null = null;

  /** `redraw` shows what the panel shows; `rebuild` makes it anew. */
  constructor(
    stage: HTMLElement,
    private readonly redraw: () => void,
    readonly rebuild: () => void,
  ) {
    this.look = fromAddress(location.hash.slice(1));
    const [canvas, marks] = [...stage.querySelectorAll("canvas")];
    this.scene = new Scene(canvas, () => {
      this.keepAddress();
      this.invalidate();
      this.trails.moved();
    });
    // A processor has less breath than a graphics card.
    if (this.scene.software && !location.hash.includes("budget=")) this.look.budget = 250_000;
    this.overlay = new Overlay(marks);
    this.roi = new RoiBox(stage.querySelector(".layer")!, this.scene, (_, done) => {
      this.look.roi = this.roi.roi;
      this.inRoi = null;
      if (done) {
        this.recount();
        this.trails.later();
      }
      this.changed();
    });
    new ResizeObserver(() => {
      this.scene.resize();
      this.invalidate();
    }).observe(stage);
    matchMedia("(prefers-color-scheme: light)").addEventListener("change", () => this.applyTheme());
  }

  async start(): Promise<void> {
    // It was asked for before this script was here.
    await this.go(this.look.table, window.kubistFirst?.opened);
  }

  /** Goes to a table, however often that takes, unless another is chosen meanwhile. */
  async go(table: string, opened?: ReturnType<typeof api.open>): Promise<void> {
    const choice = ++this.choices;
    for (; choice === this.choices; opened = undefined) {
      try {
        await this.open(table, choice, opened);
        return;
      } catch (error) {
        if (choice === this.choices) this.tell(error);
        await pause(1000);
      }
    }
  }

  /** What the look says of another table is forgotten. */
  private async open(table: string, choice: number, opened = api.open(table)): Promise<void> {
    if (table !== this.look.table && this.look.table) this.look = { ...fromAddress(""), theme: this.look.theme };
    this.live.stop();
    this.drop();
    this.shown = { rows: 0, precision: [1, 1], busy: true };
    const known = await opened;
    if (choice !== this.choices) return;
    this.tables = known.tables;
    this.look.table = known.info.name;
    this.facts = Facts.of(known);
    settle(this.look, this.facts);
    this.setFrame(this.look.camera);
    this.applyTheme();
    this.refill();
    this.live.begin();
    // Points come first.
    requestAnimationFrame(() => setTimeout(this.rebuild));
  }

  private setFrame(camera: number[] | null): void {
    const { low, high } = endsOf(this.look, this.facts!);
    const flat = low.length < 3;
    const aspect = flat ? this.scene.width / this.scene.height : 1;
    const frame = new Frame(low, high, this.look.stretch, aspect);
    this.scene.setFrame(frame, camera);
    this.roi.set(this.look.roi, this.look.axes);
  }

  /* What changes, and what follows from it */

  setAxes(axes: string[]): void {
    this.look.axes = axes;
    this.look.stretch = this.facts!.differ(axes);
    this.look.roi = null;
    this.look.camera = null;
    this.drop();
    this.setFrame(null);
    this.refill();
    this.rebuild();
  }

  setStretch(stretch: boolean): void {
    this.look.stretch = stretch;
    this.drop();
    this.setFrame(null);
    this.refill();
  }

  setColor(color: string | null): void {
    this.look.color = color;
    this.look.range = null;
    this.look.log = false;
    this.refill();
    this.rebuild();
  }

  /** Colours only. */
  restyle(): void {
    this.applyColors();
    this.changed();
  }

  addFilter(column: string): void {
    if (this.look.filters.length >= SLOTS - 2) return;
    this.look.filters.push({ column, low: null, high: null });
    this.refill();
    this.rebuild();
  }

  removeFilter(filter: Filter): void {
    this.look.filters = this.look.filters.filter((other) => other !== filter);
    this.refill();
    this.rebuild();
  }

  /** A filter was moved: the screen follows at once, the question when it rests. */
  filtered(done: boolean): void {
    this.applyRanges();
    this.changed();
    clearTimeout(this.refillTimer);
    this.refillTimer = window.setTimeout(() => this.refill(), done ? 0 : 250);
  }

  setWhere(where: string): void {
    this.look.where = where.trim();
    this.refill();
  }

  setTime(time: Look["time"]): void {
    this.look.time = time;
    this.applyRanges();
    this.refill();
    this.changed();
  }

  setRoi(roi: Look["roi"]): void {
    this.look.roi = roi;
    this.roi.set(roi, this.look.axes);
    this.inRoi = null;
    this.recount();
    this.trails.later();
    this.changed();
    this.rebuild();
  }

  setTrails(trails: boolean): void {
    this.look.trails = trails;
    this.trails.later();
    this.changed();
  }

  home(): void {
    this.scene.home(null);
    this.changed();
  }

  setLive(live: boolean): void {
    this.look.live = live;
    this.changed();
    if (live) void this.live.follow();
    else this.live.stop();
  }

  /** The panel and the picture show what is now. */
  changed(): void {
    this.keepAddress();
    this.redraw();
    this.invalidate();
  }

  private keepAddress(): void {
    clearTimeout(this.addressTimer);
    this.addressTimer = window.setTimeout(() => {
      this.look.camera = this.scene.where();
      history.replaceState(null, "", `#${toAddress(this.look)}`);
    }, 250);
  }

  applyTheme(): void {
    const { theme } = this.look;
    const light = theme === "light" || (theme === "auto" && matchMedia("(prefers-color-scheme: light)").matches);
    document.documentElement.dataset.theme = light ? "light" : "dark";
    const style = getComputedStyle(document.documentElement);
    const color = (name: string) => style.getPropertyValue(name).trim();
    this.scene.setColors(color("--night"), color("--ink"), color("--accent"));
    this.applyColors();
    this.changed();
  }

  /** 256 colours of the map, as the screen shows them. */
  colors(): Uint8Array {
    const night = getComputedStyle(document.documentElement).getPropertyValue("--night").trim();
    const background = [1, 3, 5].map((at) => parseInt(night.slice(at, at + 2), 16)) as Rgb;
    return this.isNamed ? hues() : ramp(this.look.map, background);
  }

  get isNamed(): boolean {
    return this.look.color !== null && this.facts!.column(this.look.color)?.kind === "text";
  }

  /** What the colours span. */
  get colorRange(): [number, number] {
    const { range, color, log } = this.look;
    const { quantiles, low = 0, high = 1, least_positive } = this.facts!.histograms.get(color ?? "") ?? {};
    let [from, to] = range ?? [quantiles?.[1] ?? low, quantiles?.[5] ?? high];
    if (!range && from >= to) [from, to] = [low, high];
    if (log) from = Math.max(from, range ? 1e-300 : (least_positive ?? 1e-300));
    return from < to ? [from, to] : [from, from + (Math.abs(from) || 1)];
  }

  /* Questions */

  private drop(): void {
    this.current?.close();
    this.next?.close();
    this.current = this.next = null;
    this.trails.clear();
  }

  /** Something else than what is on the screen is on its way. */
  get isFilling(): boolean {
    return this.next !== null;
  }

  /** What is on the screen was asked so. */
  get asked(): Asked | null {
    return this.current?.asked ?? null;
  }

  /** Asks anew. */
  refill(): void {
    clearTimeout(this.refillTimer);
    if (!this.facts) return;
    const before = this.current;
    this.next?.close();
    const { low, high } = this.scene.frame;
    const failed = (error: unknown) => this.refillAfter(error);
    // A step of time holds about as much as the one before.
    const root = before?.tree.root;
    const guess = this.look.time && root?.state === "ready" ? root.rows / root.window[1] : 0;
    const total = guess > 0 && before?.asked.region.box?.[this.look.time!.column] ? guess : this.facts.info.rows;
    this.next = new Filling(this.scene, askedOf(this.look, this.facts), low, high, total, () => this.invalidate(), failed);
    this.nextSince = 0;
    this.shown.busy = true;
    this.total = null;
    this.inRoi = null;
    this.recount();
    this.changed();
  }

  private async refillAfter(error: unknown): Promise<void> {
    const refused = error instanceof api.Refusal && error.status < 500 && !isGone(error);
    this.tell(error);
    if (refused) {
      // The question itself is wrong: what is on the screen stays.
      this.next?.close();
      this.next = null;
      this.changed();
      return;
    }
    await pause(isGone(error) ? 0 : 800);
    const { table } = this.look;
    try {
      const info = await api.info(table);
      if (table !== this.look.table) return;
      this.live.take(info);
      this.trouble = null;
      this.refill();
      this.rebuild();
    } catch (again) {
      void this.refillAfter(again);
    }
  }

  tell(error: unknown): void {
    const lost = error instanceof TypeError;
    this.trouble = lost ? "The server does not answer; trying again" : String((error as Error).message ?? error);
    if (isGone(error)) this.trouble = null;
    this.redraw();
  }

  private recount(): void {
    this.counting?.abort();
    const { signal } = (this.counting = new AbortController());
    const facts = this.facts!;
    const { version } = facts.info;
    const table = this.look.table;
    this.figures = null;
    const count = async () => {
      await pause(120);
      if (signal.aborted) return;
      this.total ??= await api.count(table, { ...regionOf(this.look, facts), version }, signal);
      const selection = { ...selectionOf(this.look, facts), version };
      if (this.look.roi) this.inRoi = await api.count(table, selection, signal);
      this.redraw();
      const { color } = this.look;
      if (color === null || facts.column(color).kind !== "number") return;
      const name = `"${color.replaceAll('"', '""')}"`;
      const aggregates = ["mean", "median", "p95"].map((figure) => `${figure}(${name})`);
      this.figures = await api.estimate(table, selection, aggregates, signal);
      this.redraw();
    };
    // A count that fails is not shown; the points' own request tells why.
    count().catch(() => {});
  }

  /* Drawing */

  invalidate(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => {
      this.scheduled = false;
      this.draw();
    });
  }

  private draw(): void {
    // Before the first points are here there is nothing to draw, and time is dear.
    if (!this.facts || (!this.current && this.next?.tree.root.state !== "ready")) return;
    if (!this.scene.isDrawn()) {
      this.invalidate();
      return;
    }
    const begin = performance.now();
    const { scene, look } = this;
    scene.look();
    scene.roi = look.roi;
    const shown = this.current?.update(look.budget);
    if (this.next) {
      this.next.update(look.budget);
      this.exchange(begin);
    }
    this.shown.rows = this.current?.choice?.rows ?? shown?.rows ?? 0;
    this.shown.precision = this.current?.choice?.precision ?? [1, 1];
    this.shown.busy = this.next !== null || !this.current?.settled;
    this.roi.show();
    scene.material.uniforms.size.value = look.size * scene.renderer.getPixelRatio();
    scene.render();
    const style = this.inks();
    if (this.facts) this.overlay.draw(scene, look.axes.map((axis) => this.facts!.column(axis)), style[0], style[1]);
    if (this.firstPoints === null && this.shown.rows > 0) this.firstPoints = performance.now();
    this.frameTime += 0.1 * (performance.now() - begin - this.frameTime);
    this.frames++;
    this.redraw();
  }

  private inks(): [string, string] {
    const light = document.documentElement.dataset.theme === "light";
    return light ? ["#23252b", "#70747d"] : ["#e8e6e3", "#8b8f98"];
  }

  /** Shows the next filling once it is worth it. */
  private exchange(now: number): void {
    const { next, current } = this;
    if (!next || next.tree.root.state !== "ready") return;
    this.nextSince ||= now;
    // Of a table that has grown the older picture is still a true one, of what it was.
    const same = current && words(current.asked) === words(next.asked);
    const patience = same ? Infinity : this.player.playing ? PATIENCE_PLAYING : PATIENCE;
    const enough = next.settled || (next.choice?.rows ?? 0) >= 0.8 * (current?.choice?.rows ?? 0);
    if (current && !enough && now - this.nextSince < patience) {
      if (!same) setTimeout(() => this.invalidate(), patience);
      return;
    }
    current?.close();
    next.group.visible = true;
    this.scene.use(next.asked.columns.length);
    this.current = next;
    this.next = null;
    this.trouble = null;
    this.applyColors();
    this.applyRanges();
    this.trails.later();
    this.player.shown();
  }

  private slot(name: string | null): number {
    return this.current?.asked.columns.findIndex((column) => column.name === name) ?? -1;
  }

  private origin(name: string): number {
    return this.current?.asked.columns.find((column) => column.name === name)?.origin ?? 0;
  }

  applyColors(): void {
    const { uniforms } = this.scene.material;
    if (!this.facts) return;
    uniforms.map.value.image.data.set(this.colors());
    uniforms.map.value.needsUpdate = true;
    const { color, log } = this.look;
    const slot = this.slot(color);
    uniforms.colorSlot.value = slot;
    if (slot < 0 || color === null) return;
    const origin = this.origin(color);
    const [low, high] = this.colorRange;
    uniforms.colorRange.value.set(low - origin, high - origin);
    uniforms.colorOrigin.value = origin;
    uniforms.colorLog.value = log;
    uniforms.colorNames.value = this.isNamed;
  }

  /** What the card hides: ranges that narrow what the points were asked for. */
  private applyRanges(): void {
    const ranges = this.scene.material.uniforms.ranges.value;
    for (const range of ranges) range.set(-OPEN, OPEN);
    const { look, current } = this;
    if (!current) return;
    for (const { column, low, high } of [...look.filters, ...(look.time ? [look.time] : [])]) {
      const slot = this.slot(column);
      if (slot < 0) continue;
      const asked = (current.asked.region.box?.[column] ?? [null, null]) as [number | null, number | null];
      // Where nothing of the new range was asked for, the old stays until the new has come.
      if ((high !== null && asked[0] !== null && high < asked[0]) || (low !== null && asked[1] !== null && low > asked[1]))
        continue;
      const origin = this.origin(column);
      const slack = (end: number) => 2e-7 * Math.abs(end - origin);
      const from = low === null ? -OPEN : low - origin - slack(low);
      const to = high === null ? OPEN : high - origin + slack(high);
      ranges[slot].set(Math.max(ranges[slot].x, from), Math.min(ranges[slot].y, to));
    }
  }

  /* Points */

  /** The record nearest to a place on the canvas. */
  async inspect(x: number, y: number): Promise<{ names: string[]; values: string[] } | null> {
    const { current, look } = this;
    if (!current) return null;
    const found = nearest(this.scene, current.tree, x, y, this.scene.material.uniforms.ranges.value);
    if (!found) return null;
    const facts = this.facts!;
    const region = regionOf(look, facts);
    look.axes.forEach((axis, k) => {
      const whole = facts.column(axis).kind === "time";
      const slack = 3e-7 * Math.max(Math.abs(found.offset[k]), 1e-3 * Math.abs(found.at[k])) + 1e-30;
      const ends = [found.at[k] - slack, found.at[k] + slack];
      region.box![axis] = (whole ? [Math.ceil(ends[0]), Math.floor(ends[1])] : ends) as [number, number];
    });
    const rows = await api.records(look.table, { ...region, version: current.asked.region.version! }, 1);
    return rows.length > 1 ? { names: rows[0], values: rows[1] } : null;
  }

  /** The picture with its marks, as a PNG. */
  async picture(): Promise<Blob> {
    this.scene.render();
    const { canvas } = this.scene;
    const both = document.createElement("canvas");
    [both.width, both.height] = [canvas.width, canvas.height];
    const context = both.getContext("2d")!;
    context.drawImage(canvas, 0, 0);
    context.drawImage(canvas.parentElement!.querySelector("canvas.marks") as HTMLCanvasElement, 0, 0, both.width, both.height);
    return new Promise((resolve) => both.toBlob((blob) => resolve(blob!), "image/png"));
  }

  /** What scripts and tests may want to know. */
  status() {
    const cells = [...(this.current?.tree.cells ?? [])];
    return {
      ...this.shown,
      total: this.total,
      inRoi: this.inRoi,
      figures: this.figures,
      version: this.current?.asked.region.version ?? null,
      received: this.current?.received ?? 0,
      cells: cells.length,
      drawnCells: cells.filter((cell) => cell.drawn).map((cell) => [...cell.low, cell.depth].join(" ")),
      trouble: this.trouble,
      trails: { paths: this.trails.paths, records: this.trails.records, busy: this.trails.busy },
      came: this.live.came,
      frameTime: this.frameTime,
      frames: this.frames,
      firstPoints: this.firstPoints,
      calls: this.scene.renderer.info.render.calls,
      look: structuredClone(this.look),
    };
  }
}

/** What is asked, of whatever version. */
const words = ({ axes, columns, region }: Asked) =>
  JSON.stringify([axes, columns.map((column) => column.name), { ...region, version: null }]);
