/** The Python that asks for what is on the screen. */

import type { Region } from "./api";

const said = (value: unknown): string => {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  return typeof value === "number" ? String(Number(value.toPrecision(9))) : JSON.stringify(value);
};

export function pythonLines(table: string, region: Region, precision: number): string {
  const box = Object.entries(region.box ?? {}).map(
    ([column, [low, high]]) => `${JSON.stringify(column)}: (${said(low)}, ${said(high)})`,
  );
  const parts = [
    box.length > 0 ? `box={${box.join(", ")}}` : "",
    region.where ? `where=${JSON.stringify(region.where)}` : "",
    precision < 1 ? `precision=${precision}` : "",
  ].filter(Boolean);
  return `t = kubist.connect("${location.origin}", ${JSON.stringify(table)})\nt.query(${parts.join(", ")})`;
}
