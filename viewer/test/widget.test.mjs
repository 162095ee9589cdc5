// Download links in the widget: files from responses, messages from errors. Runs with fakes of the few
// browser objects that it uses.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

/** The widget's module, loaded like in a browser. */
const source = readFileSync(new URL("../../python/kubist/widget.js", import.meta.url), "utf8");
const { default: widget } = await import(`data:text/javascript,${encodeURIComponent(source)}`);

/** A fake element that records its contents. */
function element(name) {
  const listeners = {};
  return {
    name,
    style: {},
    children: [],
    append(child) {
      this.children.push(child);
    },
    addEventListener: (event, listener) => void (listeners[event] = listener),
    fire: (event, ...with_) => listeners[event](...with_),
  };
}

/** A widget on a fake kernel that responds by path, and the actions of its frame. */
async function shown(answers) {
  const saved = [], told = [];
  let take;
  const model = {
    on: (event, listener) => event === "msg:custom" && (take = listener),
    off() {},
    get: () => 300,
    send({ ask, path }) {
      const [status, type, text] = answers[path] ?? [200, "text/plain", ""];
      queueMicrotask(() => take({ id: ask, status, type, end: true }, [new DataView(new TextEncoder().encode(text).buffer)]));
    },
  };
  const inside = { alert: (text) => told.push(text) };
  const made = (name) => Object.assign(element(name), { click() { saved.push(this.download); } });
  const page = Object.assign(element("document"), { defaultView: inside, head: element("head"), body: element("body"), createElement: made });
  globalThis.document = { createElement: (name) => Object.assign(element(name), { contentDocument: page }) };
  const cell = element("cell");
  widget.render({ model, el: cell });
  cell.children[0].fire("load");
  await new Promise((resolve) => setImmediate(resolve));
  /** Clicks a link, and waits until the response was handled. */
  const click = async (href) => {
    const link = { getAttribute: () => href, download: "run.csv" };
    await page.fire("click", { target: { closest: () => link }, preventDefault() {} });
  };
  return { click, saved, told };
}

test("records are saved, and the words of an error are told", async () => {
  const { click, saved, told } = await shown({
    "/v1/tables/t/records": [200, "text/csv", "x\n1\n"],
    "/v1/tables/t/wrong": [400, "application/json", '{"error": {"code": "invalid", "message": "no column `q`"}}'],
    "/v1/tables/t/gone": [502, "text/html", "<html>"],
  });
  await click("/v1/tables/t/records");
  assert.deepEqual([saved, told], [["run.csv"], []]);
  await click("/v1/tables/t/wrong");
  await click("/v1/tables/t/gone");
  assert.deepEqual(saved, ["run.csv"]);
  assert.deepEqual(told, ["Kubist: no column `q`", "Kubist: /v1/tables/t/gone: 502"]);
});
