/** Python code for the query on the screen, or for the trajectories through it. */

import type { Region } from "./api";
import { host } from "./host";

const literal = (value: unknown): string => {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  return typeof value === "number" ? String(Number(value.toPrecision(9))) : JSON.stringify(value);
};

export function pythonLines(table: string, region: Region, fraction: number, path: string | null): string {
  const box = Object.entries(region.box ?? {}).map(
    ([column, [low, high]]) => `${JSON.stringify(column)}: (${literal(low)}, ${literal(high)})`,
  );
  const parts = [
    box.length > 0 ? `box={${box.join(", ")}}` : "",
    region.where ? `where=${JSON.stringify(region.where)}` : "",
    path === null ? "" : `by=${JSON.stringify(path)}`,
    fraction < 1 ? `sample=${fraction}` : "",
  ].filter(Boolean);
  const method = path === null ? "query" : "trajectories";
  return `t = ${host.python(table)}\nt.${method}(${parts.join(", ")})`;
}
