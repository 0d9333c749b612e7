// The way to the backend: verbs by POST, and events by a socket that comes back by itself.

const TOKEN = readToken();

function readToken() {
    const given = new URLSearchParams(location.hash.slice(1)).get("token");
    if (given) sessionStorage.setItem("dragoman.token", given);
    return given ?? sessionStorage.getItem("dragoman.token") ?? "";
}

/** What a verb failed with: `kind`, `message`, `remedy`, `code`, `data` and `status` as the backend says them. */
export class Failure extends Error {
    constructor(error, status) {
        super(error.message ?? `The backend answered ${status}`);
        Object.assign(this, { kind: "Failure", remedy: null, code: null, data: null, rows: [], ...error });
    }
}

async function send(verb, body, headers = {}) {
    let response;
    try {
        response = await fetch(`/api/${verb}`, {
            method: "POST",
            body,
            headers: { "X-Dragoman-Token": TOKEN, "Content-Type": "application/json", ...headers },
        });
    } catch {
        throw new Failure(
            {
                kind: "Away",
                message: "The inspector does not answer.",
                remedy: "See whether `dragoman inspect` still runs.",
            },
            0,
        );
    }
    if (response.ok) return response;
    const answer = await response.json().catch(() => ({}));
    throw new Failure(answer.error ?? {}, response.status);
}

/** Ask the backend: `await ask("servers/connect", { server: "s1" })`. Raises `Failure`. */
export async function ask(verb, parameters = {}) {
    return (await send(verb, JSON.stringify(parameters))).json();
}

/** Ask for bytes, with the name that the backend gives them. */
export async function askForFile(verb, parameters = {}) {
    const response = await send(verb, JSON.stringify(parameters));
    const name = /filename\*=UTF-8''([^;]+)/.exec(response.headers.get("Content-Disposition") ?? "")?.[1];
    return { blob: await response.blob(), name: name ? decodeURIComponent(name) : "message.json" };
}

/** Hand a session file to the backend. */
export async function upload(file) {
    const headers = { "Content-Type": "application/octet-stream", "X-Dragoman-Name": encodeURIComponent(file.name) };
    return (await send("traffic/upload", file, headers)).json();
}

/** Hear the events of the backend; `onopen` and `onclose` tell whether they come. */
export function hear(onevent, onopen, onclose) {
    let wait = 250;
    function open() {
        const socket = new WebSocket(`ws://${location.host}/api/events`);
        socket.onopen = () => socket.send(JSON.stringify({ token: TOKEN }));
        socket.onmessage = ({ data }) => {
            const event = JSON.parse(data);
            if (event.event === "hello") {
                wait = 250;
                onopen(event);
            } else onevent(event);
        };
        socket.onclose = ({ code }) => {
            onclose(code);
            if (code === 4401) return;
            setTimeout(open, wait);
            wait = Math.min(5_000, wait * 2);
        };
    }
    open();
}
