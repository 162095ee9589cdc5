// Screenshots of the page and of Potree for scripts/beside.py: node scripts/beside.mjs FILE. The file is
// JSON: {tables, jobs}, with jobs {url, size, file, ready, look}. A url that begins with # is a view of the
// page. `look` runs once `ready` is true.

import { readFileSync } from "node:fs";
import { launch, serve } from "../viewer/test/browser.mjs";

const { tables, jobs } = JSON.parse(readFileSync(process.argv[2], "utf8"));
const server = await serve(tables);
const browser = await launch();
try {
  for (const { url, size: [width, height], file, look, ready } of jobs) {
    const page = await browser.newPage({ viewport: { width, height } });
    page.on("pageerror", (error) => console.error(`${url}: ${error}`));
    await page.goto(url.startsWith("#") ? server.url + url : url);
    await page.waitForFunction(ready, null, { timeout: 120_000 });
    if (look) await page.evaluate(look);
    // Two equal screenshots show that everything is loaded and drawn.
    for (let before = ""; ; ) {
      const seen = (await page.screenshot({ timeout: 120_000 })).toString("base64");
      if (seen === before) break;
      before = seen;
      await page.waitForTimeout(1500);
    }
    await page.screenshot({ path: file, timeout: 120_000 });
    await page.close();
  }
} finally {
  await browser.close();
  await server.stop();
}
