// One item of a server: what it is, its form, its result, how a model sees it, and its definition.

import { ask } from "../../page/backend.js";
import { button, fill, make, tabs } from "../../page/nodes.js";
import { remember, remembered } from "../../page/memory.js";
import { named, notify } from "../../page/state.js";
import { brief, shownText } from "../../page/texts.js";
import { SchemaEditor } from "../../schema/editor.js";
import { jsonTree } from "../../shown/json_tree.js";
import { rawJson } from "../../shown/result.js";
import { failureBox } from "../failure.js";
import { completion, KINDS } from "./kinds.js";
import { Requester } from "./request.js";

const HINTS = {
    readOnlyHint: "read only",
    destructiveHint: "destructive",
    idempotentHint: "idempotent",
    openWorldHint: "open world",
};

/** Return the node of an item. */
export function itemDetail(server, kind, item, { open }) {
    const { nameOf, verb } = KINDS[kind];
    const panels = [[verb, () => trial(server, kind, item, open)]];
    if (kind === "tools") panels.push(["As the model sees it", () => modelView(server, item)]);
    panels.push(["Definition", () => rawJson(item)]);
    return make(
        "article.item-detail",
        {},
        make("h3", {}, make("bdi", {}, brief(nameOf(item), 200))),
        item.title && item.title !== nameOf(item) && make("p.item-title", {}, make("bdi", {}, brief(item.title, 200))),
        make(
            "div.chips",
            {},
            chips(item).map((one) => make("span.chip", {}, brief(one, 60))),
        ),
        item.description && shownText(item.description, "div.text.pre.description"),
        tabs("Parts of this item", panels),
    );
}

function chips(item) {
    const hints = Object.entries(HINTS)
        .filter(([key]) => item.annotations?.[key] === true)
        .map(([, word]) => word);
    const app = item._meta?.ui?.resourceUri;
    const others = [
        item.mimeType,
        item.size !== undefined && `${item.size} bytes`,
        app && `app ${app}`,
        item.execution?.taskSupport && `task ${item.execution.taskSupport}`,
        ...(item.tools ?? []).map((tool) => `tool ${tool}`),
    ];
    return [...hints, ...others.filter(Boolean).map(String)];
}

function trial(server, kind, item, open) {
    const { schemaOf, nameOf, requestOf, verb, others = [] } = KINDS[kind];
    const schema = schemaOf(item);
    const typed = schema ? remembered(server, kind, nameOf(item)) : null;
    let editor = null;
    if (schema)
        editor = new SchemaEditor({
            schema,
            value: typed?.value,
            text: typed?.text ?? null,
            onchange: (value, text) => remember(server, kind, nameOf(item), { value, text }),
            complete: completion(server, kind, item, () => editor?.value ?? {}),
        });
    const requester = new Requester({
        server: server.id,
        label: verb,
        open,
        requestNow() {
            if (editor && !editor.isReadable) {
                notify("The JSON cannot be read yet.", "error");
                editor.area.focus();
                return null;
            }
            return requestOf(item, editor?.value);
        },
    });
    const bar = make(
        "div.send-bar",
        {},
        requester.bar,
        others.map(([label, method]) =>
            button(label, () => requester.send({ method, params: requestOf(item).params })),
        ),
        kind === "resources" && subscription(server, item),
    );
    return make(
        "div.trial",
        {
            onkeydown: (event) =>
                event.key === "Enter" && (event.ctrlKey || event.metaKey) && (event.preventDefault(), requester.send()),
        },
        editor?.node,
        bar,
        requester.outcome,
    );
}

function subscription(server, item) {
    const node = button("", async () => {
        const verb = isSubscribed() ? "unsubscribe" : "subscribe";
        try {
            const { subscribed } = await ask(`explore/${verb}`, { server: server.id, uri: item.uri });
            named(server.id).subscribed = subscribed;
        } catch (failure) {
            notify(failure.message, "error");
        }
        draw();
    });
    const isSubscribed = () => (named(server.id)?.subscribed ?? []).includes(item.uri);
    function draw() {
        fill(node, isSubscribed() ? "Unsubscribe" : "Subscribe");
        node.setAttribute("aria-pressed", String(isSubscribed()));
    }
    draw();
    return server.capabilities?.resources?.subscribe ? node : null;
}

function modelView(server, item) {
    const place = make("div.model-view", {}, make("p.quiet", {}, "Loading…"));
    ask("explore/dialects", { server: server.id, tool: item.name }).then(
        ({ dialects }) =>
            fill(
                place,
                make(
                    "p.quiet",
                    {},
                    "What the API of each provider gets for this tool. The number of tokens is an estimate.",
                ),
                tabs(
                    "Dialects",
                    dialects.map((one) => [
                        [brief(one.dialect, 40), " ", make("span.count", {}, `≈ ${one.tokens} tokens`)],
                        () => [
                            one.notes?.length > 0 &&
                                make(
                                    "ul.notes",
                                    {},
                                    one.notes.map((note) => make("li", {}, brief(note, 300))),
                                ),
                            jsonTree(one.definition, 4),
                            make("details", {}, make("summary", {}, "JSON"), rawJson(one.definition)),
                        ],
                    ]),
                ),
            ),
        (failure) => fill(place, failureBox(failure)),
    );
    return place;
}
