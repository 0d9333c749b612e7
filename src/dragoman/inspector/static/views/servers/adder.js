// The form that adds servers: a URL, a command, a file, with headers, a token and an environment if they are needed.

import { ask } from "../../page/backend.js";
import { fill, make } from "../../page/nodes.js";
import { chooseServer, connect, putServer } from "../../page/state.js";
import { failureBox } from "../failure.js";

const TARGETS = "https://example.com/mcp · python server.py · mcp.json";

/** Return the form; what it adds is chosen and connected. */
export function adder() {
    const plain = { type: "text", autocomplete: "off", spellcheck: "false" };
    const target = make("input", { ...plain, id: "add-target", placeholder: TARGETS, "data-search": true });
    const name = make("input", { ...plain, id: "add-name", placeholder: "optional" });
    const token = make("input", { ...plain, type: "password", id: "add-token", placeholder: "bearer token" });
    const headers = make("textarea.code", { ...plain, id: "add-headers", rows: 2, placeholder: "X-Key: value" });
    const environment = make("textarea.code", { ...plain, id: "add-env", rows: 2, placeholder: "NAME=value" });
    const problem = make("div.problem");
    async function submit(event) {
        event.preventDefault();
        if (!target.value.trim()) return;
        try {
            await add({
                target: readTarget(target.value),
                name: name.value.trim() || undefined,
                token: token.value || undefined,
                headers: pairs(headers.value, ":"),
                env: pairs(environment.value, "="),
            });
            fill(problem);
            target.value = "";
        } catch (failure) {
            fill(problem, failureBox(failure));
        }
    }
    const label = make("label.hidden-label", { for: target.id }, "Target");
    const line = make("div.add-line", {}, label, target, make("button.primary", { type: "submit" }, "Add and connect"));
    const labels = {
        Name: name,
        "Bearer token": token,
        "Headers, one a line": headers,
        "Environment, one a line": environment,
    };
    return make("form.adder-form", { onsubmit: submit }, line, optionalFields(labels), problem);
}

function optionalFields(labels) {
    const field = ([label, control]) => make("div.field", {}, make("label", { for: control.id }, label), control);
    const summary = make("summary", {}, "Name, headers, token, environment");
    return make("details", {}, summary, make("div.fields", {}, Object.entries(labels).map(field)));
}

async function add(parameters) {
    const { servers } = await ask("servers/add", parameters);
    for (const server of servers) putServer(server);
    if (servers[0]) chooseServer(servers[0].id);
    for (const server of servers) connect(server.id);
}

function readTarget(text) {
    try {
        return text.trim().startsWith("{") ? JSON.parse(text) : text.trim();
    } catch {
        return text.trim();
    }
}

function pairs(text, separator) {
    const lines = text.split("\n").filter((line) => line.includes(separator));
    if (!lines.length) return undefined;
    return Object.fromEntries(
        lines.map((line) => [
            line.slice(0, line.indexOf(separator)).trim(),
            line.slice(line.indexOf(separator) + 1).trim(),
        ]),
    );
}
