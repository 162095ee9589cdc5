/** The page: its elements and the keyboard. */

import "./app.css";
import type { Layout } from "./api";
import { App } from "./app";
import { Foot } from "./foot";
import { counted, signed } from "./numbers";
import { Panel } from "./panel";
import { SecondView } from "./secondview";
import { el } from "./widgets";

const KEYS: [string, string][] = [
  ["drag, wheel", "rotate or move, zoom"],
  ["right drag", "move"],
  ["click", "show the record under the pointer"],
  ["Esc", "hide the record"],
  ["H", "show everything"],
  ["X, Y, Z", "look along an axis; again: from the other side"],
  ["O", "perspective on or off"],
  ["B", "box of interest"],
  ["shift drag", "draw a lasso around records (two axes)"],
  ["M", "measure a distance: click on both ends"],
  ["C", "show only the inside of box and lasso"],
  ["K", "save this view"],
  ["1 … 9", "show a saved view"],
  ["space", "play or pause"],
  ["← →", "previous or next time step"],
  ["A", "all times"],
  ["S", "picture"],
  ["P", "panel"],
  ["D", "dark or light theme"],
  ["V", "second view of the selection"],
  ["T", "trails"],
  ["L", "follow commits"],
  ["?", "show these keys"],
];

const stage = el(
  "main",
  { className: "stage" },
  el("canvas", { tabIndex: 0, ariaLabel: "points" }),
  el("canvas", { className: "marks" }),
  el("div", { className: "layer" }),
);
const title = el("b");
const rows = el("span");
const note = el("div", { className: "note", role: "alert" });
const card = el("div", { className: "card", hidden: true });
const toggle = el("button", { className: "toggle", ariaLabel: "panel", textContent: "☰", onclick: () => showPanel() });
const help = el(
  "dialog",
  { onclick: () => help.close() },
  el("table", {}, ...KEYS.map(([key, what]) => el("tr", {}, el("td", {}, el("kbd", { textContent: key })), el("td", { textContent: what })))),
);
document.body.append(stage);

const hideCard = () => void (card.hidden = true);
const app = new App(stage, { redraw, rebuild: () => panel.rebuild(), otherPoints: hideCard });
const panel = new Panel(app);
const foot = new Foot(app);
const second = new SecondView(app);
stage.append(el("div", { className: "head" }, title, rows), note, card, foot.root);
document.body.append(second.root, panel.root, toggle, help);

new ResizeObserver(() => {
  app.drawing.foot = foot.root.offsetHeight + 14;
  app.drawing.invalidate();
}).observe(foot.root);
if (matchMedia("(max-width: 700px)").matches) document.body.classList.add("wide");

/** Notes about the layout if it slows down a large part of the rows. */
function remarks({ rows, rows_outside, rows_to_move }: Layout): string[] {
  const share = (some: number) => `${Math.round((100 * some) / rows)} %`;
  const outside = rows_outside > 0.05 * rows ? [`${share(rows_outside)} outside of the domain`] : [];
  return rows_to_move > 0 ? [...outside, `${share(rows_to_move)} wait to move to a grid that fits`] : outside;
}

let told = "";

/** Shows as many notes as fit, at least the first one; the tooltip shows all. */
function head(parts: string[]): void {
  const line = rows.parentElement!;
  const all = parts.join(", ");
  if (told === `${all} ${line.clientWidth}`) return;
  told = `${all} ${line.clientWidth}`;
  rows.title = all;
  for (let count = parts.length; count > 0; count--) {
    rows.textContent = parts.slice(0, count).join(", ");
    if (line.scrollWidth <= line.clientWidth) return;
  }
}

let waiting = false;

/** Runs at most every 60 ms, so that frames are not delayed. */
function redraw(): void {
  if (waiting) return;
  waiting = true;
  setTimeout(() => {
    waiting = false;
    const { profile, layout, message, added, lastAdded } = app.state;
    if (profile) {
      const { name, rows: all } = profile.info;
      title.textContent = name;
      head([counted(all, "record"), ...(added ? [`${signed(added)} since it was opened`, `${signed(lastAdded)} at last`] : []), ...(layout ? remarks(layout) : [])]);
      document.title = `${name} · Kubist`;
    }
    note.textContent = message ?? "";
    panel.redraw();
    foot.redraw();
    second.redraw();
  }, 60);
}

function showPanel(): void {
  document.body.classList.toggle("wide");
}

function nextTheme(): void {
  app.setTheme(document.documentElement.dataset.theme === "light" ? "dark" : "light");
}

const ACTIONS: Record<string, () => void> = {
  h: () => app.home(),
  x: () => app.lookAlongNamed("x"),
  y: () => app.lookAlongNamed("y"),
  z: () => app.lookAlongNamed("z"),
  o: () => app.scene.setParallel(!app.scene.isParallel),
  b: () => app.selecting.toggleRoi(),
  k: () => app.keeping.keepView(),
  m: () => app.setMeasuring(!app.marking.isMeasuring),
  c: () => app.selecting.setClip(!app.state.view.clip),
  " ": () => app.player.play(!app.player.playing),
  ArrowLeft: () => app.player.step(-1),
  ArrowRight: () => app.player.step(1),
  a: () => app.setTime(null),
  s: () => void app.savePicture(),
  p: showPanel,
  d: nextTheme,
  v: () => app.toggleSecond(),
  t: () => {
    if (app.trails.possible) app.setTrails(!app.state.view.trails);
  },
  l: () => {
    app.setLive(!app.state.view.live);
    panel.rebuild();
  },
  "?": () => help.showModal(),
  Escape: () => {
    hideCard();
    if (app.marking.isMeasuring) app.setMeasuring(false);
  },
};

addEventListener("keydown", (event) => {
  const target = event.target as HTMLElement;
  if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, select, dialog")) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const act = /^[1-9]$/.test(key) ? () => app.showView(Number(key) - 1) : ACTIONS[key];
  if (!act || !app.state.profile || (event.key === " " && target.closest("button, a"))) return;
  event.preventDefault();
  act();
});

/* A click without a drag shows the row under the pointer. */
let down: [number, number] | null = null;
const points = stage.querySelector("canvas")!;
points.addEventListener("pointerdown", (event) => {
  down = [event.clientX, event.clientY];
  hideCard();
});
points.addEventListener("pointerup", (event) => {
  if (!down || event.button !== 0 || Math.hypot(event.clientX - down[0], event.clientY - down[1]) > 3) return;
  if (app.marking.isMeasuring) {
    app.marking.measureTo(event);
    return;
  }
  const around = points.getBoundingClientRect();
  const [x, y] = [event.clientX - around.left, event.clientY - around.top];
  app.requests.record(x, y).then((record) => {
    if (!record) return;
    const line = (name: string, k: number) =>
      el("tr", {}, el("td", { textContent: name }), el("td", { textContent: record.values[k] ?? "" }));
    card.replaceChildren(el("table", {}, ...record.names.map(line)));
    card.hidden = false;
    card.style.left = `${Math.min(x + 14, around.width - card.offsetWidth - 10)}px`;
    card.style.top = `${Math.min(y + 14, around.height - card.offsetHeight - 50)}px`;
  }, () => {});
});

(window as unknown as { kubist: App }).kubist = app;
void app.start();
