/** The colours of the current theme, from src/app.css. */

export interface Inks {
  ink: string;
  faint: string;
  background: string;
  accent: string;
}

export function inksOfTheme(): Inks {
  const style = getComputedStyle(document.documentElement);
  const color = (name: string) => style.getPropertyValue(name).trim();
  return { ink: color("--ink"), faint: color("--faint"), background: color("--night"), accent: color("--accent") };
}
