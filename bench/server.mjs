// The TypeScript server that `stdio.py` and `streamable_http.py` measure.
//
//     node server.mjs stdio MORE_TOOLS TOOL ...
//     node server.mjs PORT MORE_TOOLS TOOL ...
//
// Over HTTP the SDK makes a server per request, which costs more the more tools it has: so only those asked for.

import { createServer } from 'node:http';
import { createMcpHandler, fromJsonSchema, McpServer } from '../tests/interop/node_modules/@modelcontextprotocol/server/dist/index.mjs';
import { serveStdio } from '../tests/interop/node_modules/@modelcontextprotocol/server/dist/stdio.mjs';

const [where, more, ...names] = process.argv.slice(2);
const PROGRESS_EVENTS = 10;
const number = { type: 'integer' };
const numbers = fromJsonSchema({ type: 'object', properties: { a: number, b: number }, required: ['a', 'b'] });
const text = fromJsonSchema({ type: 'object', properties: { text: { type: 'string' } }, required: ['text'] });
const nothing = fromJsonSchema({ type: 'object', properties: {} });
const said = (words) => ({ content: [{ type: 'text', text: words }] });
const held = [];

const add = async ({ a, b }) => ({ ...said(String(a + b)), structuredContent: { result: a + b } });

async function count(_, context) {
    const progressToken = context.mcpReq._meta?.progressToken;
    for (let progress = 1; progress <= PROGRESS_EVENTS; progress++)
        await context.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, total: PROGRESS_EVENTS } });
    return said('counted');
}

async function release() {
    for (const resolve of held.splice(0)) resolve(said('held'));
    return said('released');
}

const tools = {
    add: [numbers, add],
    echo: [text, async (given) => said(given.text)],
    hold: [nothing, () => new Promise((resolve) => held.push(resolve))],
    release: [nothing, release],
    count: [nothing, count]
};

function make() {
    const server = new McpServer({ name: 'bench', version: '1' });
    for (const name of names) server.registerTool(name, { description: 'A tool.', inputSchema: tools[name][0] }, tools[name][1]);
    for (let extra = 0; extra < Number(more); extra++)
        server.registerTool(`tool_${extra}`, { description: 'Adds two numbers.', inputSchema: numbers }, add);
    return server;
}

async function answer(handler, request, response) {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const url = `http://127.0.0.1${request.url}`;
    const given = await handler.fetch(new Request(url, { method: request.method, headers: request.headers, body: Buffer.concat(chunks) }));
    const headers = Object.fromEntries(given.headers);
    if (headers['content-type']?.startsWith('text/event-stream')) {
        response.writeHead(given.status, headers);
        for await (const chunk of given.body) response.write(chunk);
        response.end();
        return;
    }
    const body = Buffer.from(await given.arrayBuffer());
    response.writeHead(given.status, { ...headers, 'content-length': body.length });
    response.end(body);
}

if (where === 'stdio') {
    serveStdio(make);
} else {
    const handler = createMcpHandler(make);
    createServer((request, response) => answer(handler, request, response)).listen(Number(where), '127.0.0.1');
}
