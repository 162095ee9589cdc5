/** What the colours of a picture of densities mean. */

/** Records per area; of a column of numbers the mean or the maximum; of categories the mixture of their colours, or the most frequent one. */
export const SHADES = ["records", "mean", "maximum", "mixture", "dominant"] as const;
export type Shade = (typeof SHADES)[number];

/** What the colours can mean of a column. */
export const shadesOf = (isCategories: boolean): Shade[] => (isCategories ? ["mixture", "dominant"] : ["mean", "maximum"]);

/** What they mean if this is wanted of a column, or of none. */
export function shadeOf(wanted: Shade, color: string | null, isCategories: boolean): Shade {
  if (wanted === "records" || color === null) return "records";
  const possible = shadesOf(isCategories);
  return possible.includes(wanted) ? wanted : possible[0];
}
