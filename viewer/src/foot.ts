/** The line below the points: the drawn fraction, and the time slider. */

import type { App } from "./app";
import { brief, counted, grouped, percent } from "./numbers";
import { nearestIndex } from "./player";
import type { State } from "./state";
import { SPEEDS } from "./view";
import { el } from "./widgets";

/** Milliseconds between counts of the points on the screen, which are slow for many points. */
const COUNTED_EVERY = 400;

/** The drawn fraction of the rows in view; shorter on a narrow screen. */
function shareShown({ shown, view, total, profile }: State, points: number): (Node | string)[] {
  if (points === 0 && total !== 0 && !shown.dense) return [shown.busy ? "loading" : "none is on the screen; zoom out or turn the view"];
  if (total === 0) return [profile!.info.rows === 0 ? "the table has no records yet" : "no record matches"];
  const [least, most] = shown.fraction;
  const range = most > 1.02 * least ? `${percent(least)} to ${percent(most)}` : percent(least);
  const wide = (text: string) => el("span", { className: "wide", textContent: text });
  const share = least >= 1 ? ["every record", wide(" in view")] : [range, wide(" of the records in view")];
  const isAll = view.filters.length === 0 && !view.where && !view.time;
  const matching = isAll || total === null ? "" : ` · ${grouped(total)} match`;
  const how = shown.dense ? ", as densities" : view.even ? ", even detail" : shown.weighted ? ", points are weighted" : "";
  // Other samples prefer some rows, so the density of points is not that of the rows.
  const { sampling } = profile!.info;
  const by = least < 1 && sampling && sampling !== "uniform" ? `, sampled ${sampling}` : "";
  return [...share, how, by, matching];
}

export class Foot {
  readonly root = el("footer", { className: "foot" });
  private readonly readout = el("span", { className: "readout", role: "status" });
  private readonly player = el("div", { className: "player" });
  private readonly button = el("button", { ariaLabel: "play", onclick: () => this.app.player.play(!this.app.player.playing) });
  private readonly slider = el("input", { type: "range", ariaLabel: "time", step: "any" });
  private readonly value = el("output", { className: "faint" });
  private readonly speed = el("select", { ariaLabel: "speed", title: "playback speed", onchange: () => this.app.setSpeed(Number(this.speed.value)) });
  private readonly all = el("button", { className: "plain", textContent: "all", title: "all times", onclick: () => {
    this.app.player.play(false);
    this.app.setTime(null);
  } });

  private counted = { at: -Infinity, frames: -1, points: 0 };
  private timer = 0;

  constructor(private readonly app: App) {
    this.slider.addEventListener("input", () => this.app.player.show(Number(this.slider.value)));
    this.all.style.width = "auto";
    for (const speed of SPEEDS) this.speed.append(el("option", { value: String(speed), textContent: `${speed}×` }));
    this.player.append(this.button, this.speed, this.slider, this.value, this.all);
    this.root.append(this.readout, this.player);
  }

  private get seen(): number {
    const { drawing } = this.app;
    if (drawing.frames !== this.counted.frames) {
      const now = performance.now();
      const wait = this.counted.at + COUNTED_EVERY - now;
      if (wait <= 0) this.counted = { at: now, frames: drawing.frames, points: drawing.seen };
      else this.timer ||= window.setTimeout(() => {
        this.timer = 0;
        this.redraw();
      }, wait);
    }
    return this.counted.points;
  }

  redraw(): void {
    const { app } = this;
    if (!app.state.profile) {
      this.readout.textContent = app.state.message ?? "";
      return;
    }
    const { busy } = app.state.shown;
    const dot = el("span", { className: `dot${app.state.message ? " bad" : busy ? " busy" : ""}` });
    this.readout.replaceChildren(dot, el("b", { textContent: counted(this.seen, "point") }), ": ", ...shareShown(app.state, this.seen));
    const { player } = app;
    const { column, steps } = player;
    this.player.style.display = column ? "" : "none";
    if (!column) return;
    this.button.textContent = player.playing ? "❚❚" : "▶";
    this.button.ariaLabel = player.playing ? "pause" : "play";
    const { time, speed } = app.state.view;
    this.speed.value = String(speed);
    const [low, high] = player.ends;
    this.slider.min = String(steps ? 0 : low);
    this.slider.max = String(steps ? steps.length - 1 : high);
    this.slider.step = steps ? "1" : "any";
    if (time) this.slider.value = String(steps ? nearestIndex(steps, time.low) : time.low);
    const unit = app.state.profile.column(column).unit;
    this.value.textContent = !time
      ? `all ${column}`
      : time.low === time.high ? `${brief(time.low)}${unit ? ` ${unit}` : ""}` : `${brief(time.low)} – ${brief(time.high)}`;
    this.all.style.visibility = time ? "" : "hidden";
    this.slider.style.opacity = time ? "1" : "0.45";
  }
}
