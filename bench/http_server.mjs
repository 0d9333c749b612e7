// The TypeScript server that `streamable_http.py` measures, over the HTTP server of Node.js.
//
//     node http_server.mjs PORT

import { createServer } from 'node:http';
import { createMcpHandler, fromJsonSchema, McpServer } from '../tests/interop/node_modules/@modelcontextprotocol/server/dist/index.mjs';

const number = { type: 'integer' };
const inputSchema = fromJsonSchema({ type: 'object', properties: { a: number, b: number }, required: ['a', 'b'] });

const handler = createMcpHandler(() => {
    const server = new McpServer({ name: 'bench', version: '1' });
    server.registerTool('add', { description: 'Adds two numbers.', inputSchema }, async ({ a, b }) => ({
        content: [{ type: 'text', text: String(a + b) }],
        structuredContent: { result: a + b }
    }));
    return server;
});

createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const url = `http://127.0.0.1${request.url}`;
    const answer = await handler.fetch(new Request(url, { method: request.method, headers: request.headers, body: Buffer.concat(chunks) }));
    const body = Buffer.from(await answer.arrayBuffer());
    response.writeHead(answer.status, { ...Object.fromEntries(answer.headers), 'content-length': body.length });
    response.end(body);
}).listen(Number(process.argv[2]), '127.0.0.1');
