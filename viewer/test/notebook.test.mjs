// The widget in JupyterLab in a real browser: `make test-widget`. PYTHON is an interpreter with
// kubist[widget] and jupyterlab. With PAGE=folder the page comes from that folder.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { found, launch, root, serve } from "./browser.mjs";
import { compare } from "./compare.mjs";
import { LONGEST, newPage, run } from "./visit.mjs";

const steps = join(root, "examples/airway/steps");
const python = process.env.PYTHON;
const skip = !found ? "no Chromium here" : !python && "say PYTHON=a Python with kubist[widget] and jupyterlab";

const SELECTED = `
import json
print(json.dumps([w.region, w.filter, sorted(w.result(columns=["pid"]).to_numpy()["pid"].tolist())]))
`;

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((done) => server.once("listening", done));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}

/** Repeats `look` until it returns a value. */
async function until(what, look) {
  for (const begin = Date.now(); ; ) {
    const seen = await look();
    if (seen) return seen;
    if (Date.now() - begin > LONGEST) assert.fail(`still waiting for ${what}`);
    await new Promise((done) => setTimeout(done, 100));
  }
}

const cell = (source) => ({ cell_type: "code", execution_count: null, id: Math.random().toString(36).slice(2), metadata: {}, outputs: [], source });

describe("the widget in JupyterLab", { skip }, () => {
  let directory, table, server, lab, address, browser;

  before(async () => {
    directory = mkdtempSync(join(tmpdir(), "kubist-notebook-"));
    table = join(directory, "airway.kubist");
    const files = readdirSync(steps).sort().map((name) => join(steps, name));
    run("ingest", table, ...files, "--dimensions", "x=0:0.22,y=-0.21:0.21,z=0:0.02,time=0:1", "--identity", "pid,time");
    let opened = `kubist.open(${JSON.stringify(table)})`;
    if (process.env.PAGE) {
      server = await serve([table]);
      opened = `kubist.connect(${JSON.stringify(server.url)})`;
    }
    const cells = [`import kubist\nw = ${opened}.widget(height=600)\nw`, SELECTED].map(cell);
    const metadata = { kernelspec: { name: "python3", display_name: "Python 3", language: "python" } };
    writeFileSync(join(directory, "look.ipynb"), JSON.stringify({ cells, metadata, nbformat: 4, nbformat_minor: 5 }));
    // Disables JupyterLab's question about news, which covers a part of the page.
    const settings = join(directory, "settings");
    mkdirSync(join(settings, "@jupyterlab/apputils-extension"), { recursive: true });
    writeFileSync(join(settings, "@jupyterlab/apputils-extension/notification.jupyterlab-settings"), '{"fetchNews": "false"}');
    const port = await freePort();
    address = `http://127.0.0.1:${port}`;
    const options = ["--no-browser", "--allow-root", `--port=${port}`, "--ServerApp.port_retries=0", "--IdentityProvider.token=", `--ServerApp.root_dir=${directory}`];
    const environment = { ...process.env, JUPYTER_CONFIG_DIR: join(directory, "config"), JUPYTER_RUNTIME_DIR: join(directory, "runtime"), JUPYTERLAB_SETTINGS_DIR: settings };
    lab = spawn(python, ["-m", "jupyterlab", ...options], { stdio: "ignore", env: environment });
    await until("JupyterLab", () => fetch(`${address}/api/status`).then((answer) => answer.ok, () => false));
    browser = await launch();
  });

  after(async () => {
    await browser?.close();
    await server?.stop();
    if (lab) await new Promise((done) => (lab.once("exit", done), lab.kill("SIGTERM")));
    rmSync(directory, { recursive: true, force: true });
  });

  /** The output of the command, through a file, because it may exceed the buffer of a pipe. */
  function records(...asked) {
    const file = join(directory, `${Math.random()}.csv`);
    run("query", table, "-o", file, ...asked);
    return readFileSync(file, "utf8").trim().split("\n").slice(1).map((line) => line.split(",").map(Number));
  }

  test("shows the table's records, and is read back", async (t) => {
    const page = await newPage(browser, { viewport: { width: 1400, height: 940 } });
    const elsewhere = [];
    page.on("request", (request) => {
      const { protocol, origin } = new URL(request.url());
      if (protocol.startsWith("http") && origin !== address) elsewhere.push(request.url());
    });
    await page.goto(`${address}/lab/tree/look.ipynb?reset`);
    const first = page.locator(".jp-Notebook .jp-CodeCell").first();
    await first.locator(".jp-InputArea-editor").click({ timeout: LONGEST });
    await page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").waitFor({ timeout: LONGEST });
    await page.keyboard.press("Shift+Enter");
    const element = await page.locator("iframe[title=Kubist]").elementHandle({ timeout: LONGEST });
    const inside = await element.contentFrame();
    const status = (what) => until(`the page: ${what}`, () => inside.evaluate((code) => {
      const status = window.kubist?.status();
      return status && !status.busy && !status.message && status.total !== null && new Function("status", `return ${code}`)(status) && status;
    }, what).catch(() => false));

    const { total } = await status("status.rows > 0");
    assert.equal(total, Number(run("info", table, "--json").match(/"rows":\s*(\d+)/)[1]));
    await inside.evaluate(() => {
      const app = window.kubist;
      app.state.view.mode = "points";
      app.state.view.limit = 2_000_000;
      app.setTheme("dark");
      app.selecting.setWhere("pid < 4000");
    });
    const { fraction } = await status("status.view.where === 'pid < 4000' && status.version && status.rows > 3000");
    const expected = records("--columns", "x,y,z", "--where", "pid < 4000", "--sample", String(fraction[0]));
    const seen = await compare(inside, expected);
    t.diagnostic(JSON.stringify({ ...seen, fraction }));
    assert(seen.inside > 3000);
    assert(seen.drawn >= 0.995 * seen.inside, "a record is not on the screen");
    assert(fraction[0] < 1 || seen.stray === 0, "something is drawn where no record is");

    const box = { low: [0.02, -0.1, 0.002], high: [0.1, 0.1, 0.015] };
    await inside.evaluate((box) => window.kubist.selecting.setRoi(box), box);
    const { inRoi } = await status("status.inRoi !== null");
    // docs/gallery shows it.
    if (process.env.PICTURE) await page.screenshot({ path: process.env.PICTURE });
    await inside.waitForFunction(() => window.kubistHost.address().includes("roi="));
    await page.locator(".jp-Notebook .jp-CodeCell").nth(1).locator(".jp-InputArea-editor").click();
    await page.keyboard.press("Shift+Enter");
    const printed = page.locator(".jp-Notebook .jp-CodeCell").nth(1).locator(".jp-OutputArea-output pre");
    const text = await until("what is printed", async () => ((await printed.count()) ? (await printed.allInnerTexts()).join("") : ""));
    assert(text.startsWith("["), text);
    const [region, filter, pids] = JSON.parse(text);
    const axes = ["x", "y", "z"];
    assert.deepEqual(region, Object.fromEntries(axes.map((axis, k) => [axis, [box.low[k], box.high[k]]])));
    assert.equal(filter, "pid < 4000");
    assert(inRoi > 100);
    assert.equal(pids.length, inRoi);
    const ranges = axes.map((axis, k) => `${axis}=${box.low[k]}:${box.high[k]}`).join(",");
    const oracle = records("--columns", "pid", "--where", "pid < 4000", "--box", ranges).map(([pid]) => pid).sort((a, b) => a - b);
    assert.deepEqual(pids, oracle);
    assert.deepEqual(elsewhere, [], "the browser was to reach the notebook's server alone");
    await page.close();
  });
});
