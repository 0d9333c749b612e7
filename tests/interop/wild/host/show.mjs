// Shows an app in a real Chromium, presses a button of it, and writes what was seen as one JSON object.
//
//     node show.mjs URL TOOL ARGUMENTS_AS_JSON [SCREENSHOT]
//
// The page is served on the port in DRAGOMAN_HOST_PORT, so that the server can allow its origin.

import { createServer } from 'node:http';
import chromium from '@sparticuz/chromium';
import { build } from 'esbuild';
import { chromium as playwright } from 'playwright-core';

const [url, tool, args, screenshot] = process.argv.slice(2);
const MILLISECONDS = 30_000;

const bundled = await build({
    entryPoints: [new URL('page.mjs', import.meta.url).pathname],
    bundle: true,
    format: 'esm',
    platform: 'browser',
    write: false,
});
const page = '<!doctype html><meta charset="utf-8"><title>Host</title><script type="module" src="/page.js"></script>';
const files = {
    '/': ['text/html', page],
    '/page.js': ['text/javascript', bundled.outputFiles[0].text],
};
const host = createServer((request, response) => {
    const [type, text] = files[request.url] ?? [];
    response.writeHead(type === undefined ? 404 : 200, { 'content-type': type ?? 'text/plain' });
    response.end(text);
});
await new Promise((resolve) => host.listen(Number(process.env.DRAGOMAN_HOST_PORT), '127.0.0.1', resolve));

const browser = await playwright.launch({
    executablePath: await chromium.executablePath(),
    args: chromium.args,
    headless: true,
});
const complaints = [];
try {
    const tab = await browser.newPage();
    tab.setDefaultTimeout(MILLISECONDS);
    tab.on('pageerror', (error) => complaints.push(String(error)));
    await tab.goto(`http://127.0.0.1:${host.address().port}/`);
    await tab.waitForFunction(() => window.showApp !== undefined);
    const seen = await tab.evaluate(([...given]) => window.showApp(...given), [url, tool, JSON.parse(args)]);
    const frame = tab.frameLocator('iframe');
    const city = frame.locator('#city');
    const time = frame.locator('#time');
    await frame.locator('#refresh:enabled').waitFor();
    const before = await time.textContent();
    let after = before;
    const ends = Date.now() + MILLISECONDS;
    while (after === before && Date.now() < ends) {
        await frame.locator('#refresh').click(); // calls a tool of the server, through the bridge
        await tab.waitForTimeout(100);
        after = await time.textContent();
    }
    if (screenshot) await tab.screenshot({ path: screenshot });
    const problem = await frame.locator('#problem').textContent();
    const size = await tab.evaluate(() => window.size);
    console.log(JSON.stringify({ ...seen, city: await city.textContent(), before, after, problem, size, complaints }));
} finally {
    await browser.close();
    host.close();
}
