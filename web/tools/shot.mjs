// Takes pictures of the page, for people who work on its looks: node tools/shot.mjs ADDRESS FOLDER
import { chromium } from "playwright-core";

const [address = "http://127.0.0.1:8000/", folder = "../out/shots"] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
const shots = [["light", "light", 1440, 1000], ["dark", "dark", 1440, 1000], ["narrow", "light", 360, 800], ["wide", "light", 3840, 2160]];
for (const [name, colorScheme, width, height] of shots) {
  const page = await browser.newPage({ viewport: { width, height }, colorScheme });
  page.on("console", (message) => console.log(name, message.text()));
  page.on("pageerror", (error) => console.log(name, error.message));
  await page.goto(address);
  await page.waitForSelector(".figures", { timeout: 60_000 });
  await page.waitForSelector(".progress", { state: "detached", timeout: 60_000 });
  await page.screenshot({ path: `${folder}/play-${name}.png`, fullPage: name !== "wide" });
  await page.click("nav button:nth-child(2)");
  await page.waitForSelector(".replay canvas", { timeout: 3_000 }).catch(() => console.log("no replay"));
  await page.waitForTimeout(800);
  await page.click("text=Next timeout", { timeout: 3_000 }).catch(() => {});
  await page.waitForTimeout(800);
  await page.screenshot({ path: `${folder}/replay-${name}.png`, fullPage: name !== "wide" });
  await page.close();
}
await browser.close();
