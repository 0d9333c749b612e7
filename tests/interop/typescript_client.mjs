// The TypeScript client uses a server; run by the Node.js of the peers.
//
//     node typescript_client.mjs (handshake|stateless) stdio COMMAND [ARGUMENT ...]
//     node typescript_client.mjs (handshake|stateless) (http|http-unkept) URL_OF_MAIN URL_OF_ROUTED URL_OF_CONVERSING
//     node typescript_client.mjs sessions COUNT URL_OF_CONVERSING
//
// With `http-unkept` each request has a connection of its own, which any worker may take. Each feature is one line of
// JSON: what was seen, or why it was not. Extra fields of the stateless era that every result carries are left out of
// what was seen, except by the features that are about them.

import { readFileSync } from 'node:fs';
import { request as sendRequest } from 'node:http';
import { Readable } from 'node:stream';
import { Client, fromJsonSchema, ProtocolError, SdkError, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const MODES = { handshake: 'legacy', stateless: { pin: '2026-07-28' } };
const OLDER_VERSIONS = ['2025-06-18', '2025-03-26', '2024-11-05'];
const SERVER_INFO = 'io.modelcontextprotocol/serverInfo';
const REQUESTS = JSON.parse(readFileSync(new URL('requests.json', import.meta.url), 'utf8'));
const MILLISECONDS = 30_000;
const BURSTS = 20;
const CALLS = 16;
const anything = fromJsonSchema({ type: 'object' });

class Unseen extends Error {}

function seen(result) {
    const { resultType, ttlMs, cacheScope, _meta, ...sent } = result;
    const { [SERVER_INFO]: serverInfo, ...meta } = _meta ?? {};
    return Object.keys(meta).length > 0 ? { ...sent, _meta: meta } : sent;
}

async function outcome(request) {
    try {
        return seen(await request);
    } catch (error) {
        if (!(error instanceof ProtocolError)) throw error;
        return { error: { code: error.code, message: error.message, ...(error.data !== undefined && { data: error.data }) } };
    }
}

async function pages(client, method) {
    const listed = [await client.request({ method, params: {} })];
    while (listed.at(-1).nextCursor !== undefined) {
        listed.push(await client.request({ method, params: { cursor: listed.at(-1).nextCursor } }));
    }
    return listed;
}

async function textOf(call) {
    return (await call).content[0].text;
}

const SPECIAL = {
    async handshake(client, { initialized }) {
        if (initialized.result === undefined) throw new Unseen('there was no handshake');
        return initialized.result;
    },
    async discover(client) {
        return client.discover();
    },
    async list_tools(client) {
        return (await client.listTools()).tools;
    },
    async list_prompts(client) {
        return (await client.listPrompts()).prompts;
    },
    async list_resources(client) {
        return (await client.listResources()).resources;
    },
    async list_resource_templates(client) {
        return (await client.listResourceTemplates()).resourceTemplates;
    },
    async pagination(client) {
        const listed = await pages(client, 'resources/list');
        return listed.map(({ resources, nextCursor }) => ({
            names: resources.map((resource) => resource.name),
            nextCursor: nextCursor ?? null
        }));
    },
    async foreign_cursor(client) {
        return outcome(client.listTools({ cursor: 'elsewhere' }));
    },
    async cache_hints(client) {
        const hinted = {
            'tools/list': await client.request({ method: 'tools/list', params: {} }),
            'prompts/list': await client.request({ method: 'prompts/list', params: {} }),
            'resources/list': await client.request({ method: 'resources/list', params: {} }),
            'resources/templates/list': await client.request({ method: 'resources/templates/list', params: {} }),
            'resources/read': await client.request({ method: 'resources/read', params: { uri: 'docs://readme' } })
        };
        const sent = Object.entries(hinted).map(([method, { ttlMs, cacheScope }]) => [method, [ttlMs, cacheScope]]);
        if (sent.every(([, hints]) => hints.every((hint) => hint === undefined))) {
            throw new Unseen('no result carries a cache hint');
        }
        return Object.fromEntries(sent);
    },
    async identity_in_results(client, { latest }) {
        await client.callTool({ name: 'whisper', arguments: { text: 'A' } });
        const { _meta, resultType } = latest.result;
        if (_meta?.[SERVER_INFO] === undefined) throw new Unseen('the result does not name its server');
        return { serverInfo: _meta[SERVER_INFO], resultType };
    },
    async custom_method(client) {
        return outcome(client.request({ method: 'acme/add', params: { a: 2, b: 40 } }, anything));
    },
    async custom_method_refuses(client) {
        return outcome(client.request({ method: 'acme/refuse', params: { reason: 'tired' } }, anything));
    },
    async unknown_method(client) {
        return outcome(client.request({ method: 'acme/no_such_method', params: {} }, anything));
    },
    async ping(client) {
        return seen(await client.ping());
    },
    async log_level(client) {
        return seen(await client.setLoggingLevel('warning'));
    },
    async cancellation(client) {
        const controller = new AbortController();
        const abandoned = client.callTool({ name: 'hold', arguments: { key: 'first' } }, { signal: controller.signal });
        const gaveUp = abandoned.then(
            () => false,
            () => true
        );
        const held = await textOf(client.callTool({ name: 'held', arguments: { key: 'first' } }));
        controller.abort();
        const released = await textOf(client.callTool({ name: 'released', arguments: { key: 'first' } }));
        return [held, released, await gaveUp];
    },
    async time_out(client) {
        try {
            await client.callTool({ name: 'hold', arguments: { key: 'second' } }, { timeout: 100 });
        } catch (error) {
            if (!(error instanceof SdkError)) throw error;
            return [error.code, await textOf(client.callTool({ name: 'released', arguments: { key: 'second' } }))];
        }
        throw new Unseen('the call did not time out');
    },
    async concurrent_calls(client) {
        const numbers = Array.from({ length: 100 }, (_, number) => number);
        return Promise.all(numbers.map((number) => textOf(client.callTool({ name: 'add', arguments: { a: number, b: 0 } }))));
    },
    async large_message(client) {
        const text = await textOf(client.callTool({ name: 'repeat', arguments: { text: 'é'.repeat(1000), times: 2000 } }));
        return [text.length, new Set(text).size === 1 && text.startsWith('é')];
    }
};

const APART = {
    // What an author's own functions list and read.
    async routed_resources(era, place) {
        const { client } = await connect({ mode: MODES[era] }, place('routed'));
        try {
            const uris = (await client.listResources()).resources.map((resource) => resource.uri);
            return [uris, seen(await client.readResource({ uri: 'any://9' }))];
        } finally {
            await client.close();
        }
    },
    async negotiation(era, place) {
        if (era === 'handshake') throw new Unseen('a client that negotiates finds the stateless era');
        const { client } = await connect({ mode: 'auto' }, place('main'));
        try {
            return [client.getNegotiatedProtocolVersion(), client.getServerVersion().name, client.getInstructions()];
        } finally {
            await client.close();
        }
    },
    async older_versions(era, place) {
        if (era === 'stateless') throw new Unseen('the stateless era has one version');
        const sightings = [];
        for (const version of OLDER_VERSIONS) {
            const { client } = await connect({ mode: 'legacy' }, place('main'), { supportedProtocolVersions: [version] });
            try {
                const call = await client.callTool({ name: 'add', arguments: { a: 2 } });
                const { tools } = await client.listTools();
                sightings.push([client.getNegotiatedProtocolVersion(), call, tools.find(({ name }) => name === 'add')]);
            } finally {
                await client.close();
            }
        }
        return sightings;
    }
};

// A connection to a server that talks: what it was asked and told, and what it answers.
class Conversation {
    asked = [];
    notices = [];
    awaited = [];

    static async open(era, place) {
        const conversation = new Conversation();
        conversation.era = era;
        conversation.waiting = new Promise((resolve) => (conversation.beginToWait = resolve));
        const capabilities = { elicitation: { form: {} }, sampling: {}, roots: {} };
        const prepare = (client) => conversation.prepare(client);
        const opened = await connect({ mode: MODES[era] }, place('conversing'), { capabilities }, prepare);
        conversation.client = opened.client;
        return conversation;
    }

    prepare(client) {
        client.setRequestHandler('elicitation/create', ({ params }) => this.elicit(params));
        client.setRequestHandler('sampling/createMessage', ({ params }) => this.sample(params));
        client.setRequestHandler('roots/list', () => {
            this.asked.push('roots');
            return { roots: [{ uri: 'file:///home/ada', name: 'home' }] };
        });
        client.setNotificationHandler('notifications/message', ({ params }) => {
            this.hear([params.level, params.data, params.logger ?? null]);
        });
        for (const method of ['notifications/tools/list_changed', 'notifications/resources/updated']) {
            client.setNotificationHandler(method, ({ params }) => this.hear([method, params?.uri ?? null]));
        }
    }

    elicit({ message, requestedSchema }) {
        this.asked.push([message, requestedSchema]);
        if (message === 'Wait') {
            this.beginToWait();
            return new Promise(() => {});
        }
        if (message === 'Really Oslo?') return { action: 'accept', content: { sure: true, seats: 2 } };
        return { action: 'decline' };
    }

    sample({ messages, maxTokens, systemPrompt }) {
        this.asked.push([messages[0].content.text, maxTokens, systemPrompt ?? null]);
        return { role: 'assistant', content: { type: 'text', text: 'short' }, model: 'peer-model' };
    }

    hear(notice) {
        if (this.awaited.length > 0) this.awaited.shift()(notice);
        else this.notices.push(notice);
    }

    async notice() {
        return this.notices.shift() ?? new Promise((resolve) => this.awaited.push(resolve));
    }

    say(name, args = {}, options = {}) {
        return textOf(this.client.callTool({ name, arguments: args }, options));
    }

    // What a tool asked, and what it made of the answers.
    async asking(name, args = {}) {
        this.asked = [];
        const said = await this.say(name, args);
        return [this.asked.sort((one, other) => (JSON.stringify(one) < JSON.stringify(other) ? -1 : 1)), said];
    }

    // Changes are told without a wish in the handshake era, and by a subscription in the stateless era.
    async whileListening(filter, work) {
        if (this.era === 'handshake') return work();
        const subscription = await this.client.listen(filter);
        try {
            return await work();
        } finally {
            await subscription.close();
        }
    }
}

async function progress(conversation, tool) {
    const steps = [];
    const onprogress = ({ progress, total, message }) => {
        steps.push([progress, total, message ?? null]);
        if (progress === total) conversation.say('go_on', { key: tool });
    };
    await conversation.say(tool, { to: 3, key: tool }, { onprogress });
    return steps;
}

const CONVERSING = {
    progress: (conversation) => progress(conversation, 'count'),
    blocking_progress: (conversation) => progress(conversation, 'count_blocking'),
    async log_messages(conversation) {
        if (conversation.era === 'handshake') await conversation.client.setLoggingLevel('info');
        await conversation.client.callTool({ name: 'chatter', _meta: { 'io.modelcontextprotocol/logLevel': 'info' } });
        return [await conversation.notice(), await conversation.notice()];
    },
    elicitation_accepted: (conversation) => conversation.asking('book', { city: 'Oslo' }),
    elicitation_declined: (conversation) => conversation.asking('book', { city: 'Bergen' }),
    blocking_elicitation: (conversation) => conversation.asking('book_blocking', { city: 'Oslo' }),
    sampling: (conversation) => conversation.asking('summarise', { text: 'all' }),
    roots: (conversation) => conversation.asking('folders'),
    several_questions: (conversation) => conversation.asking('several'),
    explicit_question: (conversation) => conversation.asking('explicit'),
    async prompt_that_asks({ client }) {
        return (await client.getPrompt({ name: 'asking_prompt' })).messages[0].content.text;
    },
    async resource_that_asks({ client }) {
        return (await client.readResource({ uri: 'asking://resource' })).contents[0].text;
    },
    async list_changed(conversation) {
        await conversation.whileListening({ toolsListChanged: true }, async () => {
            await conversation.say('grow');
            await conversation.notice();
        });
        const [{ tools }] = await pages(conversation.client, 'tools/list');
        return tools.map(({ name }) => name).filter((name) => name === 'grown');
    },
    async resource_updated(conversation) {
        const uri = 'asking://resource';
        if (conversation.era === 'handshake') await conversation.client.subscribeResource({ uri });
        return conversation.whileListening({ resourceSubscriptions: [uri] }, async () => {
            await conversation.say('touch', { uri: 'other://one' });
            await conversation.say('touch', { uri });
            return (await conversation.notice())[1];
        });
    },
    async cancelled_question(conversation) {
        if (conversation.era === 'stateless') throw new Unseen('the call ended with the question');
        const controller = new AbortController();
        const abandoned = conversation.say('ask_in_vain', { key: 'third' }, { signal: controller.signal });
        const ended = abandoned.catch(() => undefined);
        await conversation.waiting;
        controller.abort();
        const released = await conversation.say('released', { key: 'third' });
        await ended;
        return released;
    },
    async several_workers(conversation) {
        const pids = new Set();
        for (let burst = 0; burst < BURSTS && pids.size < 2; burst++) {
            for (const pid of await burstOfPids(conversation, CALLS)) pids.add(pid);
        }
        if (pids.size < 2) throw new Unseen(`${[...pids]} served every call`);
        return true;
    }
};

function burstOfPids(conversation, count) {
    return Promise.all(Array.from({ length: count }, () => conversation.say('pid')));
}

// Where the servers are: a command that starts them, or their addresses.
function placeOf(transport, ...where) {
    return (server) => {
        if (transport === 'stdio') return new StdioClientTransport({ command: where[0], args: [...where.slice(1), server] });
        const url = new URL(where[['main', 'routed', 'conversing'].indexOf(server)]);
        return new StreamableHTTPClientTransport(url, transport === 'http' ? {} : { fetch: fetchUnkept });
    };
}

// As fetch, but with a connection for each request.
function fetchUnkept(url, { method, headers, body, signal }) {
    return new Promise((resolve, reject) => {
        const options = { method, headers: Object.fromEntries(new Headers(headers)), agent: false, signal };
        const request = sendRequest(url, options, (response) => {
            const content = response.statusCode === 204 ? null : Readable.toWeb(response);
            resolve(new Response(content, { status: response.statusCode, headers: response.headers }));
        });
        request.on('error', reject);
        request.end(body);
    });
}

async function connect(versionNegotiation, transport, options = {}, prepare = () => {}) {
    const client = new Client({ name: 'typescript-peer', version: '7' }, { versionNegotiation, ...options });
    prepare(client);
    const wire = { initialized: {}, latest: {} };
    await client.connect(transport, { timeout: MILLISECONDS });
    watch(transport, wire);
    return { client, wire };
}

// The client hides parts of what was sent, so the messages are read as they pass.
function watch(transport, wire) {
    const receive = transport.onmessage;
    transport.onmessage = (message, extra) => {
        wire.latest = message;
        receive(message, extra);
    };
}

function withDeadline(work) {
    let timer;
    const deadline = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error('the deadline passed')), MILLISECONDS);
    });
    return Promise.race([work, deadline]).finally(() => clearTimeout(timer));
}

async function report(feature, work) {
    let line;
    try {
        line = { feature, saw: await withDeadline(work()) };
    } catch (error) {
        line = { feature, failed: `${error.constructor.name}: ${error.message}` };
    }
    process.stdout.write(`${JSON.stringify(line)}\n`);
}

// Use every feature once.
async function explore(era, ...where) {
    const place = placeOf(...where);
    const { client, wire } = await connect({ mode: MODES[era] }, place('main'));
    wire.initialized = { result: client.getProtocolEra() === 'legacy' ? initializeResult(client) : undefined };
    for (const [feature, [verb, params]] of Object.entries(REQUESTS)) {
        await report(feature, () => outcome(client[verb](params)));
    }
    for (const [feature, work] of Object.entries(SPECIAL)) {
        await report(feature, () => work(client, wire));
    }
    await client.close();
    for (const [feature, work] of Object.entries(APART)) {
        await report(feature, () => work(era, place));
    }
    const conversation = await Conversation.open(era, place);
    for (const [feature, work] of Object.entries(CONVERSING)) {
        await report(feature, () => work(conversation));
    }
    await conversation.client.close();
}

function initializeResult(client) {
    return {
        protocolVersion: client.getNegotiatedProtocolVersion(),
        capabilities: client.getServerCapabilities(),
        serverInfo: client.getServerVersion(),
        instructions: client.getInstructions()
    };
}

// Use one session of the handshake era: what was listed, asked and answered, and by which processes.
async function visit(place) {
    const conversation = await Conversation.open('handshake', place);
    const { tools } = await conversation.client.listTools();
    const pids = await burstOfPids(conversation, 4);
    const [, said] = await conversation.asking('book', { city: 'Oslo' });
    const sighting = { lists: tools.some(({ name }) => name === 'book'), said, pids: [...pids, await conversation.say('pid')] };
    await conversation.client.close();
    return sighting;
}

// Open, use and close many sessions, one after the other.
async function sessions(count, url) {
    const place = placeOf('http', '', '', url);
    for (let number = 0; number < Number(count); number++) await report(String(number), () => visit(place));
}

const [what, ...where] = process.argv.slice(2);
await (what === 'sessions' ? sessions(...where) : explore(what, ...where));
