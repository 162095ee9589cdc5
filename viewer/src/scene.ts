/** The points on the screen: one buffer and one draw call per cell. Drawing a frame allocates nothing. */

import {
  BufferAttribute,
  BufferGeometry,
  Color,
  Group,
  LineBasicMaterial,
  LineSegments,
  type Object3D,
  OrthographicCamera,
  Points,
  Scene as ThreeScene,
  Vector3,
  WebGLRenderer,
} from "three";
import { DepthShading } from "./depth";
import { CellEye } from "./eye";
import type { Ink } from "./fading";
import { edges, type Frame } from "./frame";
import { SLOTS } from "./query";
import { makeMaterial, makeTrailMaterial } from "./shader";
import { drawsInSoftware, Fence } from "./software";
import type { Cell } from "./cell";
import type { Tail } from "./tail";
import { Viewpoint } from "./viewpoint";
import type { Weights } from "./weights";

/** How much point colours are dimmed when lines are shown. */
const DIM = 0.72;

export class Scene extends Viewpoint {
  readonly renderer: WebGLRenderer;
  /** Whether the browser renders without a graphics card. */
  readonly software = drawsInSoftware();
  readonly material = makeMaterial(!this.software);
  private readonly trailMaterial = makeTrailMaterial(this.material);
  private readonly depth: DepthShading;
  isShaded = false;
  /** How cells are seen, which determines their fraction. */
  readonly eye = new CellEye(this);
  private readonly scene = new ThreeScene();
  readonly box: LineSegments;
  readonly roiBox: LineSegments;
  private readonly at = new Vector3();
  private readonly background = new Color();
  /** Trail lines with the corner of their coordinates and their start time. */
  private readonly trails = new Map<LineSegments, { corner: number[]; begin: number }>();
  private readonly fence: Fence;

  constructor(canvas: HTMLCanvasElement, moved: () => void) {
    super(canvas, moved);
    this.renderer = new WebGLRenderer({ canvas, antialias: !this.software });
    this.renderer.setPixelRatio(Math.min(devicePixelRatio, 2));
    this.depth = new DepthShading(this.renderer, this.software ? 0 : 4);
    this.box = new LineSegments(edges(), new LineBasicMaterial({ transparent: true, opacity: 0.35, depthWrite: false }));
    this.roiBox = new LineSegments(edges(), new LineBasicMaterial({ depthTest: false, transparent: true }));
    this.roiBox.visible = false;
    this.roiBox.renderOrder = 2;
    this.scene.add(this.box, this.roiBox);
    this.fence = new Fence(this.renderer);
    // With one material there is nothing to sort, and bounds are not needed.
    this.renderer.sortObjects = false;
    // The shader's colours are already sRGB.
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

  show(points: Points, ink: Ink): void {
    const { geometry } = points;
    points.visible = ink.rows > 0;
    geometry.setDrawRange(0, ink.rows);
    if (!ink.isNew || !points.visible) return;
    this.perRow(geometry, "weight", ink.weights);
    this.perRow(geometry, "before", ink.before);
    ink.isNew = false;
  }

  /** Sets each point's distance to its neighbours, at most `greatest`. */
  space({ geometry }: Points, cell: Cell, by: Weights, greatest: number): void {
    if (geometry.userData.spacing) return;
    geometry.userData.spacing = true;
    const values = (geometry.getAttribute("spacing")?.array as Float32Array | undefined) ?? new Float32Array(cell.rows);
    by.space(cell, this.frame, greatest, values);
    this.perRow(geometry, "spacing", values);
  }

  /** Updates an attribute with one number per row. */
  private perRow(geometry: BufferGeometry, name: string, values: Float32Array): void {
    const known = geometry.getAttribute(name) as BufferAttribute | undefined;
    if (known) known.needsUpdate = true;
    else geometry.setAttribute(name, new BufferAttribute(values, 1));
  }

  /** The fraction of a point with standard ink (0 if all are the same), and the progress of the transition. */
  setReference(reference: number, share: number): void {
    const { material, isFlat } = this;
    material.uniforms.reference.value = reference;
    material.uniforms.share.value = share;
    // Points of a flat view are translucent and do not hide each other.
    const blended = isFlat && reference > 0;
    material.uniforms.blended.value = blended;
    // Their smooth edges use coverage if they hide each other, otherwise translucency.
    material.transparent = blended || (isFlat && !this.software);
    material.alphaToCoverage = !isFlat && !this.software;
    material.depthTest = material.depthWrite = !material.transparent;
  }

  /** Shows lines in the colours of the points, with this number of columns, and times relative to `begin`. */
  addTrails(geometry: BufferGeometry, columns: number, begin: number): LineSegments {
    this.trailMaterial.defines.USED = columns;
    this.trailMaterial.needsUpdate = true;
    const lines = new LineSegments(geometry, this.trailMaterial);
    lines.frustumCulled = false;
    lines.matrixAutoUpdate = false;
    this.place(lines, this.frame.low);
    this.trails.set(lines, { corner: this.frame.low, begin });
    this.material.uniforms.dim.value = DIM;
    this.scene.add(lines);
    return lines;
  }

  /** Ends lines at a time and fades them; null for whole lines. */
  setTail(tail: Tail | null): void {
    const { uniforms } = this.trailMaterial;
    for (const { begin } of this.trails.values()) uniforms.now.value = tail ? tail.now - begin : 0;
    uniforms.lasts.value = tail?.lasts ?? 0;
  }

  removeTrails(lines: LineSegments): void {
    this.scene.remove(lines);
    this.trails.delete(lines);
    this.material.uniforms.dim.value = 0;
    lines.geometry.dispose();
  }

  /** Positions an object whose coordinates are relative to this corner. */
  place(object: Object3D, corner: number[]): void {
    const { scale } = this.frame;
    this.frame.toScene(corner, this.at);
    object.matrix.makeScale(scale[0], scale[1], scale[2] ?? 1).setPosition(this.at);
    object.matrixWorldNeedsUpdate = true;
  }

  /** Draws points with this number of columns. */
  use(columns: number): void {
    if (this.material.defines.USED === columns) return;
    this.material.defines.USED = columns;
    this.material.needsUpdate = true;
  }

  discard(group: Group): void {
    for (const points of group.children) (points as Points).geometry.dispose();
    this.scene.remove(group);
  }

  override setFrame(frame: Frame, camera: number[] | null): void {
    super.setFrame(frame, camera);
    for (const [lines, { corner }] of this.trails) this.place(lines, corner);
    this.box.scale.set(frame.half(0), frame.half(1), frame.half(2));
  }

  override resize(): void {
    super.resize();
    this.renderer.setSize(this.width, this.height, false);
  }

  /**
   * Draws `width` x `height` pixels with `ratio` pixels per page pixel, of a flat view only this range, and then
   * restores everything.
   */
  inSize<Drawn>(width: number, height: number, ratio: number, ends: { low: number[]; high: number[] } | null, draw: () => Drawn): Drawn {
    const { renderer, camera, frame } = this;
    const [before, kept] = [renderer.getPixelRatio(), camera.clone()];
    try {
      renderer.setDrawingBufferSize(width / ratio + 1e-6, height / ratio + 1e-6, ratio);
      this.fit(width / ratio, height / ratio);
      if (ends && camera instanceof OrthographicCamera) {
        const [left, right, bottom, top] = [frame.along(ends.low[0], 0), frame.along(ends.high[0], 0), frame.along(ends.low[1], 1), frame.along(ends.high[1], 1)];
        camera.position.set((left + right) / 2, (bottom + top) / 2, camera.position.z);
        [camera.left, camera.right] = [(left - right) / 2, (right - left) / 2];
        [camera.bottom, camera.top] = [(bottom - top) / 2, (top - bottom) / 2];
        camera.zoom = 1;
        camera.updateProjectionMatrix();
      }
      this.updateCamera();
      return draw();
    } finally {
      camera.copy(kept as never);
      renderer.setPixelRatio(before);
      this.resize();
      this.updateCamera();
    }
  }

  /** Updates everything that depends on the camera, before cells are chosen. */
  override updateCamera(): void {
    super.updateCamera();
    this.eye.update();
    const { uniforms } = this.material;
    const distance = this.camera.position.length();
    uniforms.isFlat.value = this.isFlat;
    uniforms.screen.value = [this.canvas.width, this.canvas.height];
    uniforms.zone.value = this.isOrthographic ? 1e9 : this.zone;
    uniforms.fadeNear.value = this.isFlat ? 1e9 : Math.max(0, distance - 1.3);
    uniforms.fadeFar.value = this.isFlat ? 2e9 : distance + 1.6;
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
    if (this.isShaded && !this.isFlat) this.depth.render(this.scene, this.camera, this.isParallel ? this.distance : 0);
    else this.renderer.render(this.scene, this.camera);
    if (this.software) this.fence.put();
  }

  /** Whether the last frame is on the screen. */
  isDrawn(): boolean {
    return this.fence.isPassed();
  }
}
