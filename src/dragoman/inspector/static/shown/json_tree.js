// JSON as a tree that opens where somebody looks. What is closed is not in the DOM.

import { button, make } from "../page/nodes.js";
import { brief, shownText } from "../page/texts.js";

const AT_ONCE = 100;

/** Return a tree of a JSON value, open down to a depth. */
export function jsonTree(value, openDepth = 2) {
    return make("div.tree", {}, entry(null, value, openDepth));
}

function entry(name, value, openDepth) {
    const isList = Array.isArray(value);
    if (typeof value !== "object" || value === null) return make("div.leaf", {}, label(name), leaf(value));
    const keys = Object.keys(value);
    if (!keys.length) return make("div.leaf", {}, label(name), make("span.count", {}, isList ? "[]" : "{}"));
    const inside = make("div.inside");
    const details = make(
        "details",
        { open: false },
        make(
            "summary",
            {},
            label(name),
            make("span.count", {}, isList ? `[${keys.length}]` : `{${keys.length}}`),
            make("span.hint", {}, hint(value, keys, isList)),
        ),
        inside,
    );
    function grow(from) {
        const part = keys.slice(from, from + AT_ONCE);
        inside.append(...part.map((key) => entry(isList ? Number(key) : key, value[key], openDepth - 1)));
        const left = keys.length - from - part.length;
        if (left > 0) {
            const more = button(
                `Show ${Math.min(left, AT_ONCE)} more of ${left}`,
                () => {
                    more.remove();
                    grow(from + AT_ONCE);
                },
                { look: "quiet" },
            );
            inside.append(more);
        }
    }
    const open = () => details.open && !inside.hasChildNodes() && grow(0);
    details.addEventListener("toggle", open);
    if (openDepth > 0) {
        details.open = true;
        open();
    }
    return details;
}

function label(name) {
    return (
        name !== null && [
            make("span.key", {}, make("bdi", {}, typeof name === "number" ? String(name) : brief(name, 100))),
            make("span.colon", {}, ": "),
        ]
    );
}

function leaf(value) {
    if (typeof value === "string") return shownText(value, "span.string");
    return make(`span.${value === null ? "null" : typeof value}`, {}, String(value));
}

function hint(value, keys, isList) {
    if (isList) return "";
    return brief(keys.slice(0, 5).join(", "), 60);
}
