/** Lines, areas and texts of a picture: painted on a canvas, or written as SVG (src/svg.ts) or PDF (src/pdf.ts). */

import type { Rect } from "./figurelayout";

export type Place = [number, number];
export type Align = "left" | "center" | "right";

export interface Words {
  kind: "words";
  text: string;
  /** The anchor of the text on its baseline. */
  at: Place;
  size: number;
  align: Align;
  color: string;
  /** From bottom to top. */
  isUp: boolean;
}

export type Shape =
  | Words
  | { kind: "fill"; rect: Rect; color: string }
  /** 256 colours, four numbers each, from left to right or bottom to top. */
  | { kind: "ramp"; rect: Rect; colors: Uint8Array; isUp: boolean }
  | { kind: "area"; places: Place[]; color: string }
  /** Each position may have a ring. */
  | { kind: "line"; places: Place[]; isClosed: boolean; rings: number; width: number; color: string }
  | { kind: "image"; rect: Rect; image: HTMLCanvasElement }
  /** Shapes clipped to a rectangle, whose corner is their origin. */
  | { kind: "within"; rect: Rect; scale: number; shapes: Shape[] };

export interface Sheet {
  width: number;
  height: number;
  /** null for a transparent background. */
  background: string | null;
  family: string;
  /** Shown by viewers. */
  title: string;
  description: string;
}

export const fontOf = (size: number, family: string) => `${size}px ${family}`;

export const colorOf = (colors: Uint8Array, share: number) => {
  const at = 4 * Math.round(255 * Math.min(1, Math.max(0, share)));
  return `rgb(${colors[at]} ${colors[at + 1]} ${colors[at + 2]})`;
};

export function paint(context: CanvasRenderingContext2D, family: string, shapes: Shape[]): void {
  context.textBaseline = "alphabetic";
  context.lineJoin = "round";
  for (const shape of shapes) paintOne(context, family, shape);
}

function paintOne(context: CanvasRenderingContext2D, family: string, shape: Shape): void {
  switch (shape.kind) {
    case "words":
      return write(context, family, shape);
    case "fill":
      context.fillStyle = shape.color;
      return context.fillRect(shape.rect.left, shape.rect.top, shape.rect.width, shape.rect.height);
    case "ramp":
      return shade(context, shape.rect, shape.colors, shape.isUp);
    case "area":
      context.fillStyle = shape.color;
      return context.fill(pathOf(shape.places, true));
    case "line": {
      const path = pathOf(shape.places, shape.isClosed);
      for (const [x, y] of shape.rings > 0 ? shape.places : []) {
        path.moveTo(x + shape.rings, y);
        path.arc(x, y, shape.rings, 0, 2 * Math.PI);
      }
      context.strokeStyle = shape.color;
      context.lineWidth = shape.width;
      return context.stroke(path);
    }
    case "image":
      return context.drawImage(shape.image, shape.rect.left, shape.rect.top, shape.rect.width, shape.rect.height);
    case "within": {
      const { left, top, width, height } = shape.rect;
      context.save();
      context.beginPath();
      context.rect(left, top, width, height);
      context.clip();
      context.translate(left, top);
      context.scale(shape.scale, shape.scale);
      paint(context, family, shape.shapes);
      context.restore();
    }
  }
}

function write(context: CanvasRenderingContext2D, family: string, { text, at, size, align, color, isUp }: Words): void {
  context.font = fontOf(size, family);
  context.textAlign = align;
  context.save();
  context.translate(...at);
  if (isUp) context.rotate(-Math.PI / 2);
  context.fillStyle = color;
  context.fillText(text, 0, 0);
  context.restore();
}

function shade(context: CanvasRenderingContext2D, { left, top, width, height }: Rect, colors: Uint8Array, isUp: boolean): void {
  const length = isUp ? height : width;
  for (let at = 0; at < length; at++) {
    const share = (at + 0.5) / length;
    context.fillStyle = colorOf(colors, isUp ? 1 - share : share);
    if (isUp) context.fillRect(left, top + at, width, 1);
    else context.fillRect(left + at, top, 1, height);
  }
}

function pathOf(places: Place[], isClosed: boolean): Path2D {
  const path = new Path2D();
  places.forEach((place, k) => (k === 0 ? path.moveTo(...place) : path.lineTo(...place)));
  if (isClosed) path.closePath();
  return path;
}
