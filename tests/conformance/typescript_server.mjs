// A server of the official TypeScript SDK with the names that the conformance suite asks for; it serves both eras.
//
//     node typescript_server.mjs, on PORT

import { createServer } from 'node:http';
import { Readable } from 'node:stream';
import { completable, createMcpHandler, createRequestStateCodec, fromJsonSchema, inputRequired, McpServer, ResourceTemplate } from '../interop/node_modules/@modelcontextprotocol/server/dist/index.mjs';
import * as z from '../interop/node_modules/zod/v4/index.js';

const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==';
const SILENCE = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=';
const NAME_FORM = z.object({ name: z.string() });
const codec = createRequestStateCodec({ key: 'a key of at least thirty-two bytes' });
const said = (text) => ({ type: 'text', text });
const text = (words) => ({ content: [said(words)] });
const image = { type: 'image', data: PIXEL, mimeType: 'image/png' };
const embedded = (uri, mimeType, words) => ({ type: 'resource', resource: { uri, mimeType, text: words } });

function addContents(tool) {
    tool('test_simple_text', {}, async () => text('This is a simple text response for testing.'));
    tool('test_image_content', {}, async () => ({ content: [image] }));
    tool('test_audio_content', {}, async () => ({ content: [{ type: 'audio', data: SILENCE, mimeType: 'audio/wav' }] }));
    const resource = embedded('test://embedded-resource', 'text/plain', 'This is an embedded resource content.');
    tool('test_embedded_resource', {}, async () => ({ content: [resource] }));
    const mixed = embedded('test://mixed-content-resource', 'application/json', '{"test": "data", "value": 123}');
    tool('test_multiple_content_types', {}, async () => ({ content: [said('Multiple content types test:'), image, mixed] }));
    tool('test_error_handling', {}, async () => {
        throw new Error('This tool intentionally returns an error for testing');
    });
    tool('test_x_mcp_header', { region: z.string().meta({ 'x-mcp-header': 'Region' }) }, async ({ region }) => text(region));
}

function addNotifying(tool) {
    tool('test_tool_with_logging', {}, async (_, ctx) => {
        for (const words of ['started', 'processing', 'completed']) await ctx.mcpReq.log('info', `Tool execution ${words}`);
        return text('logged');
    });
    tool('test_logging_tool', {}, async (_, ctx) => (await ctx.mcpReq.log('info', 'wanted'), text('logged')));
    tool('test_tool_with_progress', {}, async (_, ctx) => {
        const progressToken = ctx.mcpReq._meta?.progressToken;
        for (const progress of progressToken === undefined ? [] : [0, 50, 100])
            await ctx.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, total: 100 } });
        return text('done');
    });
    tool('test_trigger_tool_change', {}, async () => (handler.notify.toolsChanged(), text('told')));
    tool('test_trigger_prompt_change', {}, async () => (handler.notify.promptsChanged(), text('told')));
}

function addAsking(tool) {
    const asks = (name, questions, shape = {}) =>
        tool(name, shape, async (given, ctx) => {
            const answers = ctx.mcpReq.inputResponses ?? {};
            const inputRequests = questions(given);
            const isAnswered = Object.keys(inputRequests).every((key) => key in answers);
            return isAnswered ? text(JSON.stringify(answers)) : inputRequired({ inputRequests });
        });
    const elicit = (message, requestedSchema = NAME_FORM) => inputRequired.elicit({ message, requestedSchema });
    const sample = (words) => inputRequired.createMessage({ messages: [{ role: 'user', content: said(words) }], maxTokens: 50 });
    asks('test_sampling', ({ prompt }) => ({ answer: sample(prompt) }), { prompt: z.string() });
    asks('test_elicitation', ({ message }) => ({ answer: elicit(message) }), { message: z.string() });
    const status = z.enum(['active', 'inactive', 'pending']).default('active');
    const review = z.object({ name: z.string().default('John Doe'), age: z.number().int().default(30), score: z.number().default(95.5), status, verified: z.boolean().default(true) });
    asks('test_elicitation_sep1034_defaults', () => ({ answer: elicit('Please review', review) }));
    asks('test_input_required_result_elicitation', () => ({ user_name: elicit('What is your name?') }));
    asks('test_input_required_result_sampling', () => ({ capital: sample('What is the capital of France?') }));
    asks('test_input_required_result_list_roots', () => ({ roots: inputRequired.listRoots() }));
    const every = () => ({ user_name: elicit('What is your name?'), greeting: sample('Greet somebody'), roots: inputRequired.listRoots() });
    asks('test_input_required_result_multiple_inputs', every);
    addRounds(tool, elicit);
}

function addRounds(tool, elicit) {
    const rounds = (name, keys, done) =>
        tool(name, {}, async (_, ctx) => {
            const state = { answered: 0, ...ctx.mcpReq.requestState() };
            if (keys[state.answered] in (ctx.mcpReq.inputResponses ?? {})) state.answered++;
            if (state.answered === keys.length) return text(done);
            const key = keys[state.answered];
            return inputRequired({ inputRequests: { [key]: elicit(`Round ${key}`) }, requestState: await codec.mint(state, ctx) });
        });
    rounds('test_input_required_result_request_state', ['confirm'], 'state-ok');
    rounds('test_input_required_result_tampered_state', ['confirm'], 'confirmed');
    rounds('test_input_required_result_multi_round', ['step1', 'step2'], 'all answered');
}

function addResources(server) {
    const fixed = (name, uri, contents) => server.registerResource(name, uri, {}, async () => ({ contents: [{ uri, ...contents }] }));
    fixed('Static Text', 'test://static-text', { mimeType: 'text/plain', text: 'This is the content of the static text resource.' });
    fixed('Static Binary', 'test://static-binary', { mimeType: 'image/png', blob: PIXEL });
    fixed('Watched', 'test://watched-resource', { mimeType: 'text/plain', text: 'Watched resource content' });
    const template = new ResourceTemplate('test://template/{id}/data', { list: undefined });
    server.registerResource('Template', template, {}, async (uri, { id }) => ({
        contents: [{ uri: uri.href, mimeType: 'application/json', text: JSON.stringify({ id, templateTest: true }) }]
    }));
    server.server.setRequestHandler('resources/subscribe', async () => ({}));
    server.server.setRequestHandler('resources/unsubscribe', async () => ({}));
}

function addPrompts(server) {
    const user = (content) => ({ role: 'user', content });
    const prompt = (name, shape, messages) =>
        server.registerPrompt(name, { description: 'A prompt.', argsSchema: z.object(shape) }, (given) => ({ messages: messages(given) }));
    prompt('test_simple_prompt', {}, () => [user(said('This is a simple prompt for testing.'))]);
    const arg1 = completable(z.string(), (value) => ['test', 'testing', 'paris'].filter((word) => word.startsWith(value)));
    const written = ({ arg1, arg2 }) => [user(said(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`))];
    prompt('test_prompt_with_arguments', { arg1, arg2: z.string() }, written);
    const shown = ({ resourceUri }) => [user(embedded(resourceUri, 'text/plain', 'Embedded resource content.')), user(said('Please process it.'))];
    prompt('test_prompt_with_embedded_resource', { resourceUri: z.string() }, shown);
    prompt('test_prompt_with_image', {}, () => [user(image), user(said('Please analyze the image above.'))]);
}

function build() {
    const capabilities = { logging: {}, tools: { listChanged: true }, resources: { subscribe: true, listChanged: true } };
    const server = new McpServer({ name: 'typescript-conformance', version: '1' }, { capabilities, requestState: { verify: codec.verify } });
    const tool = (name, shape, run) =>
        server.registerTool(name, { description: 'A tool.', inputSchema: z.object(shape) }, run);
    addContents(tool);
    addNotifying(tool);
    addAsking(tool);
    const address = { $anchor: 'addressDef', type: 'object', properties: { street: { type: 'string' }, city: { type: 'string' } } };
    const properties = { name: { type: 'string' }, address: { $ref: '#/$defs/address' } };
    const schema = { $schema: 'https://json-schema.org/draft/2020-12/schema', type: 'object', $defs: { address }, properties, additionalProperties: false };
    server.registerTool('json_schema_2020_12_tool', { description: 'A tool.', inputSchema: fromJsonSchema(schema) }, async () => text('called'));
    addResources(server);
    addPrompts(server);
    return server;
}

const handler = createMcpHandler(build);
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
}).listen(Number(process.env.PORT), 'localhost');
