/** The kinds of a second view, and how an address says one. */

/** How the records are shown: how many have which value, two columns, or the mean of one along another. */
export const KINDS = ["histogram", "scatter", "series"] as const;
export type Kind = (typeof KINDS)[number];

export interface Second {
  kind: Kind;
  /** One column of a histogram; across and up of the others. */
  axes: string[];
  /** Whether numbers of records are shown by their logarithm. */
  log: boolean;
}

/** How many columns a kind has. */
export const columnsOf = (kind: Kind) => (kind === "histogram" ? 1 : 2);

export const secondToText = ({ kind, axes, log }: Second) => [log ? `log-${kind}` : kind, ...axes].join(",");

/** What an address says; null if that is none. */
export function secondFromText(text: string): Second | null {
  const [name, ...axes] = text.split(",");
  const log = name.startsWith("log-");
  const kind = KINDS.find((kind) => kind === name.replace("log-", ""));
  return kind && axes.length === columnsOf(kind) && axes.every(Boolean) ? { kind, axes, log: log && kind === "histogram" } : null;
}
