/** The meaning of colours in a density picture. */

/** Rows per area; mean or maximum of a number column; mixture of category colours, or the most frequent one. */
export const SHADES = ["records", "mean", "maximum", "mixture", "dominant"] as const;
export type Shade = (typeof SHADES)[number];

/** The possible meanings for a column. */
export const shadesOf = (isCategories: boolean): Shade[] => (isCategories ? ["mixture", "dominant"] : ["mean", "maximum"]);

/** The meaning for a column, or without one, if this one is wanted. */
export function shadeOf(wanted: Shade, color: string | null, isCategories: boolean): Shade {
  if (wanted === "records" || color === null) return "records";
  const possible = shadesOf(isCategories);
  return possible.includes(wanted) ? wanted : possible[0];
}
