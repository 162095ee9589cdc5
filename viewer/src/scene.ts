/**
 * The points on the screen: one buffer and one draw call for each cell, a camera, and
 * nothing that is allocated while frames are drawn.
 */

import {
  BufferAttribute,
  BufferGeometry,
  Color,
  Frustum,
  Group,
  LineBasicMaterial,
  LineSegments,
  Matrix4,
  MOUSE,
  type Object3D,
  OrthographicCamera,
  PerspectiveCamera,
  Points,
  Scene as ThreeScene,
  Sphere,
  TOUCH,
  Vector3,
  WebGLRenderer,
} from "three";
import { OrbitControls } from "three/examples/jsm/controls/OrbitControls.js";
import { DepthShading } from "./depth";
import { edges, Frame } from "./frame";
import { SLOTS } from "./query";
import { makeMaterial, makeTrailMaterial } from "./shader";
import type { Cell, Eye } from "./tree";
import { weigh } from "./weights";

const FIELD = 40;
/** How many times farther away than what the camera looks at all is about equally far. */
const ZONE = 2.5;
/** How much of a point's colour gives way to the background where lines are to be seen. */
const DIM = 0.72;

export class Scene implements Eye {
  readonly renderer: WebGLRenderer;
  /** Whether the browser draws without a graphics card. */
  readonly software = drawsInSoftware();
  readonly material = makeMaterial(!this.software);
  private readonly trailMaterial = makeTrailMaterial(this.material);
  private readonly depth: DepthShading;
  /** Whether forms are shaded by their depth. */
  isShaded = false;
  camera: PerspectiveCamera | OrthographicCamera;
  controls: OrbitControls;
  frame = new Frame([0, 0, 0], [1, 1, 1], false);
  private flat = false;
  private readonly scene = new ThreeScene();
  readonly box: LineSegments;
  readonly roiBox: LineSegments;
  private readonly frustum = new Frustum();
  private readonly sphere = new Sphere();
  private readonly matrix = new Matrix4();
  private readonly point = new Vector3();
  private readonly background = new Color();
  /** The box of interest: cells outside of it have a lower priority. */
  roi: { low: number[]; high: number[] } | null = null;
  width = 1;
  height = 1;
  /** Whether the camera is where somebody put it, rather than where it sees all. */
  isPlaced = false;
  private isHoming = false;
  /** The lines of trajectories, and the corner that their coordinates are relative to. */
  private readonly trails = new Map<LineSegments, number[]>();
  private drawing: WebGLSync | null = null;

  constructor(
    readonly canvas: HTMLCanvasElement,
    private readonly moved: () => void,
  ) {
    this.renderer = new WebGLRenderer({ canvas, antialias: !this.software });
    this.renderer.setPixelRatio(Math.min(devicePixelRatio, 2));
    this.depth = new DepthShading(this.renderer, this.software ? 0 : 4);
    this.box = new LineSegments(edges(), new LineBasicMaterial({ transparent: true, opacity: 0.35, depthWrite: false }));
    this.roiBox = new LineSegments(edges(), new LineBasicMaterial({ depthTest: false, transparent: true }));
    this.roiBox.visible = false;
    this.roiBox.renderOrder = 2;
    this.scene.add(this.box, this.roiBox);
    this.camera = new PerspectiveCamera();
    this.controls = new OrbitControls(this.camera, canvas);
    // One material: there is nothing to sort, and no bounds to find.
    this.renderer.sortObjects = false;
    // Colours leave the shader as they are on the screen.
    this.renderer.outputColorSpace = "srgb-linear";
    this.resize();
    this.warmUp();
  }

  /** Compiles the shaders in the background, before the first points arrive. */
  private warmUp(): void {
    const geometry = new BufferGeometry();
    geometry.setAttribute("position", new BufferAttribute(new Float32Array(3), 3));
    geometry.setAttribute("a0", new BufferAttribute(new Float32Array(1), 1));
    const points = new Points(geometry, this.material);
    points.frustumCulled = false;
    this.use(1);
    this.scene.add(points);
    this.renderer.compile(this.scene, this.camera);
    this.scene.remove(points);
    geometry.dispose();
  }

  /** Draws an object before all others. */
  addBehind(object: Object3D): void {
    this.scene.add(object);
    this.scene.children.unshift(this.scene.children.pop()!);
  }

  /** A new group of cells, hidden at first. */
  newGroup(): Group {
    const group = new Group();
    group.visible = false;
    this.scene.add(group);
    return group;
  }

  /** Uploads a cell to the graphics card. */
  add(group: Group, cell: Cell): Points {
    const geometry = new BufferGeometry();
    geometry.setAttribute("position", new BufferAttribute(cell.positions, cell.low.length));
    for (let k = 0; k < SLOTS; k++) {
      const values = cell.columns[k];
      if (values) geometry.setAttribute(`a${k}`, new BufferAttribute(values, 1));
    }
    geometry.setDrawRange(0, cell.count);
    const points = new Points(geometry, this.material);
    points.frustumCulled = false;
    points.matrixAutoUpdate = false;
    this.place(points, cell.low);
    group.add(points);
    return points;
  }

  /** Draws the rows of a cell that were chosen, each with the ink of what it stands for. */
  show(points: Points, cell: Cell, weighted: boolean): void {
    const { geometry } = points;
    points.visible = cell.count > 0;
    geometry.setDrawRange(0, cell.count);
    if (!weighted || !points.visible || !cell.stale) return;
    let weights = geometry.getAttribute("weight") as BufferAttribute | undefined;
    if (!weights) geometry.setAttribute("weight", (weights = new BufferAttribute(new Float32Array(cell.rows), 1)));
    weigh(cell, weights.array as Float32Array);
    weights.needsUpdate = true;
  }

  /** The precision of a point of usual ink; 0: all points have the same ink. */
  setReference(reference: number): void {
    const { material, flat } = this;
    material.uniforms.reference.value = reference;
    // Points of a flat view are translucent, and do not hide each other.
    const blended = flat && reference > 0;
    material.uniforms.blended.value = blended;
    // Their smooth rims are: covered parts of pixels where they hide each other, translucent otherwise.
    material.transparent = blended || (flat && !this.software);
    material.alphaToCoverage = !flat && !this.software;
    material.depthTest = material.depthWrite = !material.transparent;
  }

  /** Shows lines in the colours of the points; they carry this number of columns. */
  addTrails(geometry: BufferGeometry, columns: number): LineSegments {
    this.trailMaterial.defines.USED = columns;
    this.trailMaterial.needsUpdate = true;
    const lines = new LineSegments(geometry, this.trailMaterial);
    lines.frustumCulled = false;
    lines.matrixAutoUpdate = false;
    this.place(lines, this.frame.low);
    this.trails.set(lines, this.frame.low);
    this.material.uniforms.dim.value = DIM;
    this.scene.add(lines);
    return lines;
  }

  removeTrails(lines: LineSegments): void {
    this.scene.remove(lines);
    this.trails.delete(lines);
    this.material.uniforms.dim.value = 0;
    lines.geometry.dispose();
  }

  /** Places an object whose coordinates are relative to this corner. */
  place(object: Object3D, corner: number[]): void {
    const { scale } = this.frame;
    this.frame.toScene(corner, this.point);
    object.matrix.makeScale(scale[0], scale[1], scale[2] ?? 1).setPosition(this.point);
    object.matrixWorldNeedsUpdate = true;
  }

  /** Draws points that carry this number of columns. */
  use(columns: number): void {
    if (this.material.defines.USED === columns) return;
    this.material.defines.USED = columns;
    this.material.needsUpdate = true;
  }

  discard(group: Group): void {
    for (const points of group.children) (points as Points).geometry.dispose();
    this.scene.remove(group);
  }

  setFrame(frame: Frame, camera: number[] | null): void {
    this.frame = frame;
    for (const [lines, corner] of this.trails) this.place(lines, corner);
    this.flat = frame.low.length < 3;
    this.controls.dispose();
    this.camera = this.flat ? new OrthographicCamera() : new PerspectiveCamera(FIELD);
    this.controls = new OrbitControls(this.camera, this.canvas);
    this.controls.addEventListener("change", () => {
      this.isPlaced ||= !this.isHoming;
      this.moved();
    });
    this.controls.zoomToCursor = true;
    this.controls.enableRotate = !this.flat;
    this.controls.screenSpacePanning = true;
    if (this.flat) {
      this.controls.mouseButtons.LEFT = MOUSE.PAN;
      this.controls.touches.ONE = TOUCH.PAN;
    }
    this.box.scale.set(frame.half(0), frame.half(1), frame.half(2));
    this.home(camera);
  }

  /** Shows all of it, or what the camera saw. */
  home(camera: number[] | null): void {
    const { controls } = this;
    this.isHoming = true;
    this.isPlaced = camera !== null;
    controls.target.set(0, 0, 0);
    this.camera.up.set(0, 1, 0);
    if (this.flat) {
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

  /** From where all of the box is seen: the first axis across, the second one up, a little from the side and above. */
  private viewOfAll(): Vector3 {
    const { frame } = this;
    const sides = [0, 1, 2].map((axis) => frame.half(axis));
    const isDeep = sides[2] > 0.5 * Math.max(sides[0], sides[1]);
    const toward = new Vector3(isDeep ? 0.55 : 0.2, isDeep ? 0.45 : 0.16, 1).normalize();
    const right = new Vector3(0, 1, 0).cross(toward).normalize();
    const up = toward.clone().cross(right);
    const tall = Math.tan((FIELD * Math.PI) / 360);
    const wide = tall * (this.width / this.height);
    // Far enough for each corner, with room for the texts around.
    let distance = 0.1;
    for (let corner = 0; corner < 8; corner++) {
      const at = new Vector3(...sides.map((side, axis) => (corner & (1 << axis) ? side : -side)));
      const across = Math.abs(at.dot(right)) / (0.86 * wide);
      const above = Math.abs(at.dot(up)) / (0.78 * tall);
      distance = Math.max(distance, at.dot(toward) + Math.max(across, above));
    }
    return toward.multiplyScalar(distance);
  }

  where(): number[] {
    return [...this.camera.position.toArray(), ...this.controls.target.toArray(), this.camera.zoom];
  }

  resize(): void {
    const { canvas, camera } = this;
    this.width = canvas.clientWidth || 1;
    this.height = canvas.clientHeight || 1;
    this.renderer.setSize(this.width, this.height, false);
    const aspect = this.width / this.height;
    if (camera instanceof PerspectiveCamera) camera.aspect = aspect;
    else {
      const tall = 1.24 * Math.max(this.frame.half(1), this.frame.half(0) / aspect);
      [camera.left, camera.right, camera.top, camera.bottom] = [-tall * aspect, tall * aspect, tall, -tall];
      [camera.near, camera.far] = [0.1, 20];
    }
    camera.updateProjectionMatrix();
  }

  /** Updates everything that depends on the camera; called before cells are chosen. */
  updateCamera(): void {
    const { camera, material } = this;
    const distance = camera.position.length();
    if (camera instanceof PerspectiveCamera) {
      camera.near = Math.max(1e-5, 0.002 * camera.position.distanceTo(this.controls.target));
      camera.far = distance + 30;
      camera.updateProjectionMatrix();
    }
    camera.updateMatrixWorld();
    this.matrix.multiplyMatrices(camera.projectionMatrix, camera.matrixWorldInverse);
    this.frustum.setFromProjectionMatrix(this.matrix);
    material.uniforms.zone.value = this.flat ? 1e9 : this.zone;
    material.uniforms.fadeNear.value = this.flat ? 1e9 : Math.max(0, distance - 1.3);
    material.uniforms.fadeFar.value = this.flat ? 2e9 : distance + 1.6;
  }

  /** Puts a sphere around a cell; returns half of its widest side. */
  private around(cell: Cell): number {
    const { frame, sphere } = this;
    let square = 0;
    let widest = 0;
    for (let k = 0; k < 3; k++) {
      const inside = k < cell.low.length;
      const half = inside ? ((cell.high[k] - cell.low[k]) / 2) * Math.abs(frame.scale[k]) : 0;
      const middle = inside ? frame.along((cell.high[k] + cell.low[k]) / 2, k) : 0;
      sphere.center.setComponent(k, middle);
      square += half * half;
      widest = Math.max(widest, half);
    }
    sphere.radius = Math.sqrt(square);
    return widest;
  }

  /** How far the nearest part of that sphere is away. */
  private distance(): number {
    const { camera, sphere } = this;
    return Math.max(camera.near, sphere.center.distanceTo(camera.position) - 0.5 * sphere.radius);
  }

  /** How wide a cell is on the screen, in pixels; 0 out of view. */
  pixels(cell: Cell): number {
    const { camera } = this;
    const widest = this.around(cell);
    if (!this.frustum.intersectsSphere(this.sphere)) return cell.depth === 0 ? 1 : 0;
    let size: number;
    if (camera instanceof PerspectiveCamera) {
      size = (widest / (this.distance() * Math.tan((FIELD * Math.PI) / 360))) * this.height;
    } else {
      size = ((2 * widest * camera.zoom) / (camera.top - camera.bottom)) * this.height;
    }
    return this.isOutside(cell) ? 0.3 * size : size;
  }

  /** Within the zone records appear equally large, beyond it as perspective has it, in steps of two. */
  nearness(cell: Cell): number {
    if (this.flat) return 1;
    this.around(cell);
    const beyond = this.distance() / this.zone;
    return beyond <= 1 ? 1 : 2 ** -Math.round(2 * Math.log2(beyond));
  }

  interest(cell: Cell): number {
    return this.isOutside(cell) ? 0.1 : 1;
  }

  /** In a flat view the share of its area; otherwise all of a cell that is in view at all. */
  visible(cell: Cell): number {
    const { camera, frame } = this;
    if (!(camera instanceof OrthographicCamera)) return 1;
    let share = 1;
    for (let k = 0; k < 2; k++) {
      const half = (k === 0 ? camera.right : camera.top) / camera.zoom;
      const middle = camera.position.getComponent(k);
      const [low, high] = [frame.along(cell.low[k], k), frame.along(cell.high[k], k)];
      const inside = Math.min(high, middle + half) - Math.max(low, middle - half);
      share *= Math.max(0, inside) / Math.max(1e-300, high - low);
    }
    return share;
  }

  /** Records at up to this distance from the camera appear equally large. */
  get zone(): number {
    return ZONE * this.camera.position.distanceTo(this.controls.target);
  }

  private isOutside(cell: Cell): boolean {
    const { roi } = this;
    if (!roi) return false;
    for (let k = 0; k < cell.low.length; k++) if (cell.low[k] > roi.high[k] || cell.high[k] < roi.low[k]) return true;
    return false;
  }

  /** The area of a square of so many pixels of the canvas, and its unit. */
  areaOf(side: number, axes: { unit: string | null; kind: string }[]): { area: number; unit: string } {
    const { camera, frame } = this;
    if (!(camera instanceof OrthographicCamera) || axes.some(({ kind }) => kind === "time")) {
      return { area: (side / this.renderer.getPixelRatio()) ** 2, unit: "pixel" };
    }
    const step = (side * (camera.right - camera.left)) / camera.zoom / this.canvas.width;
    const [a, b] = axes.map(({ unit }) => unit);
    const unit = !a && !b ? "unit of area" : a === b ? `${a}²` : `${a ?? "1"}·${b ?? "1"}`;
    return { area: (step / frame.scale[0]) * (step / frame.scale[1]), unit };
  }

  /** A box in the table's units around the visible part of the view's box. */
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

  /** The position on the canvas of a point in the scene, in CSS pixels; null behind the camera. */
  project(at: Vector3): [number, number] | null {
    this.point.copy(at).project(this.camera);
    if (this.point.z > 1) return null;
    return [((this.point.x + 1) / 2) * this.width, ((1 - this.point.y) / 2) * this.height];
  }

  setColors(background: string, ink: string, accent: string): void {
    this.background.set(background).convertLinearToSRGB();
    this.scene.background = this.background.clone();
    this.material.uniforms.background.value.copy(this.background);
    this.material.uniforms.plain.value.set(ink).convertLinearToSRGB();
    (this.box.material as LineBasicMaterial).color.set(ink).convertLinearToSRGB();
    (this.roiBox.material as LineBasicMaterial).color.set(accent).convertLinearToSRGB();
  }

  render(): void {
    if (this.isShaded && this.camera instanceof PerspectiveCamera) this.depth.render(this.scene, this.camera);
    else this.renderer.render(this.scene, this.camera);
    if (!this.software) return;
    const gl = this.renderer.getContext() as WebGL2RenderingContext;
    this.drawing = gl.fenceSync(gl.SYNC_GPU_COMMANDS_COMPLETE, 0);
  }

  /**
   * Whether the last frame is on the screen. Without a graphics card browsers queue frames for
   * seconds, and the picture would lag behind the pointer.
   */
  isDrawn(): boolean {
    if (!this.drawing) return true;
    const gl = this.renderer.getContext() as WebGL2RenderingContext;
    if (gl.getSyncParameter(this.drawing, gl.SYNC_STATUS) !== gl.SIGNALED) return gl.isContextLost();
    gl.deleteSync(this.drawing);
    this.drawing = null;
    return true;
  }
}

function drawsInSoftware(): boolean {
  const context = document.createElement("canvas").getContext("webgl2");
  if (!context) return false;
  const named = context.getExtension("WEBGL_debug_renderer_info");
  const name = String(context.getParameter(named ? named.UNMASKED_RENDERER_WEBGL : context.RENDERER));
  context.getExtension("WEBGL_lose_context")?.loseContext();
  return /swiftshader|llvmpipe|software|basic render/i.test(name);
}
