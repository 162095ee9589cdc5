/**
 * Queries of a table and requests of the HTTP interface.
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

/** The records of lowest priority in each cell of a regular grid. */
export interface PerCell {
  /** The maximum number of records of a cell, 1 or more. */
  rows: number;
  /**
   * The width of a cell by dimension, above 0: a number in the column's unit, or text with a unit, such as `1 mm`.
   * Cells start at the lower bound of the dimension's domain and do not depend on the box.
   */
  widths: Record<string, number | string>;
}

/**
 * A region of space or of the sky, as docs/regions.md describes it: an object with one key, the kind. Lengths are
 * numbers in the unit of their column, or text with a unit, such as `1 mm`. Angles are in degrees.
 */
export interface Region {
  /** The latitudes from `low` to `high` relative to a `pole`; `columns`. */
  band?: Record<string, number | string | null | (number | string | number[][])[] | Record<string, number | string | number[]>>;
  /** Closed ranges by column, all of which hold. */
  box?: Record<string, [number | string | boolean | null, number | string | boolean | null]>;
  /** The positions outside. */
  complement?: Region;
  /** The positions on the sky within `radius` of `center`; `columns` are ra and dec by default. */
  cone?: Record<string, number | string | null | (number | string | number[][])[] | Record<string, number | string | number[]>>;
  /** Around the axis `from` one point `to` another, with a `radius`. */
  cylinder?: Record<string, number | string | null | (number | string | number[][])[] | Record<string, number | string | number[]>>;
  /** The positions in the first region and in no other. */
  difference?: Region[];
  /** `center` and `radii` by column. */
  ellipsoid?: Record<string, number | string | null | (number | string | number[][])[] | Record<string, number | string | number[]>>;
  /** A cylinder whose radius changes: `radius_from`, `radius_to`. */
  frustum?: Record<string, number | string | null | (number | string | number[][])[] | Record<string, number | string | number[]>>;
  /** The side of the plane through `point` that `normal` points to. */
  half_space?: Record<string, number | string | null | (number | string | number[][])[] | Record<string, number | string | number[]>>;
  /** The positions in all of the regions. */
  intersection?: Region[];
  /** HEALPix `cells` in nested order: text such as 5/8-10,42, or lists by order; `columns`. */
  moc?: Record<string, number | string | null | (number | string | number[][])[] | Record<string, number | string | number[]>>;
  /** A `region` of boxes, spheres and ellipsoids, in space that repeats after the `period` of a column. */
  periodic?: Record<string, Region | Record<string, number>>;
  /** Two `columns`, and `coordinates`: the border, then holes, as in GeoJSON. */
  polygon?: Record<string, number | string | null | (number | string | number[][])[] | Record<string, number | string | number[]>>;
  /** `coordinates` of corners on the sky, which great circles join; `columns`. */
  sky_polygon?: Record<string, number | string | null | (number | string | number[][])[] | Record<string, number | string | number[]>>;
  /** `low` <= `normal` . point <= `high`; one of both may be missing. */
  slab?: Record<string, number | string | null | (number | string | number[][])[] | Record<string, number | string | number[]>>;
  /** The points within `radius` of `center`, in any number of columns. */
  sphere?: Record<string, number | string | null | (number | string | number[][])[] | Record<string, number | string | number[]>>;
  /** The positions in one of the regions. */
  union?: Region[];
  /** An SQL condition. */
  where?: string;
}

/** The records of a snapshot to return; by default all. */
export interface QuerySpec {
  /**
   * Closed ranges on any columns, joined by AND. Each column has a pair `[low, high]`, where `null` is an open
   * bound, a single value, or a list of pairs.
   */
  box?: Record<string, Range | End | Range[]>;
  /**
   * The columns and expressions to return, in this order; without it all columns. `AS` names an expression, as in
   * `sqrt(vx*vx + vy*vy) AS speed`; without a name it has its own text. `*` stands for all columns.
   */
  columns?: string[];
  /**
   * The name of an additional column with the probability that each record is selected, independently of all others.
   * It is null if a limit kept only some of the records that share a priority; estimates leave these out.
   */
  inclusion?: string;
  /**
   * The maximum number of records, applied after `sample`, `window` and `per_cell`. With `order_by` it keeps the
   * first records in that order. Without it, it keeps the records of lowest priority, which are a uniform sample.
   */
  limit?: number;
  /**
   * The order of the result: columns, each optionally followed by `asc` (the default) or `desc`, or `priority`. NaN
   * comes after all numbers and null after NaN, in both directions. Priority orders equal records. Without an order,
   * results of `limit` and `per_cell` are ordered by priority, trajectories by time, and other records not at all.
   */
  order_by?: string[];
  /** Only the records of lowest priority in each cell of a regular grid. It applies before `order_by` and `limit`. */
  per_cell?: PerCell;
  /** A region of space or of the sky, as docs/regions.md describes it. Rows outside of it are not returned. */
  region?: Region;
  /** A fraction in (0, 1]: only records with a priority below it, which are a uniform sample. */
  sample?: number;
  /** The version of this form; 1 by default. */
  spec?: 1;
  /** A closed range of steps, where `null` is an open bound. Only records of complete steps are returned. */
  steps?: [number | null, number | null];
  /** An SQL condition over any columns. */
  where?: string;
  /** Only records with `low <= priority < high`, where `0 <= low < high <= 1`. */
  window?: [number, number];
}

/** Body of a count. */
export interface CountRequest {
  /**
   * Closed ranges on any columns, joined by AND. Each column has a pair `[low, high]`, where `null` is an open
   * bound, a single value, or a list of pairs.
   */
  box?: Record<string, Range | End | Range[]>;
  /** A region of space or of the sky, as docs/regions.md describes it. Rows outside of it are not returned. */
  region?: Region;
  /** A fraction in (0, 1]: only records with a priority below it, which are a uniform sample. */
  sample?: number;
  /** The version of this form; 1 by default. */
  spec?: 1;
  /** A closed range of steps, where `null` is an open bound. Only records of complete steps are returned. */
  steps?: [number | null, number | null];
  /**
   * The snapshot to query: the `version` of a table or the `token` of a snapshot; by default the newest. It stays
   * readable until `clean` deletes its files.
   */
  version?: string;
  /** An SQL condition over any columns. */
  where?: string;
  /** Only records with `low <= priority < high`, where `0 <= low < high <= 1`. */
  window?: [number, number];
}

/** Body of an estimate. */
export interface EstimateRequest extends CountRequest {
  /**
   * Stop when half of each interval is at most this: a number in the unit of the value, or text with a compatible
   * unit, like 0.1 mm.
   */
  absolute?: number | string;
  /** For example mean(ux), p95(diameter), histogram(x, 20), see docs/estimates.md. */
  aggregates: string[];
  /** The fraction of intervals that contain the value of all rows; 0.95 by default. (above 0, below 1) */
  confidence?: number;
  /** Stop when half of each interval is at most this fraction of its value. (above 0) */
  error?: number;
  /** JSON by default, or an Arrow IPC stream with one row for each estimate. */
  format?: "json" | "arrow";
  /** Columns and expressions to group by. */
  group_by?: string[];
  /** Read at most about this many bytes. (at least 1) */
  max_bytes?: number;
  /** Read at most about this many rows. (at least 1) */
  max_rows?: number;
  /** Return each estimate as it improves: one line of JSON, or one Arrow stream, for each. */
  progressive?: boolean;
  /**
   * The fraction of the rows at each end of the values that is read completely, for heavy tails. (above 0, at most
   * 0.1)
   */
  tails?: number;
  /** Time limit in seconds. (at least 0) */
  within?: number;
}

/** Body of a request for histograms. */
export interface HistogramRequest extends CountRequest {
  /** Number of bins; 64 by default. (at least 1, at most 4096) */
  bins?: number;
  /** The columns; by default all that can be drawn. (at most 256) */
  columns?: string[];
  /** Number of rows to count, those of lowest priority; 20000 by default. (at least 1, at most 1000000) */
  limit?: number;
}

/**
 * A cell of space and a window of priorities: the rows with low <= position < high and window[0] <= priority <
 * window[1].
 */
export interface PointsCell {
  /** position < high; null is unbounded. */
  high: (number | null)[];
  /** low <= position; null is unbounded. */
  low: (number | null)[];
  /** Subtracted from each position before the conversion to float32. */
  origin: number[];
  /** The range of priorities: [low, high). */
  window: [number, number];
}

/** A column returned with each point, as float32. */
export interface PointsColumn {
  /** The name of the column. */
  name: string;
  /** Subtracted from each value before the conversion to float32. */
  origin?: number;
  /** Send each value as its index in this list, compared as text, and all other values as -1. (at most 256) */
  values?: string[];
}

/** Body of a request for points. */
export interface PointsRequest extends CountRequest {
  /** The cells, in the order of the response. (at most 512) */
  cells: PointsCell[];
  /** The columns returned with each point, in addition to its position. (at most 64) */
  columns?: PointsColumn[];
  /** The columns of the position, one for each axis. (at most 3) */
  position: string[];
}

/** Body of a query for rows. */
export interface QueryRequest extends QuerySpec {
  /** The format; by default an Arrow IPC stream. */
  format?: "arrow" | "csv" | "parquet";
  /**
   * The snapshot to query: the `version` of a table or the `token` of a snapshot; by default the newest. It stays
   * readable until `clean` deletes its files.
   */
  version?: string;
  /**
   * The columns and expressions to return, in this order; without it all columns. `AS` names an expression, as in
   * `sqrt(vx*vx + vy*vy) AS speed`; without a name it has its own text. `*` stands for all columns. (at most 4096)
   */
  columns?: string[];
  /**
   * The maximum number of records, applied after `sample`, `window` and `per_cell`. With `order_by` it keeps the
   * first records in that order. Without it, it keeps the records of lowest priority, which are a uniform sample.
   * (at most 5000000)
   */
  limit?: number;
  /**
   * Only the rows of lowest priority in each cell of a regular grid, at most a million in total. It applies before
   * `order_by` and `limit`.
   */
  per_cell?: PerCell;
}

/** Body of a request for trajectories. */
export interface TrajectoriesRequest extends CountRequest {
  /** The column that identifies a trajectory. A query returns at most a million trajectories. */
  by: string;
  /**
   * The columns and expressions to return, in this order; without it all columns. `AS` names an expression, as in
   * `sqrt(vx*vx + vy*vy) AS speed`; without a name it has its own text. `*` stands for all columns. (at most 4096)
   */
  columns?: string[];
  /** The format; by default an Arrow IPC stream. */
  format?: "arrow" | "csv" | "parquet";
  /**
   * The maximum number of records, applied after `sample`, `window` and `per_cell`. With `order_by` it keeps the
   * first records in that order. Without it, it keeps the records of lowest priority, which are a uniform sample.
   * (at most 5000000)
   */
  limit?: number;
  /**
   * The order of the result: columns, each optionally followed by `asc` (the default) or `desc`, or `priority`. NaN
   * comes after all numbers and null after NaN, in both directions. Priority orders equal records. Without an order,
   * results of `limit` and `per_cell` are ordered by priority, trajectories by time, and other records not at all.
   */
  order_by?: string[];
  /** Return only rows whose priority is below this fraction. It does not change which trajectories are returned. */
  sample?: number;
}
