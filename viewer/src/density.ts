/**
 * Density rendering: adds up weights on a raster and maps the sums to shades. The graphics card adds if it can blend
 * floats; otherwise, and in software, the processor does.
 */

import {
  AddEquation,
  BufferAttribute,
  BufferGeometry,
  DataTexture,
  FloatType,
  MaxEquation,
  Mesh,
  NearestFilter,
  RedFormat,
  RGBAFormat,
  WebGLRenderTarget,
} from "three";
import type { PointCloud } from "./cloud";
import { makeResolve } from "./densityshader";
import type { Scene } from "./scene";
import { makeSumMaterial } from "./shader";
import { SHADES } from "./shades";
import { Raster, type Coloring } from "./sums";
import { sumOf, toning, type Tone, type Toning } from "./tones";

/** Target number of points per raster place; fewer would be noise. */
const PER_PLACE = 6;
const LARGEST_PLACE = 5;
/** Size of the sample of the card's sums for choosing shades. */
const LOOKED_AT = [256, 160];

export class Density {
  /** Whether the card adds up; tests can override it. */
  onCard: boolean;
  /** Width of a raster place in canvas pixels. */
  place = 1;
  toning: Toning = toning("log", new Float32Array(0), 4, 3);
  /** Four sums per place, the last one of weights; on a card only sampled places. */
  sums: Float32Array<ArrayBuffer> = new Float32Array(4);
  private readonly shades = new DataTexture(new Float32Array(256), 256, 1, RedFormat, FloatType);
  private readonly resolve;
  private readonly sumMaterial;
  private readonly sheet: Mesh;
  private readonly raster = new Raster();
  private texture: DataTexture | null = null;
  private target: WebGLRenderTarget | null = null;
  private small: WebGLRenderTarget | null = null;

  constructor(private readonly scene: Scene) {
    const { map, background } = scene.material.uniforms;
    this.resolve = makeResolve(map.value, this.shades, background.value);
    this.sumMaterial = makeSumMaterial(scene.material);
    const all = new BufferGeometry();
    all.setAttribute("position", new BufferAttribute(Float32Array.of(-1, -1, 0, 3, -1, 0, -1, 3, 0), 3));
    this.sheet = new Mesh(all, this.resolve);
    this.sheet.frustumCulled = false;
    this.sheet.visible = false;
    scene.addBehind(this.sheet);
    const gl = scene.renderer.getContext();
    this.onCard = !scene.software && Boolean(gl.getExtension("EXT_color_buffer_float") && gl.getExtension("EXT_float_blend"));
  }

  hide(): void {
    this.sheet.visible = false;
  }

  /** Shows the density of a cloud instead of its points; `crowd` is points per occupied pixel. */
  show(cloud: PointCloud, tone: Tone, coloring: Coloring, crowd: number): void {
    const { canvas } = this.scene;
    this.place = Math.min(LARGEST_PLACE, Math.max(1, Math.round(Math.sqrt(PER_PLACE / Math.max(crowd, 1e-9)))));
    const [wide, tall] = [canvas.width, canvas.height].map((pixels) => Math.ceil(pixels / this.place));
    // Blending on a card cannot determine the largest of many sums.
    if (this.onCard && coloring.shade !== "dominant") this.byCard(cloud, coloring, wide, tall);
    else this.byProcessor(cloud, coloring, wide, tall);
    this.toning = toning(tone, this.sums, 4, 3);
    (this.shades.image.data as unknown as Float32Array).set(this.toning.shades);
    this.shades.needsUpdate = true;
    const { uniforms } = this.resolve;
    uniforms.places.value = [canvas.width / this.place, canvas.height / this.place];
    uniforms.screen.value = [canvas.width, canvas.height];
    uniforms.low.value = this.toning.low;
    uniforms.high.value = this.toning.high;
    uniforms.shade.value = SHADES.indexOf(coloring.shade);
    this.sheet.visible = true;
  }

  private byProcessor(cloud: PointCloud, coloring: Coloring, wide: number, tall: number): void {
    const length = 4 * wide * tall;
    if (!this.texture || this.texture.image.width !== wide || this.texture.image.height !== tall) {
      this.texture?.dispose();
      this.texture = new DataTexture(new Float32Array(length), wide, tall, RGBAFormat, FloatType);
    }
    this.sums = this.texture.image.data as unknown as Float32Array<ArrayBuffer>;
    const { canvas } = this.scene;
    const [across, down] = [canvas.width / this.place, canvas.height / this.place];
    const { hasWeights, share } = cloud.fading;
    const alike = hasWeights ? null : 1 / cloud.choice!.fraction[0];
    this.raster.begin(this.sums, wide, across, down);
    cloud.each((cell, mesh, ink) => this.raster.add(this.scene, mesh, cell, alike, ink, share, coloring));
    this.raster.end(coloring);
    this.texture.needsUpdate = true;
    this.resolve.uniforms.sums.value = this.texture;
  }

  private byCard(cloud: PointCloud, { shade }: Coloring, wide: number, tall: number): void {
    const { renderer, camera, material } = this.scene;
    if (!this.target || this.target.width !== wide || this.target.height !== tall) {
      this.target?.dispose();
      const floats = { type: FloatType, format: RGBAFormat, minFilter: NearestFilter, magFilter: NearestFilter, depthBuffer: false } as const;
      this.target = new WebGLRenderTarget(wide, tall, floats);
      this.small ??= new WebGLRenderTarget(LOOKED_AT[0], LOOKED_AT[1], floats);
    }
    material.uniforms.share.value = cloud.fading.share;
    this.sumMaterial.uniforms.alike.value = cloud.fading.hasWeights ? 0 : 1 / (cloud.choice?.fraction[0] ?? 1);
    this.sumMaterial.uniforms.shade.value = SHADES.indexOf(shade);
    this.sumMaterial.blendEquation = shade === "maximum" ? MaxEquation : AddEquation;
    this.sumMaterial.defines.USED = material.defines.USED;
    this.sumMaterial.needsUpdate ||= this.sumMaterial.userData.used !== material.defines.USED;
    this.sumMaterial.userData.used = material.defines.USED;
    cloud.each((_, mesh) => (mesh.material = this.sumMaterial));
    const { target, small } = this;
    const clear = renderer.getClearAlpha();
    renderer.setClearAlpha(0);
    renderer.setRenderTarget(target);
    renderer.clear();
    cloud.group.visible = true;
    renderer.render(cloud.group, camera);
    cloud.group.visible = false;
    renderer.setRenderTarget(null);
    renderer.setClearAlpha(clear);
    cloud.each((_, mesh) => (mesh.material = material));
    this.resolve.uniforms.sums.value = target.texture;
    this.lookAt(target, small!);
  }

  /** Reads an evenly spaced sample of the card's sums. */
  private lookAt(target: WebGLRenderTarget, small: WebGLRenderTarget): void {
    const { renderer } = this.scene;
    const gl = renderer.getContext() as WebGL2RenderingContext;
    renderer.initRenderTarget(small);
    const frameOf = (of: WebGLRenderTarget) => (renderer.properties.get(of) as { __webglFramebuffer: WebGLFramebuffer }).__webglFramebuffer;
    gl.bindFramebuffer(gl.READ_FRAMEBUFFER, frameOf(target));
    gl.bindFramebuffer(gl.DRAW_FRAMEBUFFER, frameOf(small));
    gl.blitFramebuffer(0, 0, target.width, target.height, 0, 0, small.width, small.height, gl.COLOR_BUFFER_BIT, gl.NEAREST);
    renderer.resetState();
    if (this.sums.length !== 4 * small.width * small.height) this.sums = new Float32Array(4 * small.width * small.height);
    renderer.readRenderTargetPixels(small, 0, 0, small.width, small.height, this.sums);
  }

  /** Rows per place for these shades. */
  sumsOf(shades: number[]): number[] {
    return shades.map((shade) => sumOf(this.toning, shade));
  }
}

