/** What is looked at and how: all that the address of the page keeps. */

export interface Filter {
  column: string;
  low: number | null;
  high: number | null;
}

export interface Look {
  table: string;
  /** Two or three columns. */
  axes: string[];
  /** Every axis fills the view, instead of all having one scale. */
  stretch: boolean;
  color: string | null;
  map: string;
  log: boolean;
  range: [number, number] | null;
  filters: Filter[];
  where: string;
  /** The column that is played, and what part of it is shown. */
  time: { column: string; low: number; high: number } | null;
  roi: { low: number[]; high: number[] } | null;
  budget: number;
  size: number;
  theme: "dark" | "light" | "auto";
  live: boolean;
  /** Whole trajectories, as lines. */
  trails: boolean;
  /** Where the camera is, what it looks at, and how large a flat view is. */
  camera: number[] | null;
}

export const PLAIN: Look = {
  table: "",
  axes: [],
  stretch: false,
  color: null,
  map: "inferno",
  log: false,
  range: null,
  filters: [],
  where: "",
  time: null,
  roi: null,
  budget: 1_000_000,
  size: 2.2,
  theme: "auto",
  live: true,
  trails: false,
  camera: null,
};

const short = (value: number) => String(value);
const range = (low: number | null, high: number | null) =>
  `${low === null ? "" : short(low)}..${high === null ? "" : short(high)}`;

function ends(text: string): [number | null, number | null] {
  const [low, high] = text.split("..").map((end) => (end ? Number(end) : null));
  return [low ?? null, high ?? null];
}

export function toAddress(look: Look): string {
  const out = new URLSearchParams();
  const put = (key: string, value: string | null | undefined) => value && out.append(key, value);
  put("table", look.table);
  put("axes", look.axes.join(","));
  put("stretch", look.stretch ? "1" : "");
  put("color", look.color);
  if (look.map !== PLAIN.map) put("map", look.map);
  put("log", look.log ? "1" : "");
  if (look.range) put("range", range(...look.range));
  for (const filter of look.filters) put("filter", `${filter.column}=${range(filter.low, filter.high)}`);
  put("where", look.where);
  if (look.time) put("time", `${look.time.column}=${range(look.time.low, look.time.high)}`);
  if (look.roi) put("roi", look.roi.low.map((low, k) => range(low, look.roi!.high[k])).join(","));
  if (look.budget !== PLAIN.budget) put("budget", String(look.budget));
  if (look.size !== PLAIN.size) put("size", String(look.size));
  if (look.theme !== "auto") put("theme", look.theme);
  if (!look.live) put("live", "0");
  put("trails", look.trails ? "1" : "");
  if (look.camera) put("camera", look.camera.map((value) => String(Number(value.toPrecision(5)))).join(","));
  return out.toString();
}

/** What an address says; what it does not say, or says wrongly, stays as it is plainly. */
export function fromAddress(text: string): Look {
  const said = new URLSearchParams(text);
  const look: Look = { ...PLAIN, filters: [] };
  const named = (value: string): [string, number | null, number | null] => {
    const at = value.lastIndexOf("=");
    return [value.slice(0, at), ...ends(value.slice(at + 1))];
  };
  const number = (key: string, low: number, high: number, otherwise: number) => {
    const value = Number(said.get(key) ?? NaN);
    return Number.isFinite(value) ? Math.min(high, Math.max(low, value)) : otherwise;
  };
  look.table = said.get("table") ?? "";
  look.axes = said.get("axes")?.split(",").filter(Boolean).slice(0, 3) ?? [];
  look.stretch = said.get("stretch") === "1";
  look.color = said.get("color");
  look.map = said.get("map") ?? PLAIN.map;
  look.log = said.get("log") === "1";
  const [low, high] = ends(said.get("range") ?? "");
  if (low !== null && high !== null && low < high) look.range = [low, high];
  for (const value of said.getAll("filter")) {
    const [column, from, to] = named(value);
    if (column && !Number.isNaN(from) && !Number.isNaN(to)) look.filters.push({ column, low: from, high: to });
  }
  look.where = said.get("where") ?? "";
  if (said.has("time")) {
    const [column, from, to] = named(said.get("time")!);
    if (column && from !== null && to !== null && from <= to) look.time = { column, low: from, high: to };
  }
  const sides = said.get("roi")?.split(",").map(ends) ?? [];
  if (sides.length === look.axes.length && sides.length > 0) {
    const roi = { low: sides.map((side) => side[0] ?? NaN), high: sides.map((side) => side[1] ?? NaN) };
    if ([...roi.low, ...roi.high].every(Number.isFinite)) look.roi = roi;
  }
  look.budget = number("budget", 10_000, 20_000_000, PLAIN.budget);
  look.size = number("size", 0.5, 12, PLAIN.size);
  const theme = said.get("theme");
  look.theme = theme === "dark" || theme === "light" ? theme : "auto";
  look.live = said.get("live") !== "0";
  look.trails = said.get("trails") === "1";
  const camera = said.get("camera")?.split(",").map(Number) ?? [];
  if (camera.length === 7 && camera.every(Number.isFinite)) look.camera = camera;
  return look;
}
