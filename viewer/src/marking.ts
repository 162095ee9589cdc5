/** Lines drawn by hand over the points: a lasso in a flat view, and a measured distance. */

import type { Column } from "./api";
import { thinned } from "./lasso";
import { brief } from "./numbers";
import { nearest } from "./pick";
import type { Requests } from "./requests";
import type { Scene } from "./scene";
import type { State } from "./state";

/** Pixels between the corners of a lasso. */
const STEP = 5;

export interface Mark {
  places: number[][];
  isClosed: boolean;
  text: string;
}

export class Marking {
  isMeasuring = false;
  private drawn: number[][] | null = null;

  /** Calls `encircled` with a finished lasso. */
  constructor(
    private readonly stage: HTMLElement,
    private readonly state: State,
    private readonly scene: Scene,
    private readonly requests: Requests,
    private readonly encircled: (lasso: number[][]) => void,
  ) {
    // Captured before the camera's controls, which would move it.
    stage.addEventListener("pointerdown", (event) => this.begin(event), { capture: true });
  }

  /** Whether this view supports a lasso. */
  get canEncircle(): boolean {
    const { view, profile } = this.state;
    return view.axes.length === 2 && view.axes.every((axis) => profile?.column(axis).kind === "number");
  }

  private begin(event: PointerEvent): void {
    if (!event.shiftKey || event.button !== 0 || !this.canEncircle || !(event.target instanceof HTMLCanvasElement)) return;
    event.stopPropagation();
    const { stage } = this;
    stage.setPointerCapture(event.pointerId);
    let last = [event.clientX, event.clientY];
    this.drawn = [this.placeAt(event)];
    const move = (moved: PointerEvent) => {
      if (Math.hypot(moved.clientX - last[0], moved.clientY - last[1]) < STEP) return;
      last = [moved.clientX, moved.clientY];
      this.drawn!.push(this.placeAt(moved));
      this.state.invalidate();
    };
    const up = () => {
      stage.removeEventListener("pointermove", move);
      const lasso = thinned(this.drawn!);
      this.drawn = null;
      this.state.invalidate();
      if (lasso.length > 2) this.encircled(lasso);
    };
    stage.addEventListener("pointermove", move);
    stage.addEventListener("pointerup", up, { once: true });
  }

  /** The table position under the pointer, in a flat view. */
  private placeAt(event: MouseEvent): number[] {
    const around = this.scene.canvas.getBoundingClientRect();
    return this.scene.placeAt(event.clientX - around.left, event.clientY - around.top);
  }

  /** Takes the point under the pointer, or in a flat view the position, as an end of a distance. */
  measureTo(event: PointerEvent): void {
    const { scene, state, requests: { current } } = this;
    const around = scene.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - around.left, event.clientY - around.top];
    const found = current && nearest(scene, current.tree, x, y, scene.material.uniforms.ranges.value);
    const place = found?.at ?? (scene.isFlat ? this.placeAt(event) : null);
    if (!place) return;
    const { measure } = state.view;
    state.view.measure = measure?.length === 1 ? [...measure, place] : [place];
    state.changed();
  }

  marks(): Mark[] {
    const { view, profile } = this.state;
    const marks: Mark[] = [];
    const lasso = this.drawn ?? view.lasso;
    if (lasso) marks.push({ places: lasso, isClosed: true, text: "" });
    if (view.measure) {
      const text = view.measure.length === 2 ? distanceOf(view.measure, view.axes.map((axis) => profile!.column(axis))) : "";
      marks.push({ places: view.measure, isClosed: false, text });
    }
    return marks;
  }
}

/** The distance of two positions, or the distance along each axis if units differ. */
export function distanceOf([from, to]: number[][], columns: Column[]): string {
  const off = to.map((value, k) => value - from[k]);
  const unit = columns[0].unit;
  if (columns.every((column) => column.kind === "number" && column.unit === unit)) return `${brief(Math.hypot(...off))}${unit ? ` ${unit}` : ""}`;
  return columns.map(({ name, unit }, k) => `${name} ${off[k] < 0 ? "−" : "+"}${brief(Math.abs(off[k]))}${unit ? ` ${unit}` : ""}`).join(", ");
}
