/** The view: everything that the page's URL stores. */

import { secondFromText, secondToText, type Second } from "./kinds";
import { SHADES, type Shade } from "./shades";
import { TONES, type Tone } from "./tones";

export const MODES = ["auto", "points", "density"] as const;
export type Mode = (typeof MODES)[number];

/** Point sizes: in pixels, in units of the axes, or relative to the distance of neighbours. */
export const SIZES = ["pixels", "units", "spacing"] as const;
export type SizeIn = (typeof SIZES)[number];

export const SPEEDS = [0.25, 0.5, 1, 2, 4];

export const SHORTEST_TAIL = 0.02;

export interface Filter {
  column: string;
  low: number | null;
  high: number | null;
}

export interface ViewSpec {
  table: string;
  /** Two or three columns. */
  axes: string[];
  /** Whether each axis fills the view instead of sharing one scale; null chooses automatically. */
  stretch: boolean | null;
  color: string | null;
  map: string;
  log: boolean;
  range: [number, number] | null;
  filters: Filter[];
  where: string;
  /** The time column and its displayed range. */
  time: { column: string; low: number; high: number } | null;
  roi: { low: number[]; high: number[] } | null;
  /** Corners of a lasso in a flat view. */
  lasso: number[][] | null;
  /** The ends of a distance: one or two positions. */
  measure: number[][] | null;
  clip: boolean;
  limit: number;
  /** Whether equal areas get equally many points. */
  even: boolean;
  /** In pixels, or relative to the distance of neighbours; 2.2 is the default. */
  size: number;
  sizeIn: SizeIn;
  sizeBy: string | null;
  /** The diameter in units of the axes, or the factor of the column's values; null chooses automatically. */
  width: number | null;
  /** How much distant points fade. */
  fog: number;
  /** Whether depth shading is on; null: only with a graphics card. */
  shaded: boolean | null;
  mode: Mode;
  tone: Tone;
  shade: Shade;
  second: Second | null;
  theme: "dark" | "light" | "auto";
  live: boolean;
  trails: boolean;
  /** Duration of trails at one time, as a fraction of all times; 1 for whole trails. */
  tail: number;
  speed: number;
  /** Saved views: their URL parameters. */
  kept: string[];
  /** The range of the axes that the camera position refers to; null for the range of all rows. */
  frame: { low: number[]; high: number[] } | null;
  /** Whether three columns are shown without perspective. */
  parallel: boolean;
  /** Position and target of the camera, and the size of a flat view. */
  camera: number[] | null;
}

/** Most saved views, because browsers and mail programs cut long URLs. */
export const MOST_KEPT = 9;

export const PLAIN: ViewSpec = {
  table: "",
  axes: [],
  stretch: null,
  color: null,
  map: "inferno",
  log: false,
  range: null,
  filters: [],
  where: "",
  time: null,
  roi: null,
  lasso: null,
  measure: null,
  clip: false,
  limit: 1_000_000,
  even: false,
  size: 2.2,
  sizeIn: "pixels",
  sizeBy: null,
  width: null,
  fog: 0.35,
  shaded: null,
  mode: "auto",
  tone: "equalised",
  shade: "records",
  second: null,
  theme: "auto",
  live: true,
  trails: false,
  tail: 0.2,
  speed: 1,
  kept: [],
  frame: null,
  parallel: false,
  camera: null,
};

const short = (value: number) => String(value);
const range = (low: number | null, high: number | null) =>
  `${low === null ? "" : short(low)}..${high === null ? "" : short(high)}`;

function pair(text: string): [number | null, number | null] {
  const [low, high] = text.split("..").map((end) => (end ? Number(end) : null));
  return [low ?? null, high ?? null];
}

export function toAddress(view: ViewSpec): string {
  const out = new URLSearchParams();
  const put = (key: string, value: string | null | undefined) => value && out.append(key, value);
  put("table", view.table);
  put("axes", view.axes.join(","));
  if (view.stretch !== null) put("stretch", view.stretch ? "1" : "0");
  put("color", view.color);
  if (view.map !== PLAIN.map) put("map", view.map);
  put("log", view.log ? "1" : "");
  if (view.range) put("range", range(...view.range));
  for (const filter of view.filters) put("box", `${filter.column}=${range(filter.low, filter.high)}`);
  put("where", view.where);
  if (view.time) put("time", `${view.time.column}=${range(view.time.low, view.time.high)}`);
  const sides = ({ low, high }: { low: number[]; high: number[] }) => low.map((end, k) => range(end, high[k])).join(",");
  if (view.roi) put("roi", sides(view.roi));
  const places = (of: number[][] | null) => of?.map((place) => place.join(",")).join(";");
  put("lasso", places(view.lasso));
  put("measure", places(view.measure));
  put("clip", view.clip ? "1" : "");
  if (view.limit !== PLAIN.limit) put("limit", String(view.limit));
  put("even", view.even ? "1" : "");
  if (view.size !== PLAIN.size) put("size", String(view.size));
  if (view.sizeIn !== PLAIN.sizeIn) put("sizein", view.sizeIn);
  put("sizeby", view.sizeBy);
  if (view.width !== null) put("width", String(view.width));
  if (view.fog !== PLAIN.fog) put("fog", String(view.fog));
  if (view.shaded !== null) put("shaded", view.shaded ? "1" : "0");
  if (view.mode !== PLAIN.mode) put("mode", view.mode);
  if (view.tone !== PLAIN.tone) put("tone", view.tone);
  if (view.shade !== PLAIN.shade) put("shade", view.shade);
  if (view.second) put("second", secondToText(view.second));
  if (view.theme !== "auto") put("theme", view.theme);
  if (!view.live) put("live", "0");
  put("trails", view.trails ? "1" : "");
  if (view.tail !== PLAIN.tail) put("tail", String(view.tail));
  if (view.speed !== PLAIN.speed) put("speed", String(view.speed));
  if (view.camera && view.frame) put("frame", sides(view.frame));
  put("parallel", view.camera && view.parallel ? "1" : "");
  if (view.camera) put("camera", view.camera.map((value) => String(Number(value.toPrecision(5)))).join(","));
  for (const kept of view.kept) put("kept", kept);
  return out.toString();
}

/** The view of a URL. A missing or invalid parameter keeps its default. */
export function fromAddress(text: string): ViewSpec {
  const parameters = new URLSearchParams(text);
  const view: ViewSpec = { ...PLAIN, filters: [], kept: parameters.getAll("kept").slice(0, MOST_KEPT) };
  const named = (value: string): [string, number | null, number | null] => {
    const at = value.lastIndexOf("=");
    return [value.slice(0, at), ...pair(value.slice(at + 1))];
  };
  const number = (key: string, low: number, high: number, otherwise: number) => {
    const value = Number(parameters.get(key) ?? NaN);
    return Number.isFinite(value) ? Math.min(high, Math.max(low, value)) : otherwise;
  };
  view.table = parameters.get("table") ?? "";
  view.axes = parameters.get("axes")?.split(",").filter(Boolean).slice(0, 3) ?? [];
  const stretch = parameters.get("stretch");
  view.stretch = stretch === "1" ? true : stretch === "0" ? false : null;
  view.color = parameters.get("color");
  view.map = parameters.get("map") ?? PLAIN.map;
  view.log = parameters.get("log") === "1";
  const [low, high] = pair(parameters.get("range") ?? "");
  if (low !== null && high !== null && low < high) view.range = [low, high];
  for (const value of parameters.getAll("box")) {
    const [column, from, to] = named(value);
    if (column && !Number.isNaN(from) && !Number.isNaN(to)) view.filters.push({ column, low: from, high: to });
  }
  view.where = parameters.get("where") ?? "";
  if (parameters.has("time")) {
    const [column, from, to] = named(parameters.get("time")!);
    if (column && from !== null && to !== null && from <= to) view.time = { column, low: from, high: to };
  }
  const sides = (key: string) => {
    const ends = parameters.get(key)?.split(",").map(pair) ?? [];
    const [low, high] = [ends.map((side) => side[0] ?? NaN), ends.map((side) => side[1] ?? NaN)];
    return ends.length === view.axes.length && [...low, ...high].every(Number.isFinite) ? { low, high } : null;
  };
  view.roi = sides("roi");
  const places = (key: string, least: number, most: number) => {
    const found = parameters.get(key)?.split(";").map((place) => place.split(",").map(Number)) ?? [];
    const isRight = found.every((place) => place.length === view.axes.length && place.every(Number.isFinite));
    return isRight && found.length >= least && found.length <= most ? found : null;
  };
  view.lasso = view.axes.length === 2 ? places("lasso", 3, 100) : null;
  view.measure = places("measure", 1, 2);
  view.clip = (view.roi !== null || view.lasso !== null) && parameters.get("clip") === "1";
  view.limit = number("limit", 10_000, 20_000_000, PLAIN.limit);
  view.even = parameters.get("even") === "1";
  view.size = number("size", 0.5, 12, PLAIN.size);
  view.sizeIn = SIZES.find((kind) => kind === parameters.get("sizein")) ?? PLAIN.sizeIn;
  view.sizeBy = parameters.get("sizeby");
  if (parameters.has("width")) view.width = number("width", 1e-300, 1e300, NaN) || null;
  view.fog = number("fog", 0, 1, PLAIN.fog);
  const shaded = parameters.get("shaded");
  view.shaded = shaded === "1" ? true : shaded === "0" ? false : null;
  view.mode = MODES.find((mode) => mode === parameters.get("mode")) ?? PLAIN.mode;
  view.tone = TONES.find((tone) => tone === parameters.get("tone")) ?? PLAIN.tone;
  view.shade = SHADES.find((shade) => shade === parameters.get("shade")) ?? PLAIN.shade;
  view.second = secondFromText(parameters.get("second") ?? "");
  const theme = parameters.get("theme");
  view.theme = theme === "dark" || theme === "light" ? theme : "auto";
  view.live = parameters.get("live") !== "0";
  view.trails = parameters.get("trails") === "1";
  view.tail = number("tail", SHORTEST_TAIL, 1, PLAIN.tail);
  view.speed = SPEEDS.find((speed) => speed === Number(parameters.get("speed"))) ?? PLAIN.speed;
  const camera = parameters.get("camera")?.split(",").map(Number) ?? [];
  if (camera.length === 7 && camera.every(Number.isFinite)) view.camera = camera;
  view.parallel = view.camera !== null && view.axes.length === 3 && parameters.get("parallel") === "1";
  view.frame = view.camera && sides("frame");
  if (view.frame?.low.some((low, k) => low >= view.frame!.high[k])) view.frame = null;
  return view;
}
