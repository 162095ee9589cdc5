/** The camera: its position, its movement, and projections to the screen. It draws nothing. */

import { MOUSE, OrthographicCamera, PerspectiveCamera, TOUCH, Vector3 } from "three";
import { OrbitControls } from "three/examples/jsm/controls/OrbitControls.js";
import { Frame } from "./frame";

/** Vertical field of view in degrees. */
export const FIELD = 40;
/** Points within this multiple of the camera's distance count as equally far. */
const ZONE = 2.5;

/** CSS pixels for texts next to the box of a view. */
const TEXTS = 130;
/** CSS pixels for numbers on both sides of a flat view. */
const MARKS = 110;
/** CSS pixels for the legend and the texts above it. */
const LEGEND = 96;
/** Half the height of an orthographic view at zoom 1, and the distance of its camera. */
const PARALLEL = 1.24;
const AWAY = 10;
const SLOPE = Math.tan((FIELD * Math.PI) / 360);

export class Viewpoint {
  camera: PerspectiveCamera | OrthographicCamera = new PerspectiveCamera();
  controls: OrbitControls;
  frame = new Frame([0, 0, 0], [1, 1, 1], false);
  width = 1;
  height = 1;
  /** Whether the user moved the camera. */
  isPlaced = false;
  /** Whether three columns are shown without perspective. */
  isParallel = false;
  private isHoming = false;
  private readonly point = new Vector3();

  constructor(
    readonly canvas: HTMLCanvasElement,
    private readonly moved: () => void,
  ) {
    this.controls = new OrbitControls(this.camera, canvas);
  }

  /** Whether two columns are shown, from straight above. */
  get isFlat(): boolean {
    return this.frame.low.length < 3;
  }

  get isOrthographic(): boolean {
    return this.isFlat || this.isParallel;
  }

  /** Shows another box: all of it, or the given camera position. */
  setFrame(frame: Frame, camera: number[] | null): void {
    this.frame = frame;
    this.isParallel &&= camera !== null;
    this.setUp();
    this.home(camera);
  }

  private setUp(): void {
    this.controls.dispose();
    this.camera = this.isOrthographic ? new OrthographicCamera() : new PerspectiveCamera(FIELD);
    this.controls = new OrbitControls(this.camera, this.canvas);
    this.controls.addEventListener("change", () => {
      this.isPlaced ||= !this.isHoming;
      this.moved();
    });
    this.controls.zoomToCursor = true;
    this.controls.enableRotate = !this.isFlat;
    this.controls.screenSpacePanning = true;
    if (this.isFlat) {
      this.controls.mouseButtons.LEFT = MOUSE.PAN;
      this.controls.touches.ONE = TOUCH.PAN;
    }
  }

  /** Looks along an axis without perspective; on a repeated call from the other side. */
  lookAlong(axis: number): void {
    const { frame, controls } = this;
    const [right, up] = [axis === 0 ? 2 : 0, axis === 1 ? 2 : 1];
    const toward = this.camera.position.clone().sub(controls.target).normalize();
    // From the side where the third axis points right or up.
    let side = axis === 2 ? 1 : -Math.sign(frame.scale[2]);
    if (this.isParallel && side * toward.getComponent(axis) > 0.9999) side = -side;
    const beside = Math.max(0.4, Math.min(0.86, 1 - TEXTS / this.width));
    const above = Math.max(0.4, Math.min(0.78, 1 - (2 * LEGEND) / this.height));
    const tall = Math.max(frame.half(up) / above, (frame.half(right) * this.height) / (beside * this.width), 1e-6);
    const at = [0, 0, 0];
    at[axis] = side * AWAY;
    this.isParallel = true;
    this.standAt([...at, 0, 0, 0, PARALLEL / tall]);
  }

  /** Switches perspective and keeps the size of the picture's middle. */
  setParallel(isParallel: boolean): void {
    if (this.isFlat || isParallel === this.isParallel) return;
    const { camera, controls: { target } } = this;
    const toward = camera.position.clone().sub(target);
    const half = this.isParallel ? PARALLEL / camera.zoom : toward.length() * SLOPE;
    const away = isParallel ? AWAY : half / SLOPE;
    this.isParallel = isParallel;
    this.standAt([...toward.setLength(away).add(target).toArray(), ...target.toArray(), isParallel ? PARALLEL / half : 1]);
  }

  /** Creates the other kind of camera at this position. */
  private standAt(camera: number[]): void {
    this.setUp();
    this.home(camera);
    this.moved();
  }

  /** Shows the whole box, or the given camera position. */
  home(camera: number[] | null): void {
    const { controls } = this;
    this.isHoming = true;
    this.isPlaced = camera !== null;
    controls.target.set(0, 0, 0);
    this.camera.up.set(0, 1, 0);
    if (this.isFlat) {
      this.camera.position.set(0, 0, 10);
      this.camera.zoom = 1;
    } else this.camera.position.copy(this.viewOfAll());
    if (camera) {
      this.camera.position.fromArray(camera, 0);
      controls.target.fromArray(camera, 3);
      this.camera.zoom = camera[6];
    }
    this.resize();
    controls.update();
    this.isHoming = false;
  }

  /** A position that shows the whole box: first axis horizontal, second one up, slightly from side and above. */
  private viewOfAll(): Vector3 {
    const { frame } = this;
    const sides = [0, 1, 2].map((axis) => frame.half(axis));
    const isDeep = sides[2] > 0.5 * Math.max(sides[0], sides[1]);
    const toward = new Vector3(isDeep ? 0.55 : 0.2, isDeep ? 0.45 : 0.16, 1).normalize();
    const right = new Vector3(0, 1, 0).cross(toward).normalize();
    const up = toward.clone().cross(right);
    const tall = SLOPE;
    const wide = tall * (this.width / this.height);
    // Texts take the same number of pixels on a narrow screen.
    const beside = Math.min(0.86, 1 - TEXTS / this.width);
    const above = Math.min(0.78, 1 - (2 * LEGEND) / this.height);
    // Far enough for each corner and the texts around.
    let distance = 0.1;
    for (let corner = 0; corner < 8; corner++) {
      const at = new Vector3(...sides.map((side, axis) => (corner & (1 << axis) ? side : -side)));
      const across = Math.abs(at.dot(right)) / (Math.max(0.4, beside) * wide);
      const along = Math.abs(at.dot(up)) / (Math.max(0.4, above) * tall);
      distance = Math.max(distance, at.dot(toward) + Math.max(across, along));
    }
    return toward.multiplyScalar(distance);
  }

  where(): number[] {
    return [...this.camera.position.toArray(), ...this.controls.target.toArray(), this.camera.zoom];
  }

  resize(): void {
    this.fit(this.canvas.clientWidth || 1, this.canvas.clientHeight || 1);
  }

  /** Shows the same part of the box in a picture of this size. */
  protected fit(width: number, height: number): void {
    const { camera } = this;
    [this.width, this.height] = [width, height];
    const aspect = this.width / this.height;
    if (camera instanceof PerspectiveCamera) camera.aspect = aspect;
    else {
      const beside = Math.max(0.6, Math.min(1 / 1.24, 1 - MARKS / width));
      const above = Math.max(0.4, Math.min(1 / 1.24, 1 - (2 * LEGEND) / height));
      const tall = this.isParallel ? PARALLEL : Math.max(this.frame.half(1) / above, this.frame.half(0) / aspect / beside);
      [camera.left, camera.right, camera.top, camera.bottom] = [-tall * aspect, tall * aspect, tall, -tall];
      [camera.near, camera.far] = [0.1, 20];
    }
    camera.updateProjectionMatrix();
  }

  updateCamera(): void {
    const { camera } = this;
    if (camera instanceof PerspectiveCamera) {
      camera.near = Math.max(1e-5, 0.002 * camera.position.distanceTo(this.controls.target));
      camera.far = camera.position.length() + 30;
      camera.updateProjectionMatrix();
    }
    camera.updateMatrixWorld();
  }

  /** The distance at which a perspective camera sees as much as this one. */
  get distance(): number {
    return this.isParallel ? PARALLEL / this.camera.zoom / SLOPE : this.camera.position.distanceTo(this.controls.target);
  }

  /** Rows up to this distance from the camera appear equally large. */
  get zone(): number {
    return ZONE * this.camera.position.distanceTo(this.controls.target);
  }

  /** The table position at a canvas position of a flat view, in CSS pixels. */
  placeAt(x: number, y: number): number[] {
    const { frame, point } = this;
    point.set((2 * x) / this.width - 1, 1 - (2 * y) / this.height, 0).unproject(this.camera);
    return frame.low.map((_, axis) => frame.toTable(point, axis));
  }

  /** The area of a square of `side` CSS pixels, and its unit. */
  areaOf(side: number, axes: { unit: string | null; kind: string }[]): { area: number; unit: string } {
    const { camera, frame } = this;
    if (!(camera instanceof OrthographicCamera) || !this.isFlat || axes.some(({ kind }) => kind === "time")) {
      return { area: side ** 2, unit: "pixel" };
    }
    const step = (side * (camera.right - camera.left)) / camera.zoom / this.width;
    const [a, b] = axes.map(({ unit }) => unit);
    const unit = !a && !b ? "unit of area" : a === b ? `${a}²` : `${a ?? "1"}·${b ?? "1"}`;
    return { area: (step / frame.scale[0]) * (step / frame.scale[1]), unit };
  }

  /** The visible part of the view's box, in the table's units. */
  seen(): { low: number[]; high: number[] } {
    const { frame, camera } = this;
    const axes = frame.low.map((_, axis) => axis);
    const [low, high] = [axes.map(() => Infinity), axes.map(() => -Infinity)];
    for (let corner = 0; corner < 8; corner++) {
      const side = (bit: number) => (corner & bit ? 1 : -1);
      this.point.set(side(1), side(2), side(4)).unproject(camera);
      for (const axis of axes) {
        const at = frame.toTable(this.point, axis);
        low[axis] = Math.min(low[axis], at);
        high[axis] = Math.max(high[axis], at);
      }
    }
    return {
      low: axes.map((axis) => Math.max(low[axis], frame.low[axis])),
      high: axes.map((axis) => Math.min(high[axis], frame.high[axis])),
    };
  }

  /** The canvas position of a scene point in CSS pixels; null behind the camera. */
  project(at: Vector3): [number, number] | null {
    this.point.copy(at).project(this.camera);
    if (this.point.z > 1) return null;
    return [((this.point.x + 1) / 2) * this.width, ((1 - this.point.y) / 2) * this.height];
  }
}
