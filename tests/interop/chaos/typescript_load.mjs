// The TypeScript client calls tools until its stdin ends: `node typescript_load.mjs NAME URL SESSIONS SECONDS`.
//
// Each call has a number of its own, is sent once, and becomes one line of JSON: its number, its kind (`result`, `wrong`,
// `error` or `hung`, which is one that has no outcome after SECONDS), and the words of the error. A session that failed
// twice in a row is replaced. An attempt to begin a session that fails is a line too, of the kind `unconnected`.

import { setTimeout as sleep } from 'node:timers/promises';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const [NAME, URL_OF_SERVER, SESSIONS, SECONDS] = process.argv.slice(2);
const MILLISECONDS = 1000 * SECONDS;
const PAUSE = 100;
const THOUGHT = 300;
const HUNG = Symbol('hung');
let count = 0;
let ending = false;

function tell(number, kind, began, words = '') {
    process.stdout.write(`${JSON.stringify({ number, kind, seconds: (performance.now() - began) / 1000, words })}\n`);
}

function within(work) {
    let timer;
    const deadline = new Promise((resolve) => (timer = setTimeout(() => resolve(HUNG), MILLISECONDS)));
    return Promise.race([work, deadline]).finally(() => clearTimeout(timer));
}

// Call a tool, tell what came of it, and return whether it was what is expected.
async function call(client, name, number) {
    const complaints = [];
    client.onerror = (error) => complaints.push(error.message);
    const began = performance.now();
    try {
        const calling = client.callTool({ name, arguments: { number } }, { timeout: 10 * MILLISECONDS });
        const result = await within(calling);
        if (result === HUNG) {
            calling.catch(() => {});
            tell(number, 'hung', began, complaints.join('; '));
            return false;
        }
        const { text } = result.content[0];
        if (result.isError) {
            tell(number, 'error', began, text);
            return false;
        }
        tell(number, text === number ? 'result' : 'wrong', began, text === number ? '' : text);
        return true;
    } catch (error) {
        tell(number, 'error', began, `${error.code ?? error.constructor.name} ${error.message} ${error.cause ?? ''}`.trim());
        return false;
    }
}

// Call one tool after the other, until the end or until two calls in a row fail.
async function use(client) {
    let failures = 0;
    while (!ending && failures < 2) {
        const number = count++;
        const isGood = await call(client, ['record', 'confirm'][number % 2], `${NAME}-${number}`);
        failures = isGood ? 0 : failures + 1;
        await sleep(PAUSE);
    }
}

async function sessions() {
    while (!ending) {
        const began = performance.now();
        const client = new Client(
            { name: 'typescript-load', version: '1' },
            { versionNegotiation: { mode: 'legacy' }, capabilities: { elicitation: { form: {} } } }
        );
        client.setRequestHandler('elicitation/create', async ({ params }) => {
            await sleep(THOUGHT);
            return { action: 'accept', content: { value: params.message.replace('Confirm ', '') } };
        });
        try {
            await client.connect(new StreamableHTTPClientTransport(new URL(URL_OF_SERVER)), { timeout: MILLISECONDS });
        } catch (error) {
            tell(null, 'unconnected', began, `${error.constructor.name}: ${error.message}`);
            await sleep(PAUSE);
            continue;
        }
        await use(client);
        await within(client.close().catch(() => {}));
    }
}

process.stdin.on('end', () => (ending = true)).resume();
await Promise.all(Array.from({ length: Number(SESSIONS) }, sessions));
process.exit(0);
