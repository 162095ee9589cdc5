/** The kinds of the second view, and their URL parameter. */

/** Distribution of one column, scatter plot of two, or mean of one along another. */
export const KINDS = ["histogram", "scatter", "series"] as const;
export type Kind = (typeof KINDS)[number];

export interface Second {
  kind: Kind;
  /** One column for a histogram; horizontal and vertical columns for the others. */
  axes: string[];
  log: boolean;
}

export const columnsOf = (kind: Kind) => (kind === "histogram" ? 1 : 2);

export const secondToText = ({ kind, axes, log }: Second) => [log ? `log-${kind}` : kind, ...axes].join(",");

/** Parses the URL parameter; null if it is invalid. */
export function secondFromText(text: string): Second | null {
  const [name, ...axes] = text.split(",");
  const log = name.startsWith("log-");
  const kind = KINDS.find((kind) => kind === name.replace("log-", ""));
  return kind && axes.length === columnsOf(kind) && axes.every(Boolean) ? { kind, axes, log: log && kind === "histogram" } : null;
}
