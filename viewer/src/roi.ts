/** The box of interest: six handles on its sides, dragged along their axes, inside the view's box. */

import { Vector3 } from "three";
import type { Scene } from "./scene";
import { el } from "./widgets";

export interface Roi {
  low: number[];
  high: number[];
}

export class RoiBox {
  roi: Roi | null = null;
  private handles: { root: HTMLElement; axis: number; side: number }[] = [];
  private readonly at = new Vector3();
  private readonly to = new Vector3();
  private axes: string[] = [];

  constructor(
    private readonly layer: HTMLElement,
    private readonly scene: Scene,
    private readonly changed: (roi: Roi, done: boolean) => void,
  ) {}

  set(roi: Roi | null, axes: string[]): void {
    this.roi = roi;
    if (axes.join() !== this.axes.join() || !roi || this.handles.length === 0) {
      this.axes = axes;
      for (const handle of this.handles) handle.root.remove();
      this.handles = roi ? axes.flatMap((name, axis) => [0, 1].map((side) => this.handle(name, axis, side))) : [];
    }
    this.show();
  }

  private handle(name: string, axis: number, side: number) {
    const root = el("button", { className: "handle", ariaLabel: `${name} ${side ? "to" : "from"}` });
    root.dataset.side = `${name}:${side ? "high" : "low"}`;
    root.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      root.focus();
      root.setPointerCapture(event.pointerId);
      let last = [event.clientX, event.clientY];
      const move = (moved: PointerEvent) => {
        this.drag(axis, side, moved.clientX - last[0], moved.clientY - last[1], false);
        last = [moved.clientX, moved.clientY];
      };
      const up = () => {
        root.removeEventListener("pointermove", move);
        this.drag(axis, side, 0, 0, true);
      };
      root.addEventListener("pointermove", move);
      root.addEventListener("pointerup", up, { once: true });
    });
    root.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
      if (!by) return;
      event.preventDefault();
      event.stopPropagation();
      this.push(axis, side, by * 0.01 * (this.scene.frame.high[axis] - this.scene.frame.low[axis]), true);
    });
    this.layer.append(root);
    return { root, axis, side };
  }

  /** The centre of a side, in the scene. */
  private middle(axis: number, side: number, into: Vector3): Vector3 {
    const { low, high } = this.roi!;
    const point = low.map((value, k) => (k === axis ? (side ? high[k] : value) : (value + high[k]) / 2));
    return this.scene.frame.toScene(point, into);
  }

  private drag(axis: number, side: number, dx: number, dy: number, done: boolean): void {
    if (!this.roi) return;
    // The screen distance of a hundredth of a unit along the axis.
    const here = this.scene.project(this.middle(axis, side, this.at));
    this.to.copy(this.at).setComponent(axis, this.at.getComponent(axis) + 0.01);
    const there = this.scene.project(this.to);
    if (!here || !there) return;
    const along = [there[0] - here[0], there[1] - here[1]];
    const square = Math.max(along[0] ** 2 + along[1] ** 2, 0.04);
    const by = (0.01 * (dx * along[0] + dy * along[1])) / square / this.scene.frame.scale[axis];
    this.push(axis, side, by, done);
  }

  private push(axis: number, side: number, by: number, done: boolean): void {
    const roi = this.roi!;
    const { frame } = this.scene;
    const least = 0.004 * (frame.high[axis] - frame.low[axis]);
    const within = (value: number, low: number, high: number) => Math.min(high, Math.max(low, value));
    if (side) roi.high[axis] = within(roi.high[axis] + by, roi.low[axis] + least, frame.high[axis]);
    else roi.low[axis] = within(roi.low[axis] + by, frame.low[axis], roi.high[axis] - least);
    this.show();
    this.changed(roi, done);
  }

  show(): void {
    const { scene, roi } = this;
    scene.roiBox.visible = roi !== null;
    const uniforms = scene.material.uniforms;
    uniforms.roiOn.value = roi !== null;
    if (!roi) return;
    const { frame } = scene;
    frame.toScene(roi.low, this.at);
    frame.toScene(roi.high, this.to);
    if (roi.low.length < 3) {
      this.at.z = -1;
      this.to.z = 1;
    }
    uniforms.roiLow.value.copy(this.at).min(this.to);
    uniforms.roiHigh.value.copy(this.at).max(this.to);
    scene.roiBox.position.copy(this.at).add(this.to).multiplyScalar(0.5);
    scene.roiBox.scale.copy(uniforms.roiHigh.value).sub(uniforms.roiLow.value).multiplyScalar(0.5);
    for (const { root, axis, side } of this.handles) {
      const place = scene.project(this.middle(axis, side, this.at));
      root.style.display = place ? "" : "none";
      if (place) root.style.transform = `translate(${place[0]}px, ${place[1]}px)`;
    }
  }
}
