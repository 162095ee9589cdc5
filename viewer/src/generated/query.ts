/**
 * What can be asked over HTTP.
 *
 * `make generate` writes this file from crates/core/kubist-types/src/query.rs and
 * crates/bindings/kubist-server/src/openapi.json: changes belong there.
 */

/** An end of a range that JSON has no word for: an object with one of these keys. */
export interface OtherEnd {
  /** Bytes. */
  binary?: number[];
  /** inf or -inf. */
  float?: string;
  /** An integer of more than 64 bits, in decimal digits. */
  int?: string;
  /** An end that is null itself: no value is inside such a range. */
  null?: Record<string, never>;
}

/**
 * An end of a range: a number, text (ISO 8601 against dates and times, digits against decimals, a number with a
 * unit against a column that has one) or a boolean, compared in the column's own type. null is open.
 */
export type End = number | string | boolean | null | OtherEnd;

/** A closed range [low, high]. NaN and null are in no range that has an end. */
export type Range = [End, End];

/** The records of lowest priority in every cell of a regular grid. */
export interface PerCell {
  /** At most this many records of a cell; 1 or more. */
  rows: number;
  /**
   * Dimension to the width of a cell, above 0: a number in the column's unit, or text with a unit, as `1 mm`. Cells
   * begin at the lower end of the dimension's domain, never at the box.
   */
  widths: Record<string, number | string>;
}

/** Which records of a snapshot are asked for; by default all of them. */
export interface QuerySpec {
  /**
   * Closed ranges, joined by AND, on any columns: column to `[low, high]`, `null` is an open end; a single value is
   * both ends. A column that is bounded more than once has a list of such pairs.
   */
  box?: Record<string, Range | End | Range[]>;
  /** The columns to return, in this order; without it all. */
  columns?: string[];
  /**
   * The name of one more column: the probability with which each record came into the answer, whatever the others
   * drew. It is null where a limit kept only some of several records of one priority: these have no part in an
   * estimate.
   */
  inclusion?: string;
  /**
   * At most this many records. With `order_by` they are the first in that order, the largest or the earliest.
   * Without it they are those of lowest priority, a uniform sample. It comes last: `sample`, `window` and `per_cell`
   * choose before it.
   */
  limit?: number;
  /**
   * The order of the answer: columns, each with `asc` (the default) or `desc` behind it, or `priority`. NaN comes
   * behind all numbers and null behind NaN, whichever the direction. Equal records follow each other by priority.
   * Without it records come in no order, but under `limit` and `per_cell` by priority, and trajectories one after
   * the other, each in order of time.
   */
  order_by?: string[];
  /** Only the records of lowest priority in each cell of a regular grid. It applies before `order_by` and `limit`. */
  per_cell?: PerCell;
  /** In (0, 1]: only records whose priority is below it, a uniform sample of that fraction. */
  sample?: number;
  /** The form in which this is written; 1 by default. */
  spec?: 1;
  /** Only records of complete steps in this closed range; `null` is an open end. */
  steps?: [number | null, number | null];
  /** An SQL condition over any columns. */
  where?: string;
  /** Only records with `low <= priority < high`, where `0 <= low < high <= 1`. */
  window?: [number, number];
}

/** A question for the number of records. */
export interface CountRequest {
  /**
   * Closed ranges, joined by AND, on any columns: column to `[low, high]`, `null` is an open end; a single value is
   * both ends. A column that is bounded more than once has a list of such pairs.
   */
  box?: Record<string, Range | End | Range[]>;
  /** In (0, 1]: only records whose priority is below it, a uniform sample of that fraction. */
  sample?: number;
  /** The form in which this is written; 1 by default. */
  spec?: 1;
  /** Only records of complete steps in this closed range; `null` is an open end. */
  steps?: [number | null, number | null];
  /**
   * The snapshot to ask: the token that the table's `version` or a snapshot's `token` gave; without it, the newest.
   * It can be asked until the files of that snapshot are cleaned away.
   */
  version?: string;
  /** An SQL condition over any columns. */
  where?: string;
  /** Only records with `low <= priority < high`, where `0 <= low < high <= 1`. */
  window?: [number, number];
}

/** A question for aggregates of a sample, with intervals. */
export interface EstimateRequest extends CountRequest {
  /**
   * Stop when half of each interval is at most this: a number in the unit of the value, or text with a unit of its
   * kind, as 0.1 mm.
   */
  absolute?: number | string;
  /** As mean(ux), p95(diameter), histogram(x, 20): docs/estimates.md. */
  aggregates: string[];
  /** How often intervals hold the truth; 0.95 by default. (above 0, below 1) */
  confidence?: number;
  /** Stop when half of each interval is at most this share of its value. (above 0) */
  error?: number;
  /** JSON by default; or an Arrow IPC stream, a row a figure. */
  format?: "json" | "arrow";
  /** Columns and expressions by whose values records are grouped. */
  group_by?: string[];
  /** Read about this many bytes at most. (at least 1) */
  max_bytes?: number;
  /** Read about this many records at most. (at least 1) */
  max_rows?: number;
  /**
   * All estimates as they narrow, each as soon as it is there: one JSON text a line, or one Arrow stream after the
   * other.
   */
  progressive?: boolean;
  /** This share of the records at either end of the values is read whatever its priority. (above 0, at most 0.1) */
  tails?: number;
  /** Seconds to answer in. (at least 0) */
  within?: number;
}

/** A question for how columns are distributed. */
export interface HistogramRequest extends CountRequest {
  /** 64 by default. (at least 1, at most 4096) */
  bins?: number;
  /** All that can be drawn by default. (at most 256) */
  columns?: string[];
  /** How many records are counted, those of lowest priority; 20000 by default. (at least 1, at most 1000000) */
  limit?: number;
}

/**
 * A cell of space and a window of the priorities: the records with low <= position < high and window[0] <=
 * priority < window[1].
 */
export interface PointsCell {
  /** position < high; null is open. */
  high: (number | null)[];
  /** low <= position; null is open. */
  low: (number | null)[];
  /** Taken off each position before it becomes a float32. */
  origin: number[];
  /** Ends of the priorities: [low, high). */
  window: [number, number];
}

/** A column that comes with each point, as float32. */
export interface PointsColumn {
  /** The column's name. */
  name: string;
  /** Taken off each value before it becomes a float32. */
  origin?: number;
  /** A value is sent as its index in this list, compared as text, and all others as -1. (at most 256) */
  values?: string[];
}

/** A question for points, for a graphics card. */
export interface PointsRequest extends CountRequest {
  /** The cells, in the order in which they are answered. (at most 512) */
  cells: PointsCell[];
  /** What comes with each point beside its position. (at most 64) */
  columns?: PointsColumn[];
  /** The columns that position a point. (at most 3) */
  position: string[];
}

/** A question for records. */
export interface QueryRequest extends QuerySpec {
  /** An Arrow IPC stream by default. */
  format?: "arrow" | "csv" | "parquet";
  /**
   * The snapshot to ask: the token that the table's `version` or a snapshot's `token` gave; without it, the newest.
   * It can be asked until the files of that snapshot are cleaned away.
   */
  version?: string;
  /** The columns to return, in this order; without it all. (at most 4096) */
  columns?: string[];
  /**
   * At most this many records. With `order_by` they are the first in that order, the largest or the earliest.
   * Without it they are those of lowest priority, a uniform sample. It comes last: `sample`, `window` and `per_cell`
   * choose before it. (at most 5000000)
   */
  limit?: number;
  /**
   * Only the records of lowest priority in each cell of a regular grid, at most a million in all. It applies before
   * `order_by` and `limit`.
   */
  per_cell?: PerCell;
}

/** A question for all records of what has a record in a region. */
export interface TrajectoriesRequest extends CountRequest {
  /** The column that tells trajectories apart; at most a million of them. */
  by: string;
  /** The columns to return, in this order; without it all. (at most 4096) */
  columns?: string[];
  /** An Arrow IPC stream by default. */
  format?: "arrow" | "csv" | "parquet";
  /**
   * At most this many records. With `order_by` they are the first in that order, the largest or the earliest.
   * Without it they are those of lowest priority, a uniform sample. It comes last: `sample`, `window` and `per_cell`
   * choose before it. (at most 5000000)
   */
  limit?: number;
  /**
   * The order of the answer: columns, each with `asc` (the default) or `desc` behind it, or `priority`. NaN comes
   * behind all numbers and null behind NaN, whichever the direction. Equal records follow each other by priority.
   * Without it records come in no order, but under `limit` and `per_cell` by priority, and trajectories one after
   * the other, each in order of time.
   */
  order_by?: string[];
  /** Of the records that come back, only those whose priority is below it. */
  sample?: number;
}
