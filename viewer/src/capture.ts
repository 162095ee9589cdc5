/** Takes a figure of what is on the screen, at any size: the same points, in the figure's colours. */

import type { Drawing } from "./drawing";
import { Figure, FIGURE_INKS, withoutGround, type Content, type Ends, type FigureSpec } from "./figure";
import type { Inks } from "./inks";
import type { Marking } from "./marking";
import { brief, grouped } from "./numbers";
import { Overlay } from "./overlay";
import type { Requests } from "./requests";
import type { Scene } from "./scene";
import type { State } from "./state";

/** What the figure is taken of. */
export interface Subject {
  state: State;
  scene: Scene;
  drawing: Drawing;
  marking: Marking;
  requests: Requests;
}

/** Records keep this share of an axis from its ends, as in `kubist plot`. */
const MARGIN = 0.025;

/** What must be known of the records that are drawn. */
export function captionOf({ view, profile, shown, total }: State): string {
  const [least, most] = shown.precision;
  const precision = most > 1.02 * least ? `precision ${brief(least)} to ${brief(most)}, points are weighted` : `precision ${brief(least)}`;
  const points = least >= 1 ? `all ${grouped(shown.rows)} points` : `${grouped(shown.rows)}${total === null ? "" : ` of ${grouped(total)}`} points, ${precision}`;
  const ranges = [...view.filters, ...(view.time ? [view.time] : [])].map(({ column, low, high }) =>
    low === high && low !== null ? `${column} = ${brief(low)}` : low === null ? `${column} ≤ ${brief(high!)}` : high === null ? `${column} ≥ ${brief(low)}` : `${column} from ${brief(low)} to ${brief(high)}`);
  return [points, ...ranges, view.where && `where ${view.where}`, view.even && "even detail", profile?.thinned].filter(Boolean).join(", ");
}

/** The ends of a flat view: those of its records, or of what is on the screen if somebody has moved the camera. */
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

export function capture(subject: Subject, spec: FigureSpec): HTMLCanvasElement {
  const { state, scene, drawing } = subject;
  const { view, profile, shown } = state;
  const kept = { mode: view.mode, inks: drawing.inks };
  const inks = spec.style === "as shown" ? { ...drawing.inks, grid: "transparent" } : FIGURE_INKS[spec.style];
  const ends = endsOf(subject);
  // What is shown as points stays points, however large the figure is.
  view.mode = shown.dense ? "density" : "points";
  drawing.useInks(inks);
  const columns = view.axes.map((axis) => profile!.column(axis));
  const content: Content = { columns, ends, isEqual: !view.stretch, legend: drawing.legend(), caption: captionOf(state) };
  const figure = new Figure(spec, content, inks);
  const { plot, scale } = figure.layout;
  const boxed = scene.box.visible;
  if (ends) scene.box.visible = false;
  let picture: HTMLCanvasElement;
  try {
    picture = scene.inSize(plot.width, plot.height, scale, ends, () => {
      // What a shade of a density means is known once it is drawn in this size. A grid is seen behind the points.
      const drawn = spec.isClear || ends ? clear(subject, inks) : painted(subject);
      if (shown.dense) content.legend = drawing.legend();
      drawMarks(subject, drawn, inks, scale);
      return drawn;
    });
  } finally {
    scene.box.visible = boxed;
    view.mode = kept.mode;
    drawing.useInks(kept.inks);
    drawing.paint();
    state.invalidate();
  }
  return figure.finish(picture);
}

function painted({ scene, drawing }: Subject): HTMLCanvasElement {
  drawing.paint();
  const copy = document.createElement("canvas");
  [copy.width, copy.height] = [scene.canvas.width, scene.canvas.height];
  copy.getContext("2d", { willReadFrequently: true })!.drawImage(scene.canvas, 0, 0);
  return copy;
}

function clear(subject: Subject, { ink, accent }: Inks): HTMLCanvasElement {
  const on = (background: string) => {
    subject.scene.setColors(background, ink, accent);
    return painted(subject);
  };
  return withoutGround(on("#000000"), on("#ffffff"));
}

/** Lines that were drawn by hand, and what stands beside the axes of a view of three columns. */
function drawMarks({ state, scene, marking }: Subject, onto: HTMLCanvasElement, inks: Inks, ratio: number): void {
  const canvas = document.createElement("canvas");
  const columns = scene.isFlat ? [] : state.view.axes.map((axis) => state.profile!.column(axis));
  new Overlay(canvas).draw({ scene, columns, captions: [], marks: marking.marks(), inks, legend: null, head: 0, foot: 0, ratio });
  onto.getContext("2d")!.drawImage(canvas, 0, 0, onto.width, onto.height);
}
