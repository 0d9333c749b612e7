// What the page knows, and who wants to hear of changes. The backend owns all of it; the page keeps copies.

import { ask, hear } from "./backend.js";

export const state = {
    servers: [],
    sessions: [],
    versions: [],
    dialects: [],
    program: {},
    questions: [],
    findings: new Map(),
    logs: [],
    leftOut: new Map(),
    chosen: null,
    isConnected: false,
    hasTried: false,
};

const MOST_LOGS = 500;
const listeners = new Map();

/** Call a function whenever something changes: "servers", "chosen", "questions", "traffic", "progress", ... */
export function listen(topic, callback) {
    if (!listeners.has(topic)) listeners.set(topic, new Set());
    listeners.get(topic).add(callback);
    return () => listeners.get(topic).delete(callback);
}

/** Tell everybody who listens. */
export function tell(topic, detail) {
    for (const callback of listeners.get(topic) ?? []) callback(detail);
}

/** Return a server or a session by its id. */
export function named(id) {
    return state.servers.find((one) => one.id === id) ?? state.sessions.find((one) => one.id === id);
}

/** Return the server that the page is about. */
export function chosenServer() {
    return state.servers.find((one) => one.id === state.chosen) ?? null;
}

/** Make the page be about a server. */
export function chooseServer(id) {
    if (id === state.chosen) return;
    state.chosen = id;
    sessionStorage.setItem("dragoman.server", id ?? "");
    tell("chosen", id);
}

/** Show a short message at the edge of the page. */
export function notify(text, kind = "note") {
    tell("notice", { text, kind });
}

async function refresh() {
    const [lists, asked] = await Promise.all([ask("servers/list"), ask("questions/list")]);
    Object.assign(state, lists, { questions: asked.questions });
    const kept = sessionStorage.getItem("dragoman.server");
    if (!chosenServer()) state.chosen = null;
    chooseServer(
        state.chosen ?? (state.servers.some((one) => one.id === kept) ? kept : (state.servers[0]?.id ?? null)),
    );
    tell("servers");
    tell("questions");
    tell("traffic");
    const [only] = state.servers;
    if (state.servers.length === 1 && only.status === "disconnected" && !state.hasTried) connect(only.id);
    state.hasTried = true;
}

function put(list, item) {
    const place = list.findIndex((one) => one.id === item.id);
    if (place < 0) list.push(item);
    else list[place] = item;
}

/** Keep a newer copy of a server. */
export function putServer(server) {
    put(state.servers, server);
    if (state.chosen === null) chooseServer(server.id);
    tell("servers", server.id);
}

/** Connect to a server; what fails is shown on its card. */
export async function connect(id, version) {
    state.findings.delete(id);
    tell("findings", id);
    const parameters = version === undefined ? { server: id } : { server: id, version };
    try {
        putServer((await ask("servers/connect", parameters)).server);
    } catch (failure) {
        const server = named(id);
        if (server && !server.failure) putServer({ ...server, status: "failed", failure });
    }
}

/** Keep a newer copy of an opened session file. */
export function putSession(session) {
    put(state.sessions, session);
    tell("servers", session.id);
}

const EVENTS = {
    status: ({ server }) => putServer(server),
    removed({ server }) {
        state.servers = state.servers.filter((one) => one.id !== server);
        if (state.chosen === server) chooseServer(state.servers[0]?.id ?? null);
        tell("servers", server);
    },
    session: ({ session }) => putSession(session),
    closed({ session }) {
        state.sessions = state.sessions.filter((one) => one.id !== session);
        tell("servers", session);
    },
    traffic: () => tell("traffic"),
    question({ question }) {
        put(state.questions, question);
        tell("questions", question);
    },
    answered(event) {
        state.questions = state.questions.filter((one) => one.id !== event.question);
        tell("questions");
        if (event.by === "script") notify("A scripted answer was given.");
        if (event.by === "server") notify("The server withdrew a question.");
    },
    progress: (event) => tell("progress", event),
    logs({ logs, leftOut }) {
        state.logs = [...state.logs, ...logs].slice(-MOST_LOGS);
        for (const [id, count] of Object.entries(leftOut)) state.leftOut.set(id, (state.leftOut.get(id) ?? 0) + count);
        tell("logs", new Set(logs.map((one) => one.server)));
    },
    stderr(event) {
        const server = named(event.server);
        if (server) server.stderr = ((server.stderr ?? "") + event.text).slice(-16_000);
        tell("stderr", event);
    },
    notice(event) {
        tell("changed", event);
        const words = {
            list_changed: `The list of ${event.detail} has changed.`,
            resource_updated: `${event.detail} has changed.`,
            reconnected: "The connection was lost and is back.",
        };
        notify(words[event.kind] ?? event.detail, event.kind === "warning" ? "warning" : "note");
    },
    finding({ server, finding }) {
        state.findings.set(server, [...(state.findings.get(server) ?? []), finding]);
        tell("findings", server);
    },
    login: (event) => tell("login", event),
    lagging: () => refresh(),
};

/** Begin to hear the backend. */
export function start() {
    hear(
        (event) => EVENTS[event.event]?.(event),
        () => {
            state.isConnected = true;
            tell("connection");
            refresh().catch((failure) => notify(failure.message, "error"));
        },
        (code) => {
            state.isConnected = false;
            state.isRefused = code === 4401;
            tell("connection");
        },
    );
}
