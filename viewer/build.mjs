// Builds the page into dist/: one script, one style sheet, one HTML file.
import { build } from "esbuild";
import { copyFileSync, mkdirSync, statSync } from "node:fs";

mkdirSync("dist", { recursive: true });
await build({
  entryPoints: { app: "src/main.ts", first: "src/first.ts" },
  outdir: "dist",
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  legalComments: "eof",
  loader: { ".glsl": "text" },
});
copyFileSync("src/index.html", "dist/index.html");
for (const file of ["app.js", "first.js", "app.css", "index.html"]) {
  console.log(`${file}: ${(statSync(`dist/${file}`).size / 1024).toFixed(0)} KiB`);
}
