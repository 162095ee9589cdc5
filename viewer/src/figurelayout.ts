/**
 * Layout of a figure, as in crates/bindings/kubist-plot/src/layout.rs. Lengths are for 1200 x 900 pixels and grow with
 * the figure.
 */

const [WIDTH, HEIGHT] = [1200, 900];
const [LEAST_SCALE, MOST_SCALE] = [0.65, 8];

export const TEXT = { mark: 16, label: 18, caption: 15, title: 25 };

export interface Rect {
  left: number;
  top: number;
  width: number;
  height: number;
}

export interface Layout {
  scale: number;
  plot: Rect;
  /** Distance from the plot's left side to the label of the y axis. */
  labelDistance: number;
}

export const scaleOf = (width: number, height: number) =>
  Math.min(MOST_SCALE, Math.max(LEAST_SCALE, Math.sqrt((width * height) / (WIDTH * HEIGHT))));

/** Number of marks that fit along an axis. */
export const fitting = (length: number, spacing: number, scale: number) => Math.min(12, Math.max(2, Math.floor(length / (spacing * scale))));

export interface Room {
  width: number;
  height: number;
  hasTitle: boolean;
  /** Width of the widest y axis label in pixels; null without axes. */
  marks: number | null;
  /** Width of the widest legend text in pixels; null without a legend. */
  colors: number | null;
  /** Height divided by width of the data range, if both axes have one scale. */
  ratio: number | null;
}

export function layoutOf({ width, height, hasTitle, marks, colors, ratio }: Room): Layout {
  const scale = scaleOf(width, height);
  const top = (hasTitle ? 92 : 58) * scale;
  const bottom = (marks === null ? 24 : 76) * scale;
  const labelDistance = (marks ?? 0) + 22 * scale;
  const left = marks === null ? 24 * scale : labelDistance + 40 * scale;
  const right = colors === null ? 40 * scale : colors + 92 * scale;
  let [wide, tall] = [Math.max(16, width - left - right), Math.max(16, height - top - bottom)];
  if (ratio !== null) {
    wide = Math.min(wide, tall / ratio);
    tall = Math.min(tall, wide * ratio);
  }
  const [beside, below] = [(width - left - wide - right) / 2, (height - top - tall - bottom) / 2];
  const plot = {
    left: Math.round(left + Math.max(0, beside)),
    top: Math.round(top + Math.max(0, below)),
    width: Math.max(16, Math.round(wide)),
    height: Math.max(16, Math.round(tall)),
  };
  return { scale, plot, labelDistance };
}
