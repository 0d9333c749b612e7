// A server of the official TypeScript SDK with everything that it offers; each handler serves both eras.
//
//     node typescript_server.mjs (stdio | http), with http on PORT

import { createServer } from 'node:http';
import { Readable } from 'node:stream';
import { completable, createMcpHandler, inputRequired, McpServer, ResourceTemplate } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import * as z from 'zod/v4';

const SECONDS = 30;
const PIXEL = 'R0lGODlhAQABAAAAACwAAAAAAQABAAA=';
const PAGE = 'https://example.com/in';

let giveUp;
const givenUp = new Promise((resolve) => (giveUp = resolve));
const grown = new Set();
const subscribed = new Set();
const text = (said) => ({ content: [{ type: 'text', text: said }] });
const starting = (values) => (value) => values.filter((known) => known.startsWith(value));

function build(changes) {
    const server = new McpServer(
        { name: 'Notes', version: '1.2' },
        {
            instructions: 'Keep notes.',
            capabilities: { logging: {}, tools: { listChanged: true }, resources: { subscribe: true, listChanged: true } }
        }
    );
    const tool = (name, inputSchema, run, more = {}) =>
        server.registerTool(name, { description: 'A tool.', inputSchema: z.object(inputSchema), ...more }, run);

    tool('greet', { name: z.string() }, async ({ name }) => text(`Hello ${name}`));
    const sum = z.object({ result: z.number().int() });
    tool(
        'add',
        { a: z.number().int(), b: z.number().int() },
        async ({ a, b }) => ({ ...text(String(a + b)), structuredContent: { result: a + b } }),
        { outputSchema: sum }
    );
    const forecast = z.object({ city: z.string(), degrees: z.number() });
    tool(
        'weather',
        { city: z.string() },
        async ({ city }) => ({ ...text('mild'), structuredContent: { city, degrees: 7.5 } }),
        { outputSchema: forecast }
    );
    tool('picture', {}, async () => ({ content: [{ type: 'image', data: PIXEL, mimeType: 'image/gif' }] }));
    const motto = { uri: 'note://motto', text: 'Onwards' };
    tool('embedded', {}, async () => ({ content: [{ type: 'resource', resource: motto }] }));
    tool('link', {}, async () => ({ content: [{ type: 'resource_link', uri: 'note://motto', name: 'motto' }] }));
    tool('fail', {}, async () => {
        throw new Error('Out of ink');
    });

    const progress = async (ctx, params) => {
        const progressToken = ctx.mcpReq._meta?.progressToken;
        if (progressToken !== undefined)
            await ctx.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, ...params } });
    };
    tool('count', { steps: z.number().int() }, async ({ steps }, ctx) => {
        for (let step = 1; step <= steps; step++) await progress(ctx, { progress: step, total: steps, message: `step ${step}` });
        return text(`counted ${steps}`);
    });
    tool('talk', {}, async (_, ctx) => {
        await ctx.mcpReq.log('info', 'quiet', 'notes');
        await ctx.mcpReq.log('error', { loud: true }, 'notes');
        return text('said');
    });
    tool('wait', {}, async (_, ctx) => {
        await progress(ctx, { progress: 0 });
        await new Promise((resolve) => {
            const late = setTimeout(resolve, SECONDS * 1000);
            ctx.mcpReq.signal.addEventListener('abort', () => (clearTimeout(late), giveUp(), resolve()));
        });
        return text('waited');
    });
    tool('was_given_up', {}, async () => {
        await givenUp;
        return text('yes');
    });

    const answered = (ctx, request) => ctx.mcpReq.inputResponses?.question ?? inputRequired({ inputRequests: { question: request } });
    const asks = (name, inputSchema, request, done) =>
        tool(name, inputSchema, async (args, ctx) => {
            const given = answered(ctx, request(args));
            return given.resultType === 'input_required' ? given : text(done(given));
        });
    const form = z.object({ sure: z.boolean(), seats: z.number().int().default(2) });
    asks(
        'book',
        {},
        () => inputRequired.elicit({ message: 'Are you sure?', requestedSchema: form }),
        (given) => (given.action === 'accept' ? `booked ${given.content.seats}` : given.action)
    );
    asks(
        'think',
        { topic: z.string() },
        ({ topic }) => inputRequired.createMessage({ messages: [{ role: 'user', content: { type: 'text', text: topic } }], maxTokens: 20 }),
        (given) => `${given.model} says ${given.content.text}`
    );
    asks('where', {}, () => inputRequired.listRoots(), (given) => given.roots.map((root) => root.uri).join(', '));
    asks('sign_in', {}, () => inputRequired.elicitUrl({ message: 'Sign in', url: PAGE, elicitationId: 'one' }), (given) => given.action);

    tool('touch', { uri: z.string() }, async ({ uri }, ctx) => {
        if (ctx.mcpReq.envelope || subscribed.has(uri)) await changes.updated(server, uri);
        return text('touched');
    });
    const add = () => tool('grown', {}, async () => text('grown'));
    tool('grow', {}, async () => {
        add();
        grown.add('grown');
        changes.grew();
        return text('grew');
    });
    if (grown.size) add();

    const kept = (name, contents) => server.registerResource(name, `note://${name}`, {}, async (uri) => ({ contents: [{ uri: uri.href, ...contents }] }));
    kept('motto', { mimeType: 'text/plain', text: 'Onwards' });
    kept('pixel', { mimeType: 'image/gif', blob: PIXEL });
    const topics = new ResourceTemplate('note://about/{topic}', { list: undefined, complete: { topic: starting(['tea', 'time', 'rain']) } });
    server.registerResource('about', topics, {}, async (uri, { topic }) => ({ contents: [{ uri: uri.href, text: `All about ${topic}` }] }));

    const said = (content) => ({ role: 'user', content });
    const tones = (value, context) => [
        ...starting(['warm', 'wry', 'cold'])(value),
        ...Object.entries(context?.arguments ?? {}).map(([key, given]) => `${key}=${given}`)
    ];
    const argsSchema = z.object({ name: z.string(), tone: completable(z.string(), tones).optional() });
    server.registerPrompt('welcome', { description: 'Welcomes.', argsSchema }, ({ name, tone }) => ({
        messages: [said({ type: 'text', text: `Welcome ${name} in a ${tone ?? 'warm'} tone` })]
    }));
    server.registerPrompt('sketch', { description: 'Shows.' }, () => ({
        messages: [said({ type: 'text', text: 'Look at this' }), said({ type: 'image', data: PIXEL, mimeType: 'image/gif' })]
    }));

    server.server.setRequestHandler('resources/subscribe', async ({ params }) => (subscribed.add(params.uri), {}));
    server.server.setRequestHandler('resources/unsubscribe', async ({ params }) => (subscribed.delete(params.uri), {}));
    return server;
}

if (process.argv[2] === 'stdio') {
    const changes = {
        grew: () => {},
        updated: (server, uri) => server.server.sendResourceUpdated({ uri })
    };
    serveStdio(() => build(changes));
} else {
    const changes = { grew: () => handler.notify.toolsChanged(), updated: (_, uri) => handler.notify.resourceUpdated(uri) };
    const handler = createMcpHandler(() => build(changes));
    createServer(async (request, response) => {
        const chunks = [];
        for await (const chunk of request) chunks.push(chunk);
        const gone = new AbortController();
        response.on('close', () => gone.abort());
        const { method, headers, url } = request;
        const body = method === 'POST' ? Buffer.concat(chunks) : undefined;
        const answer = await handler.fetch(new Request(`http://127.0.0.1${url}`, { method, headers, body, signal: gone.signal }));
        response.writeHead(answer.status, Object.fromEntries(answer.headers));
        if (answer.body === null) response.end();
        else Readable.fromWeb(answer.body).on('error', () => response.destroy()).pipe(response);
    }).listen(Number(process.env.PORT), '127.0.0.1');
}
