// Check ten pages of the built site with axe-core, on a desktop, on a phone and in dark mode: `make docs-check`.
// Needs Node.js, Chromium, and the npm packages axe-core and puppeteer-core in build/node.
import { createRequire } from "node:module";
import { mkdirSync, readFileSync } from "node:fs";
import { resolve } from "node:path";

const require = createRequire(resolve("build/node/package.json"));
const puppeteer = require("puppeteer-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const PAGES = ["index", "tutorial", "which", "concepts", "paper", "comparing", "http-api", "api/driftsurf.DriftSurfClassifier", "gallery/index", "gallery/02_my_csv"];
const SCREENS = [["desktop", 1280, 900, "light"], ["phone", 390, 844, "light"], ["dark", 1280, 900, "dark"]];
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--allow-file-access-from-files"],
});
mkdirSync("build/screenshots", { recursive: true });
let faults = 0;
for (const [screen, width, height, scheme] of SCREENS) {
  const page = await browser.newPage();
  await page.setViewport({ width, height });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  page.on("request", (request) => {
    if (!/^(file|data|about|blob):/.test(request.url())) { faults += 1; console.error(`${page.url()} asks for ${request.url()}`); }
  });
  for (const name of PAGES) {
    await page.goto(`file://${resolve("build/site", name)}.html`);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    if (wide > 0) { faults += 1; console.error(`${screen} ${name}: ${wide} pixels too wide`); }
    await page.screenshot({ path: `build/screenshots/${screen}-${name.replaceAll("/", "-")}.png` });
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => globalThis.axe.run({ iframes: false }));
    for (const one of violations.filter((found) => ["serious", "critical"].includes(found.impact))) {
      faults += one.nodes.length;
      const shown = one.nodes.slice(0, 3).map((node) => `${node.target} ${node.any[0]?.message ?? ""}`);
      console.error(`${screen} ${name}: ${one.id} (${one.impact}), ${one.nodes.length} places\n  ${shown.join("\n  ")}`);
    }
  }
  await page.close();
}
await browser.close();
console.log(`${PAGES.length} pages on ${SCREENS.length} screens: ${faults} serious faults`);
process.exitCode = faults ? 1 : 0;
