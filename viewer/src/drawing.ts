/**
 * Draws the state: points, box of interest and axes, in the colours of the theme.
 *
 * A change of appearance (colours, a narrower filter) is applied to the points that are
 * on the screen; it needs no request.
 */

import { hues, ramp, type Rgb } from "./colormaps";
import { Overlay } from "./overlay";
import { extentOf } from "./query";
import type { Requests } from "./requests";
import type { RoiBox } from "./roi";
import { Frame, type Scene } from "./scene";
import { OPEN } from "./shader";
import type { State } from "./state";

export class Drawing {
  /** A moving average of the milliseconds that drawing takes. */
  frameTime = 0;
  frames = 0;
  /** Milliseconds from the start of the page to the first points on the screen. */
  firstPoints: number | null = null;
  private readonly overlay: Overlay;
  private scheduled = false;

  constructor(
    private readonly state: State,
    private readonly scene: Scene,
    private readonly requests: Requests,
    private readonly roi: RoiBox,
    private readonly marks: HTMLCanvasElement,
    private readonly isPlaying: () => boolean,
  ) {
    this.overlay = new Overlay(marks);
  }

  /** Draws a frame soon, however often it is called. */
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
    // The first frame waits for the first points, which should come as early as possible.
    if (!profile || !requests.hasPoints) return;
    if (!scene.isDrawn()) {
      this.invalidate();
      return;
    }
    const begin = performance.now();
    scene.updateCamera();
    scene.roi = view.roi;
    requests.update(begin, this.isPlaying());
    this.roi.show();
    scene.material.uniforms.size.value = view.size * scene.renderer.getPixelRatio();
    const { current } = requests;
    scene.setReference(current?.weighted ? current.choice!.reference : 0);
    scene.render();
    const light = document.documentElement.dataset.theme === "light";
    const [ink, faint] = light ? ["#23252b", "#70747d"] : ["#e8e6e3", "#8b8f98"];
    const caption = view.even ? "even detail: crowded and empty parts look alike" : "";
    this.overlay.draw(scene, view.axes.map((axis) => profile.column(axis)), caption, ink, faint);
    if (this.firstPoints === null && shown.rows > 0) this.firstPoints = performance.now();
    this.frameTime += 0.1 * (performance.now() - begin - this.frameTime);
    this.frames++;
    state.redraw();
  }

  /** Draws the points that have replaced those on the screen. */
  showCurrent(): void {
    const { current } = this.requests;
    if (!current) return;
    current.group.visible = true;
    this.scene.use(current.spec.columns.length);
    this.applyColors();
    this.applyRanges();
  }

  /** Fits the scene to the axes of the view. */
  setFrame(camera: number[] | null): void {
    const { view, profile } = this.state;
    const { low, high } = extentOf(view, profile!);
    const flat = low.length < 3;
    const aspect = flat ? this.scene.width / this.scene.height : 1;
    this.scene.setFrame(new Frame(low, high, view.stretch, aspect), camera);
    this.roi.set(view.roi, view.axes);
  }

  applyTheme(): void {
    const { theme } = this.state.view;
    const light = theme === "light" || (theme === "auto" && matchMedia("(prefers-color-scheme: light)").matches);
    document.documentElement.dataset.theme = light ? "light" : "dark";
    const style = getComputedStyle(document.documentElement);
    const color = (name: string) => style.getPropertyValue(name).trim();
    this.scene.setColors(color("--night"), color("--ink"), color("--accent"));
    this.applyColors();
    this.state.changed();
  }

  /** The 256 colours of the map on the present background. */
  colors(): Uint8Array {
    const night = getComputedStyle(document.documentElement).getPropertyValue("--night").trim();
    const background = [1, 3, 5].map((at) => parseInt(night.slice(at, at + 2), 16)) as Rgb;
    return this.state.isCategorical ? hues() : ramp(this.state.view.map, background);
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
    uniforms.colorRange.value.set(low - origin, high - origin);
    uniforms.colorOrigin.value = origin;
    uniforms.colorLog.value = log;
    uniforms.colorNames.value = this.state.isCategorical;
  }

  /** Hides points on the graphics card that the filters exclude and the query did not. */
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
      // If the query holds nothing of the new range, its points stay until others replace them.
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

  /** The picture with its marks, as a PNG. */
  async picture(): Promise<Blob> {
    this.scene.render();
    const { canvas } = this.scene;
    const both = document.createElement("canvas");
    [both.width, both.height] = [canvas.width, canvas.height];
    const context = both.getContext("2d")!;
    context.drawImage(canvas, 0, 0);
    context.drawImage(this.marks, 0, 0, both.width, both.height);
    return new Promise((resolve) => both.toBlob((blob) => resolve(blob!), "image/png"));
  }
}
