/** A polygon around rows of a flat view, as a condition on its two columns. */

/** Most corners of a lasso, because the condition grows with them. */
const MOST = 48;

/** Evenly chosen corners, so that the condition stays short. */
export function thinned(places: number[][]): number[][] {
  const every = Math.max(1, Math.ceil(places.length / MOST));
  return places.filter((_, k) => k % every === 0);
}

/** The edges that are not horizontal, from lower to upper end, with dx/dy. */
function edges(lasso: number[][]): { from: number[]; to: number[]; slope: number }[] {
  return lasso.flatMap((a, k) => {
    const b = lasso[(k + 1) % lasso.length];
    const [from, to] = a[1] < b[1] ? [a, b] : [b, a];
    return from[1] === to[1] ? [] : [{ from, to, slope: (to[0] - from[0]) / (to[1] - from[1]) }];
  });
}

/** Even-odd rule: a point is inside if a horizontal ray crosses an odd number of edges. */
export function isInside(lasso: number[][], [x, y]: number[]): boolean {
  return edges(lasso).filter(({ from, to, slope }) => y >= from[1] && y < to[1] && x < from[0] + (y - from[1]) * slope).length % 2 === 1;
}

/** The lasso as a condition on two columns. */
export function conditionOf(lasso: number[][], axes: string[]): string {
  const [x, y] = axes.map((name) => `"${name.replaceAll('"', '""')}"`);
  const crossed = edges(lasso).map(
    ({ from, to, slope }) =>
      `CASE WHEN ${y} >= ${from[1]} AND ${y} < ${to[1]} AND ${x} < ${from[0]} + (${y} - (${from[1]})) * (${slope}) THEN 1 ELSE 0 END`,
  );
  return `(${crossed.join(" + ")}) % 2 = 1`;
}

/** Its bounding box. */
export function around(lasso: number[][]): { low: number[]; high: number[] } {
  const along = (k: number) => lasso.map((place) => place[k]);
  return { low: [0, 1].map((k) => Math.min(...along(k))), high: [0, 1].map((k) => Math.max(...along(k))) };
}
