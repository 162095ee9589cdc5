/** Renders the picture as a figure of any size: the same points in the figure's colours, as PNG, SVG or PDF. */

import type { Drawing } from "./drawing";
import { FAMILY, Figure, FIGURE_INKS, type Content, type Ends, type FigureSpec } from "./figure";
import type { Inks } from "./inks";
import type { Marking } from "./marking";
import { brief, counted, grouped } from "./numbers";
import { Overlay } from "./overlay";
import { pdfOf } from "./pdf";
import type { Requests } from "./requests";
import type { Scene } from "./scene";
import { paint, type Shape } from "./shapes";
import type { State } from "./state";
import { svgOf } from "./svg";

export interface Subject {
  state: State;
  scene: Scene;
  drawing: Drawing;
  marking: Marking;
  requests: Requests;
}

/** Empty fraction at each end of an axis, as in `kubist plot`. */
const MARGIN = 0.025;

/** The caption: number of points, fraction and filters. */
function captionOf({ view, profile, shown, total }: State, seen: number): string {
  const [least, most] = shown.fraction;
  const fraction = most > 1.02 * least ? `fraction ${brief(least)} to ${brief(most)}, points are weighted` : `fraction ${brief(least)}`;
  const points = least >= 1 ? `all ${counted(seen, "point")}` : `${grouped(seen)}${total === null ? "" : ` of ${grouped(total)}`} points, ${fraction}`;
  const ranges = [...view.filters, ...(view.time ? [view.time] : [])].map(({ column, low, high }) =>
    low === high && low !== null ? `${column} = ${brief(low)}` : low === null ? `${column} ≤ ${brief(high!)}` : high === null ? `${column} ≥ ${brief(low)}` : `${column} from ${brief(low)} to ${brief(high)}`);
  return [points, ...ranges, view.where && `where ${view.where}`, view.even && "even detail", profile?.thinned].filter(Boolean).join(", ");
}

/** The axis ranges of a flat view: its rows, or the screen if the user has moved the camera. */
function endsOf({ scene, requests: { current } }: Subject): Ends | null {
  if (!scene.isFlat) return null;
  if (!scene.isPlaced && current) {
    const { least, most } = current.tree;
    const margin = least.map((end, k) => MARGIN * (most[k] - end) || Math.abs(end) * MARGIN || 1);
    return { low: least.map((end, k) => end - margin[k]), high: most.map((end, k) => end + margin[k]) };
  }
  const [low, high] = [scene.placeAt(0, scene.height), scene.placeAt(scene.width, 0)];
  return { low, high };
}

export function capture(subject: Subject, spec: FigureSpec): Promise<Blob> {
  const { canvas, context } = newCanvas(spec.width, spec.height);
  const { shapes, background, caption } = taken(subject, spec, context);
  if (spec.form !== "png") {
    const { width, height, title } = spec;
    const sheet = { width, height, background, family: FAMILY, title: title || subject.state.view.table, description: caption };
    return spec.form === "pdf" ? pdfOf(sheet, shapes) : Promise.resolve(new Blob([svgOf(sheet, shapes)], { type: "image/svg+xml" }));
  }
  if (background) {
    context.fillStyle = background;
    context.fillRect(0, 0, spec.width, spec.height);
  }
  paint(context, FAMILY, shapes);
  return new Promise((resolve, reject) => canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("the figure is too large for this browser: choose a smaller size"))), "image/png"));
}

function newCanvas(width: number, height: number) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width, height];
  return { canvas, context: canvas.getContext("2d", { willReadFrequently: true })! };
}

interface Taken {
  shapes: Shape[];
  background: string | null;
  caption: string;
}

/** Draws the points in the figure's size, then restores the page. */
function taken(subject: Subject, spec: FigureSpec, measuring: CanvasRenderingContext2D): Taken {
  const { state, scene, drawing } = subject;
  const { view, profile, shown } = state;
  const kept = { mode: view.mode, inks: drawing.inks };
  const inks = spec.style === "as shown" ? { ...drawing.inks, grid: null } : FIGURE_INKS[spec.style];
  const ends = endsOf(subject);
  // A figure keeps the current mode at any size.
  view.mode = shown.dense ? "density" : "points";
  drawing.useInks(inks);
  const columns = view.axes.map((axis) => profile!.column(axis));
  const content: Content = { columns, ends, isEqual: !view.stretch, legend: drawing.legend(), caption: captionOf(state, drawing.seen) };
  const figure = new Figure(spec, content, inks, measuring);
  const { plot, scale } = figure.layout;
  const boxed = scene.box.visible;
  if (ends) scene.box.visible = false;
  try {
    const [picture, over] = scene.inSize(plot.width, plot.height, scale, ends, () => {
      // A density's legend is known once it is drawn in this size; a grid is visible behind the points.
      const drawn = spec.isClear || ends ? clear(subject, inks) : painted(subject);
      if (shown.dense) content.legend = drawing.legend();
      return [drawn, marksOver(subject, inks, spec.isClear ? null : inks.background, measuring)] as const;
    });
    const background = spec.isClear ? null : inks.background;
    return { shapes: figure.finish(picture, over), background, caption: content.caption };
  } finally {
    scene.box.visible = boxed;
    view.mode = kept.mode;
    drawing.useInks(kept.inks);
    drawing.paint();
    state.invalidate();
  }
}

function painted({ scene, drawing }: Subject): HTMLCanvasElement {
  drawing.paint();
  const { canvas, context } = newCanvas(scene.canvas.width, scene.canvas.height);
  context.drawImage(scene.canvas, 0, 0);
  return canvas;
}

function clear(subject: Subject, { ink, accent }: Inks): HTMLCanvasElement {
  const on = (background: string) => {
    subject.scene.setColors(background, ink, accent);
    return painted(subject);
  };
  return withoutGround(on("#000000"), on("#ffffff"));
}

/** Derives a transparent image from the same image on black and on white. */
function withoutGround(onBlack: HTMLCanvasElement, onWhite: HTMLCanvasElement): HTMLCanvasElement {
  const { width, height } = onBlack;
  const [context, other] = [onBlack, onWhite].map((canvas) => canvas.getContext("2d")!);
  const [black, white] = [context, other].map((from) => from.getImageData(0, 0, width, height));
  const { data } = black;
  for (let at = 0; at < data.length; at += 4) {
    let seen = 0;
    for (let k = 0; k < 3; k++) seen += white.data[at + k] - data[at + k];
    const solid = 1 - Math.max(0, seen) / 765;
    for (let k = 0; k < 3; k++) data[at + k] = solid > 0 ? Math.min(255, data[at + k] / solid) : 0;
    data[at + 3] = Math.round(255 * solid);
  }
  context.putImageData(black, 0, 0);
  return onBlack;
}

/** Hand-drawn lines, and the axis labels of a view of three columns. */
function marksOver({ state, scene, marking }: Subject, inks: Inks, ground: string | null, measuring: CanvasRenderingContext2D): Shape[] {
  const columns = scene.isFlat ? [] : state.view.axes.map((axis) => state.profile!.column(axis));
  return new Overlay(measuring, FAMILY).draw({ scene, columns, captions: [], marks: marking.marks(), inks, ground, legend: null, head: 0, foot: 0 });
}
