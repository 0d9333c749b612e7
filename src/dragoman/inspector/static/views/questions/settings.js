// What a server may ask, and who answers: approvals, roots, and the rules of a script.

import { ask } from "../../page/backend.js";
import { button, make } from "../../page/nodes.js";
import { notify, putServer } from "../../page/state.js";
import { brief } from "../../page/texts.js";

const EXAMPLE_RULES = '[\n  {"kind": "elicitation", "match": "", "answer": {"action": "accept", "content": {}}}\n]';

/** Return the settings of a server. */
export function settingsOf(server) {
    const change = async (parameters) => {
        try {
            putServer((await ask("questions/settings", { server: server.id, ...parameters })).server);
            notify("Kept.");
        } catch (failure) {
            notify(failure.message, "error");
        }
    };
    const approvals = make("input", {
        type: "checkbox",
        checked: server.approvals,
        onchange: () => change({ approvals: approvals.checked }),
    });
    return make(
        "section.card",
        {},
        make("h3", {}, "What ", make("bdi", {}, brief(server.name, 40)), " may ask, and who answers"),
        make("label.inline", {}, approvals, "Ask me before each call of a tool"),
        rootsField(server, change),
        scriptField(server, change),
    );
}

function rootsField(server, change) {
    const area = make("textarea.code", {
        id: "roots",
        rows: 3,
        placeholder: "file:///home/me/project",
        spellcheck: "false",
        value: (server.roots ?? []).map((root) => root.uri).join("\n"),
    });
    const nameOf = (uri) => uri.replace(/\/+$/, "").split("/").pop();
    const keep = () => {
        const uris = area.value.split(/\s+/).filter(Boolean);
        change({ roots: uris.map((uri) => ({ uri, name: nameOf(uri) })) });
    };
    const label = make("label", { for: area.id }, "Roots, one URI a line");
    return make("div.field", {}, label, area, button("Keep the roots", keep, { look: "tiny" }));
}

function scriptField(server, change) {
    const area = make("textarea.code", {
        id: "script",
        rows: 5,
        placeholder: EXAMPLE_RULES,
        spellcheck: "false",
        value: server.script?.length ? JSON.stringify(server.script, (_, value) => value ?? undefined, 2) : "",
    });
    const keep = () => {
        try {
            change({ script: area.value.trim() ? JSON.parse(area.value) : [] });
        } catch (error) {
            notify(`The rules are no JSON: ${error.message}`, "error");
        }
    };
    const fillIn = () => {
        area.value = EXAMPLE_RULES;
    };
    const label = make("label", { for: area.id }, "Scripted answers, as JSON: the first rule that matches answers");
    const buttons = [button("Keep the rules", keep, { look: "tiny" }), button("Example", fillIn, { look: "tiny" })];
    return make("div.field", {}, label, area, make("div.actions", {}, buttons));
}
