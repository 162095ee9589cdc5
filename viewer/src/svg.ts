/** A picture as SVG, as `kubist plot` writes it: vector lines and text; the points are an image. */

import type { Align, Place, Shape, Sheet, Words } from "./shapes";

const SPACE = "http://www.w3.org/2000/svg";
const ANCHORS: Record<Align, string> = { left: "start", center: "middle", right: "end" };

type Attributes = Record<string, string | number>;

export function svgOf({ width, height, background, family, title, description }: Sheet, shapes: Shape[]): string {
  const whole = { left: 0, top: 0, width, height };
  const ground: Shape[] = background ? [{ kind: "fill", rect: whole, color: background }] : [];
  const definitions = element("defs", {});
  const root = element(
    "svg",
    { version: "1.1", width, height, viewBox: `0 0 ${width} ${height}`, "font-family": family },
    element("title", {}, title),
    element("desc", {}, description),
    definitions,
    ...[...ground, ...shapes].map((shape) => drawn(shape, definitions)),
  );
  return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(root)}\n`;
}

function element(name: string, attributes: Attributes, ...children: (Node | string)[]): SVGElement {
  const made = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) {
    made.setAttribute(key, allowed(typeof value === "number" ? String(Math.round(100 * value) / 100) : value));
  }
  made.append(...children.map((child) => (typeof child === "string" ? allowed(child) : child)));
  return made;
}

/** Removes characters that XML forbids. */
const allowed = (text: string) => text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff\p{Surrogate}]/gu, "\ufffd");

/** Adds a definition and returns the reference to it. */
function define(definitions: SVGElement, made: SVGElement): string {
  made.id = `part-${definitions.childElementCount + 1}`;
  definitions.append(made);
  return `url(#${made.id})`;
}

const sides = ({ left, top, width, height }: { left: number; top: number; width: number; height: number }) => ({ x: left, y: top, width, height });
const listOf = (places: Place[]) => places.map((place) => place.map((value) => value.toFixed(2)).join()).join(" ");

function drawn(shape: Shape, definitions: SVGElement): SVGElement {
  switch (shape.kind) {
    case "words":
      return words(shape);
    case "fill":
      return element("rect", { ...sides(shape.rect), fill: shape.color });
    case "ramp": {
      const [x2, y1] = shape.isUp ? [0, 1] : [1, 0];
      const stops = Array.from({ length: 256 }, (_, k) => {
        const [red, green, blue] = shape.colors.subarray(4 * k);
        return element("stop", { offset: (k / 255).toFixed(4), "stop-color": `rgb(${red},${green},${blue})` });
      });
      return element("rect", { ...sides(shape.rect), fill: define(definitions, element("linearGradient", { x1: 0, y1, x2, y2: 0 }, ...stops)) });
    }
    case "area":
      return element("polygon", { points: listOf(shape.places), fill: shape.color });
    case "line": {
      const rings = shape.rings > 0 ? shape.places.map(([cx, cy]) => element("circle", { cx, cy, r: shape.rings })) : [];
      const line = element(shape.isClosed ? "polygon" : "polyline", { points: listOf(shape.places) });
      return element("g", { fill: "none", stroke: shape.color, "stroke-width": shape.width, "stroke-linejoin": "round" }, line, ...rings);
    }
    case "image":
      return element("image", { ...sides(shape.rect), preserveAspectRatio: "none", href: shape.image.toDataURL("image/png") });
    case "within": {
      const { left, top, width, height } = shape.rect;
      const clip = element("clipPath", {}, element("rect", { x: 0, y: 0, width: width / shape.scale, height: height / shape.scale }));
      const place = `translate(${left} ${top}) scale(${shape.scale.toFixed(4)})`;
      return element("g", { transform: place, "clip-path": define(definitions, clip) }, ...shape.shapes.map((inner) => drawn(inner, definitions)));
    }
  }
}

function words({ text, at: [x, y], size, align, color, isUp }: Words): SVGElement {
  const turned: Attributes = isUp ? { transform: `rotate(-90 ${x.toFixed(2)} ${y.toFixed(2)})` } : {};
  return element("text", { x, y, "font-size": size, "text-anchor": ANCHORS[align], fill: color, ...turned }, text);
}
