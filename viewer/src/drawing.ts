/**
 * Draws the state: points, box of interest and axes, in the theme's colours. A change of appearance (colours, a
 * narrower filter) applies to the points on the screen without a request.
 */

import { densityRamp, palette, ramp, type Rgb } from "./colormaps";
import { crowdOf } from "./crowd";
import { Density } from "./density";
import { Frame } from "./frame";
import { inksOfTheme, type Inks } from "./inks";
import { legendOf, legendOfCategories, legendOfShades, type Legend } from "./legend";
import { Overlay } from "./overlay";
import { extentOf } from "./query";
import type { Requests } from "./requests";
import type { Marking } from "./marking";
import type { RoiBox } from "./roi";
import type { Scene } from "./scene";
import { seenOf } from "./seen";
import { OPEN } from "./shader";
import { paint, type Shape } from "./shapes";
import { applySizes } from "./sizes";
import type { State } from "./state";
import type { Coloring } from "./sums";
import { tailOf } from "./tail";

/** Densities appear when points overlap more than this on average, */
const CROWDED = 3;
/** and disappear below this. */
const SPARSE = 1.5;
/** Larger values get the colours of the ends. */
const FARTHEST = 1e38;
const FAMILY = "ui-sans-serif, system-ui, sans-serif";
/** Height of the page's text at the top, in pixels. */
const HEAD = 46;

export class Drawing {
  /** Moving average of the drawing time in milliseconds. */
  frameTime = 0;
  frames = 0;
  /** Milliseconds from the start of the page to the first drawn points. */
  firstPoints: number | null = null;
  readonly density: Density;
  private readonly over: CanvasRenderingContext2D;
  private readonly overlay: Overlay;
  foot = 40;
  private scheduled = false;
  private counted = { at: -1, points: 0 };
  private made: { key: string; colors: Uint8Array } = { key: "", colors: new Uint8Array() };
  inks: Inks = { ink: "", faint: "", background: "", accent: "" };

  constructor(
    private readonly state: State,
    private readonly scene: Scene,
    private readonly requests: Requests,
    private readonly roi: RoiBox,
    private readonly marking: Marking,
    marks: HTMLCanvasElement,
    private readonly isPlaying: () => boolean,
  ) {
    this.over = marks.getContext("2d")!;
    this.overlay = new Overlay(this.over, FAMILY);
    this.density = new Density(scene);
  }

  get seen(): number {
    const { current } = this.requests;
    if (this.counted.at !== this.frames) this.counted = { at: this.frames, points: current ? seenOf(this.scene, current) : 0 };
    return this.counted.points;
  }

  invalidate(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => {
      this.scheduled = false;
      this.draw();
    });
  }

  private draw(): void {
    const { state, scene, requests } = this;
    const { view, profile, shown } = state;
    // No frame is drawn before the first points, so that they appear early.
    if (!profile || !requests.hasPoints) return;
    if (!scene.isDrawn()) {
      this.invalidate();
      return;
    }
    const begin = performance.now();
    scene.updateCamera();
    scene.eye.roi = view.roi;
    requests.update(begin, this.isPlaying());
    const before = scene.frame;
    const reload = !scene.isPlaced && this.refit(false);
    if (scene.frame !== before) {
      scene.updateCamera();
      requests.update(begin, this.isPlaying());
    }
    if (reload) requests.reload();
    this.roi.show();
    scene.material.uniforms.roiClip.value = view.clip;
    scene.material.uniforms.fog.value = view.fog;
    scene.setTail(tailOf(view, profile));
    this.paint();
    const isEven = view.even || view.sizeIn === "spacing";
    const even = !isEven || shown.dense ? "" : `${view.even ? "even detail" : "sizes by spacing"}: dense and sparse parts look the same`;
    const captions = [even, profile.thinned].filter(Boolean);
    this.write(this.overlay.draw({
      scene, columns: view.axes.map((axis) => profile.column(axis)), captions, marks: this.marking.marks(), inks: this.inks, ground: this.inks.background,
      legend: this.legend(), head: HEAD, foot: this.foot,
    }));
    if (this.firstPoints === null && shown.rows > 0) this.firstPoints = performance.now();
    this.frameTime += 0.1 * (performance.now() - begin - this.frameTime);
    this.frames++;
    state.redraw();
  }

  private write(shapes: Shape[]): void {
    const { over, scene: { width, height } } = this;
    const ratio = devicePixelRatio || 1;
    const [wide, tall] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (over.canvas.width !== wide || over.canvas.height !== tall) [over.canvas.width, over.canvas.height] = [wide, tall];
    over.setTransform(ratio, 0, 0, ratio, 0, 0);
    over.clearRect(0, 0, width, height);
    paint(over, FAMILY, shapes);
  }

  /** Draws the points or densities, the box and the trails, without marks. */
  paint(): void {
    this.showPoints();
    // Densities have no depth, and shading is slow in software.
    this.scene.isShaded = (this.state.view.shaded ?? !this.scene.software) && !this.state.shown.dense;
    this.scene.render();
  }

  private showPoints(): void {
    const { scene, state: { view, shown, profile } } = this;
    const { current } = this.requests;
    if (!current?.choice) return;
    const wide = applySizes(view, profile!, scene, this.slot(view.sizeBy), view.sizeBy === null ? 0 : this.origin(view.sizeBy));
    // Three axes need occlusion, so points stay.
    const isOpen = view.mode === "auto" && view.axes.length === 2;
    const crowd = isOpen || view.mode === "density" ? crowdOf(scene, current) : { around: 0, middle: 0 };
    const overlap = (crowd.around * Math.PI * wide ** 2) / 4;
    const dense = view.mode === "density" || (isOpen && overlap > (shown.dense ? SPARSE : CROWDED));
    if (dense !== shown.dense) {
      shown.dense = dense;
      this.applyColors();
    }
    current.group.visible = !shown.dense;
    if (shown.dense) {
      this.density.show(current, view.tone, this.coloring(), crowd.middle / scene.renderer.getPixelRatio() ** 2);
      return;
    }
    this.density.hide();
    const { hasWeights, reference, share } = current.fading;
    scene.setReference(hasWeights && !view.even && view.sizeIn !== "spacing" ? reference : 0, share);
  }

  private coloring(): Coloring {
    const { colorSlot, colorRange, colorOrigin, colorLog, map } = this.scene.material.uniforms;
    return {
      shade: this.state.shade,
      slot: colorSlot.value,
      low: colorRange.value.x,
      high: colorRange.value.y,
      origin: colorOrigin.value,
      log: colorLog.value,
      colors: map.value.image.data,
    };
  }

  legend(): Legend | null {
    const { state: { view, profile, shown, categories, shade }, scene } = this;
    const colors = this.colors();
    if (shade === "records" && shown.dense) {
      const { area, unit } = scene.areaOf(this.density.place / scene.renderer.getPixelRatio(), view.axes.map((axis) => profile!.column(axis)));
      return legendOfShades(`records per ${unit}`, colors, (share) => this.density.sumsOf([share])[0] / area);
    }
    if (view.color === null) return null;
    const column = profile!.column(view.color);
    if (categories) return legendOfCategories(column, colors, categories);
    const range = this.state.colorRange;
    const { low, high } = profile!.histograms.get(view.color) ?? {};
    if (low === undefined || high === undefined) return null;
    return legendOf(column, shown.dense ? `${shade} of ` : "", colors, range, view.log, [low, high]);
  }

  showCurrent(): void {
    const { current } = this.requests;
    if (!current) return;
    this.scene.use(current.spec.columns.length);
    this.applyColors();
    this.applyRanges();
  }

  setFrame(camera: number[] | null): void {
    const { view, profile } = this.state;
    const { low, high } = extentOf(view, profile!);
    const flat = low.length < 3;
    const aspect = flat ? this.scene.width / this.scene.height : 1;
    this.scene.isParallel = camera !== null && view.parallel && !flat;
    this.scene.setFrame(new Frame(low, high, view.stretch === true, aspect, profile!.mirrors(view.axes)), camera);
    this.roi.set(view.roi, view.axes);
  }

  /** Fits the scene to the loaded rows, with `anew` only those on the screen; true if the cells suit it badly. */
  refit(anew: boolean): boolean {
    const { current } = this.requests;
    const { view } = this.state;
    if (!current || !(current.tree.least[0] <= current.tree.most[0])) return false;
    const { least, most, low, high } = current.tree;
    const before = this.scene.frame;
    const wide = most.map((end, k) => end - least[k]);
    const isFirst = anew || !view.frame;
    const exceeds = wide.some((span, k) => least[k] < before.low[k] - 0.002 * span || most[k] > before.high[k] + 0.002 * span);
    if (!isFirst && !exceeds) return false;
    const margin = wide.map((span, k) => (span > 0 ? 0.01 * span : 0.5 * (Math.abs(least[k]) * 1e-6 || 1)));
    const ends = (inner: number[], sign: number) => inner.map((end, k) => end + sign * margin[k]);
    const [from, to] = [ends(least, -1), ends(most, 1)];
    const grown = isFirst
      ? { low: from, high: to }
      : { low: from.map((end, k) => Math.min(end, before.low[k])), high: to.map((end, k) => Math.max(end, before.high[k])) };
    view.frame = grown;
    this.setFrame(null);
    this.requests.place();
    return wide.some((span, k) => least[k] < low[k] - 0.3 * span || most[k] > high[k] + 0.3 * span || high[k] - low[k] > 3 * span);
  }

  applyTheme(): void {
    const { theme } = this.state.view;
    const light = theme === "light" || (theme === "auto" && matchMedia("(prefers-color-scheme: light)").matches);
    document.documentElement.dataset.theme = light ? "light" : "dark";
    this.useInks(inksOfTheme());
    this.state.changed();
  }

  useInks(inks: Inks): void {
    this.inks = inks;
    this.scene.setColors(inks.background, inks.ink, inks.accent);
    this.applyColors();
  }

  /** The 256 colours of the map on the current background, cached for all frames. */
  colors(): Uint8Array {
    const { categories, shade, shown, view } = this.state;
    const isDensity = shown.dense && shade === "records";
    const numbers = isDensity ? null : categories?.map(({ number }) => number);
    const key = `${view.map} ${this.inks.background} ${isDensity} ${numbers}`;
    if (this.made.key !== key) {
      const colors = numbers ? palette(numbers, this.background) : (isDensity ? densityRamp : ramp)(view.map, this.background);
      this.made = { key, colors };
    }
    return this.made.colors;
  }

  private get background(): Rgb {
    const night = this.inks.background;
    return [1, 3, 5].map((at) => parseInt(night.slice(at, at + 2), 16)) as Rgb;
  }

  private slot(name: string | null): number {
    return this.requests.spec?.columns.findIndex((column) => column.name === name) ?? -1;
  }

  private origin(name: string): number {
    return this.requests.spec?.columns.find((column) => column.name === name)?.origin ?? 0;
  }

  applyColors(): void {
    const { uniforms } = this.scene.material;
    const { view, profile } = this.state;
    if (!profile) return;
    uniforms.map.value.image.data.set(this.colors());
    uniforms.map.value.needsUpdate = true;
    const { color, log } = view;
    const slot = this.slot(color);
    uniforms.colorSlot.value = slot;
    if (slot < 0 || color === null) return;
    const origin = this.origin(color);
    const [low, high] = this.state.colorRange;
    // Clamped, so that the card's float32 can represent them and their difference.
    const [from, to] = [low, high].map((end) => Math.min(FARTHEST, Math.max(-FARTHEST, end - origin)));
    uniforms.colorRange.value.set(from, to);
    uniforms.colorOrigin.value = origin;
    uniforms.colorLog.value = log;
    uniforms.colorNames.value = this.state.categories !== null;
  }

  /** Hides points that the filters exclude but the query does not. */
  applyRanges(): void {
    const ranges = this.scene.material.uniforms.ranges.value;
    for (const range of ranges) range.set(-OPEN, OPEN);
    const { view } = this.state;
    const { spec } = this.requests;
    if (!spec) return;
    for (const { column, low, high } of [...view.filters, ...(view.time ? [view.time] : [])]) {
      const slot = this.slot(column);
      if (slot < 0) continue;
      const queried = (spec.region.box?.[column] ?? [null, null]) as [number | null, number | null];
      // If the query contains nothing of the new range, its points stay until others arrive.
      const below = high !== null && queried[0] !== null && high < queried[0];
      const above = low !== null && queried[1] !== null && low > queried[1];
      if (below || above) continue;
      const origin = this.origin(column);
      const slack = (end: number) => 2e-7 * Math.abs(end - origin);
      const from = low === null ? -OPEN : low - origin - slack(low);
      const to = high === null ? OPEN : high - origin + slack(high);
      ranges[slot].set(Math.max(ranges[slot].x, from), Math.min(ranges[slot].y, to));
    }
  }
}
