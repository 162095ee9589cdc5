/** Names and numbers along the axes, over the points. */

import { Vector3 } from "three";
import type { Column } from "./api";
import { brief, ticks } from "./numbers";
import type { Scene } from "./scene";

export class Overlay {
  private readonly context: CanvasRenderingContext2D;
  private readonly at = new Vector3();
  private readonly to = new Vector3();

  constructor(private readonly canvas: HTMLCanvasElement) {
    this.context = canvas.getContext("2d")!;
  }

  /** `caption`: what must be known to read the picture. */
  draw(scene: Scene, columns: Column[], caption: string, ink: string, faint: string): void {
    const ratio = devicePixelRatio || 1;
    const { canvas, context } = this;
    if (canvas.width !== scene.width * ratio || canvas.height !== scene.height * ratio) {
      canvas.width = scene.width * ratio;
      canvas.height = scene.height * ratio;
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, scene.width, scene.height);
    context.font = "11px ui-sans-serif, system-ui, sans-serif";
    context.textBaseline = "middle";
    context.fillStyle = ink;
    context.textAlign = "center";
    context.fillText(caption, scene.width / 2, 24);
    if (columns.length === 2) this.flat(scene, columns, ink, faint);
    else this.deep(scene, columns, ink, faint);
  }

  private label(column: Column): string {
    return column.unit ? `${column.name} [${column.unit}]` : column.name;
  }

  /** Round numbers along the left and the lower side. */
  private flat(scene: Scene, columns: Column[], ink: string, faint: string): void {
    const { context, at } = this;
    const corner = (x: number, y: number) => at.set(x, y, 0).unproject(scene.camera);
    corner(-1, -1);
    const low = [scene.frame.toTable(at, 0), scene.frame.toTable(at, 1)];
    corner(1, 1);
    const high = [scene.frame.toTable(at, 0), scene.frame.toTable(at, 1)];
    const bottom = scene.height - 46;
    context.fillStyle = faint;
    context.textAlign = "center";
    for (const value of ticks(low[0], high[0], scene.width / 110)) {
      const x = ((value - low[0]) / (high[0] - low[0])) * scene.width;
      if (x < 60) continue;
      context.fillRect(x, bottom - 12, 1, 5);
      context.fillText(brief(value), x, bottom);
    }
    context.textAlign = "left";
    for (const value of ticks(low[1], high[1], scene.height / 80)) {
      const y = (1 - (value - low[1]) / (high[1] - low[1])) * scene.height;
      if (y > bottom - 20 || y < 70) continue;
      context.fillRect(10, y, 5, 1);
      context.fillText(brief(value), 20, y);
    }
    context.fillStyle = ink;
    context.textAlign = "right";
    context.fillText(this.label(columns[0]), scene.width - 16, bottom - 20);
    context.textAlign = "left";
    context.fillText(this.label(columns[1]), 10, 58);
  }

  /** The ends of each axis, on the edge of the box where they cover least. */
  private deep(scene: Scene, columns: Column[], ink: string, faint: string): void {
    const { context, at, to } = this;
    const { frame } = scene;
    const middle = scene.project(to.set(0, 0, 0));
    if (!middle) return;
    for (let axis = 0; axis < 3; axis++) {
      const [p, q] = [(axis + 1) % 3, (axis + 2) % 3];
      let best: { away: number; signs: [number, number] } | null = null;
      for (const a of [-1, 1])
        for (const b of [-1, 1]) {
          at.setComponent(axis, 0).setComponent(p, a * frame.half(p)).setComponent(q, b * frame.half(q));
          const place = scene.project(at);
          if (!place) continue;
          // The lowest on the screen, or the one farthest to the left.
          const away = place[1] - middle[1] - 0.6 * (place[0] - middle[0]);
          if (!best || away > best.away) best = { away, signs: [a, b] };
        }
      if (!best) continue;
      const place = (along: number) => {
        at.setComponent(axis, along * frame.half(axis));
        at.setComponent(p, best.signs[0] * frame.half(p)).setComponent(q, best.signs[1] * frame.half(q));
        return scene.project(at);
      };
      const [low, high, name] = [place(-1), place(1), place(0)];
      if (!low || !high || !name) continue;
      const off = [name[0] - middle[0], name[1] - middle[1]];
      const length = Math.hypot(...off) || 1;
      const put = (text: string, where: [number, number], by: number) => {
        const x = where[0] + (off[0] / length) * by;
        const y = where[1] + (off[1] / length) * by;
        context.textAlign = off[0] / length < -0.5 ? "right" : off[0] / length > 0.5 ? "left" : "center";
        context.fillText(text, x, y);
      };
      // On a short edge only the name is shown, farther away from other numbers.
      const short = Math.hypot(high[0] - low[0], high[1] - low[1]) < 90;
      context.fillStyle = ink;
      put(this.label(columns[axis]), name, short ? 40 : 18);
      if (short) continue;
      context.fillStyle = faint;
      put(brief(frame.low[axis]), low, 14);
      put(brief(frame.high[axis]), high, 14);
    }
  }
}
