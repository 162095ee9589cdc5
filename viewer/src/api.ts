/** Requests to the server, see docs/http.md. */

import { FrameReader, type Frame } from "./frames";
import type {
  CountRequest, EstimateRequest, HistogramRequest, PointsRequest, QueryRequest, Range,
} from "./generated/query";
import { host } from "./host";

/** Fields that all requests share. The page gives both bounds of each range. */
export type Region = Omit<CountRequest, "box"> & { box?: Record<string, Range> };

export type RecordFormat = NonNullable<QueryRequest["format"]>;

export interface Column {
  name: string;
  data_type: string;
  kind: "number" | "time" | "boolean" | "text" | "other";
  unit: string | null;
}

export interface Dimension {
  column: string;
  low: number | null;
  high: number | null;
}

export interface TableInfo {
  name: string;
  /** Distinguishes the table from a later one at its location. */
  id: string;
  version: string;
  rows: number;
  columns: Column[];
  dimensions: Dimension[];
  identity: string[];
  lookup: string[];
  /** How rows are sampled: `uniform`, by a weight or by strata. */
  sampling?: string;
  steps: number[];
  /** Subsampled steps: the table contains their rows with priorities below `below`, out of `rows`. */
  thinned_steps?: { step: number; below: number; rows: number }[];
  /** The fraction of all rows that a partial copy holds. */
  held?: number;
  commits: number;
}

/** The layout of a table, which takes the server longer to compute. */
export interface Layout {
  rows: number;
  /** Approximate number of rows outside the newest grid's domain. */
  rows_outside: number;
  /** Rows in older grids that wait for the optimizer. */
  rows_to_move: number;
}

export interface Histogram {
  name: string;
  kind: Column["kind"];
  low?: number;
  high?: number;
  counts?: number[];
  quantiles?: number[];
  least_positive?: number | null;
  distinct?: number[] | null;
  values?: [string, number][];
  missing?: number;
}

export interface Histograms {
  rows: number;
  fraction: number;
  columns: Histogram[];
}

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

async function request(path: string, init: RequestInit): Promise<Response> {
  const response = await host.request(path, init);
  if (response.ok) return response;
  const body = await response.json().catch(() => null);
  throw new ApiError(response.status, body?.error?.code ?? "", body?.error?.message ?? response.statusText);
}

type Asked = CountRequest | EstimateRequest | HistogramRequest | PointsRequest | QueryRequest;

async function post(path: string, body: Asked, signal?: AbortSignal): Promise<Response> {
  const headers = { "content-type": "application/json" };
  return request(path, { method: "POST", headers, body: JSON.stringify(body), signal: signal ?? null });
}

const of = (table: string) => `/v1/tables/${encodeURIComponent(table)}`;

export async function info(table: string): Promise<TableInfo> {
  return (await request(of(table), {})).json();
}

export async function layout(table: string, version: string): Promise<Layout> {
  return (await request(`${of(table)}/info?version=${encodeURIComponent(version)}`, {})).json();
}

/** Waits until the table has another version, or for the server's time limit. */
export async function changes(table: string, version: string, signal: AbortSignal): Promise<TableInfo> {
  return (await request(`${of(table)}/changes?version=${encodeURIComponent(version)}`, { signal })).json();
}

export async function histogram(
  table: string,
  region: Region,
  limit: number,
  columns?: string[],
  signal?: AbortSignal,
): Promise<Histograms> {
  const body: HistogramRequest = { ...region, columns, limit, bins: 80 };
  return (await post(`${of(table)}/histogram`, body, signal)).json();
}

export interface Opened {
  tables: string[];
  info: TableInfo;
  histograms: Histogram[];
}

const FIRST_SAMPLE = 10_000;

/** Opens the table of this name, or the first one. */
export async function open(wanted: string): Promise<Opened> {
  const { tables } = await (await request("/v1/tables", {})).json();
  const names = tables.map((table: { name: string }) => table.name);
  const { name, version } = tables[Math.max(0, names.indexOf(wanted))];
  const [about, found] = await Promise.all([info(name), histogram(name, { version }, FIRST_SAMPLE)]);
  return { tables: names, info: about, histograms: found.columns };
}

export async function count(table: string, region: Region, signal?: AbortSignal): Promise<number> {
  return (await (await post(`${of(table)}/count`, region, signal)).json()).count;
}

export interface Figure {
  aggregate: string;
  value: number | null;
  low: number | null;
  high: number | null;
  exact: boolean;
}

/** Estimates with 95 % intervals, after about half a second or at 1 % error. */
export async function estimate(table: string, region: Region, aggregates: string[], signal: AbortSignal): Promise<Figure[]> {
  const body: EstimateRequest = { ...region, aggregates, error: 0.01, within: 0.5 };
  return (await (await post(`${of(table)}/estimate`, body, signal)).json()).figures;
}

/** Rows of lowest priority as text, after the column names. */
export async function records(
  table: string,
  region: Region,
  limit: number,
  columns?: string[],
  signal?: AbortSignal,
): Promise<string[][]> {
  const body: QueryRequest = { ...region, limit, columns, format: "csv" };
  return rowsOf(await (await post(`${of(table)}/query`, body, signal)).text());
}

/** Parses CSV; quoted values may contain commas, line ends and doubled quotes. */
export function rowsOf(text: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/g)) {
    row.push(quoted !== undefined ? quoted.replaceAll('""', '"') : plain);
    if (end === ",") continue;
    if (row.length > 1 || row[0] !== "") rows.push(row);
    row = [];
  }
  return rows;
}

export function download(
  table: string,
  region: Region,
  columns: string[] | undefined,
  format: RecordFormat,
): string {
  const body: QueryRequest = { ...region, columns, format };
  return `${of(table)}/query?ask=${encodeURIComponent(JSON.stringify(body))}`;
}

/** Streams the frames of cells to `take` as they arrive. */
export async function points(
  table: string,
  query: PointsRequest,
  take: (frame: Frame) => void,
  signal?: AbortSignal,
): Promise<void> {
  const response = await post(`${of(table)}/points`, query, signal);
  const frames = new FrameReader(query.position.length, query.columns?.length ?? 0, take);
  const reader = response.body!.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    frames.push(value);
  }
  frames.end();
}
