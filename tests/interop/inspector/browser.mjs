// Drives a real Chromium for the tests. It reads one command a line, as JSON, and answers each with one line:
//
//     {"tab": "a", "call": "click", "given": ["role=button[name=\"Call\"]"]}  ->  {"value": null} or {"error": "..."}
//
// `call` is a method of a Playwright page, or one of those below. Tabs are made when they are first named.

import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const need = createRequire(new URL('../wild/host/package.json', import.meta.url));
const { chromium: playwright } = need('playwright-core');
const { default: chromium } = await import(need.resolve('@sparticuz/chromium'));
const axe = need.resolve('axe-core/axe.min.js');
const MILLISECONDS = 15_000;

// In one process, closing a tab would end the browser.
const args = chromium.args.filter((one) => one !== '--single-process');
const browser = await playwright.launch({ executablePath: await chromium.executablePath(), args, headless: true });
const tabs = new Map();

async function tabNamed(name) {
    if (!tabs.has(name)) {
        const context = await browser.newContext({
            viewport: { width: 1440, height: 900 },
            bypassCSP: false,
            acceptDownloads: true,
        });
        await context.grantPermissions(['clipboard-read', 'clipboard-write']);
        const page = await context.newPage();
        page.setDefaultTimeout(MILLISECONDS);
        const tab = { page, complaints: [], requested: new Set(), saved: [] };
        page.on('pageerror', (error) => tab.complaints.push(String(error.stack ?? error)));
        page.on('console', (message) => message.type() === 'error' && tab.complaints.push(message.text()));
        page.on('request', (request) => tab.requested.add(new URL(request.url()).origin));
        page.on('download', (download) => tab.saved.push(download));
        page.on('dialog', (dialog) => {
            tab.complaints.push(`dialog ${dialog.message()}`);
            dialog.dismiss();
        });
        tabs.set(name, tab);
    }
    return tabs.get(name);
}

const OWN = {
    complaints: ({ complaints }) => complaints.splice(0),
    origins({ requested }) {
        const found = [...requested].filter((origin) => origin !== 'null');
        requested.clear();
        return found;
    },
    async saved({ saved, page }) {
        if (!saved.length) await page.waitForEvent('download');
        const download = saved.shift();
        return [download.suggestedFilename(), await download.path()];
    },
    async axe({ page }) {
        // The policy of the page refuses a script of ours; a world of its own is not bound by it.
        const source = (await import('node:fs')).readFileSync(axe, 'utf8');
        await page.evaluate(source);
        return page.evaluate(async () => {
            const { violations } = await window.axe.run(document, { resultTypes: ['violations'] });
            return violations.map(({ id, impact, nodes }) => ({
                id,
                impact,
                nodes: nodes.map(({ target, failureSummary }) => `${target} ${failureSummary}`),
            }));
        });
    },
    async popup({ page }) {
        return page.context().pages().at(-1).url();
    },
    async close({ page }) {
        await page.context().close();
    },
};

for await (const line of createInterface({ input: process.stdin })) {
    const { tab: name, call, given } = JSON.parse(line);
    // Playwright calls functions, and only evaluates texts.
    if (/^(async )?\([^)]*\) =>/.test(given[0])) given[0] = new Function(`return (${given[0]})`)();
    let answer;
    try {
        const tab = await tabNamed(name);
        const value = OWN[call]
            ? await OWN[call](tab)
            : call.startsWith('keyboard.')
              ? await tab.page.keyboard[call.slice(9)](...given)
              : await tab.page[call](...given);
        answer = {
            value:
                ['string', 'number', 'boolean'].includes(typeof value) ||
                Array.isArray(value) ||
                value?.constructor === Object
                    ? value
                    : null,
        };
    } catch (error) {
        answer = { error: String(error.message ?? error) };
    }
    process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser.close();
