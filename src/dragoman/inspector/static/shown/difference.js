// What differs between two JSON values: a list of paths. Nothing but `differenceTable` touches the DOM.

import { make } from "../page/nodes.js";
import { brief } from "../page/texts.js";
import { isObject } from "../schema/resolve.js";

const MOST = 500;

/** Return the differences of two values: `{path, kind: "added" | "removed" | "changed", before, after}`. */
export function differences(before, after) {
    const found = [];
    compare(before, after, "", found);
    return found.slice(0, MOST);
}

function compare(before, after, path, found) {
    if (before === after || found.length > MOST) return;
    const areObjects = isObject(before) && isObject(after);
    if (!areObjects && !(Array.isArray(before) && Array.isArray(after))) {
        found.push({ path: path || "/", kind: "changed", before, after });
        return;
    }
    for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
        const inner = `${path}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
        if (!(key in after)) found.push({ path: inner, kind: "removed", before: before[key] });
        else if (!(key in before)) found.push({ path: inner, kind: "added", after: after[key] });
        else compare(before[key], after[key], inner, found);
    }
}

/** Return a table of what differs between two values. */
export function differenceTable(before, after, names) {
    const found = differences(before, after);
    if (!found.length) return make("p.quiet", {}, "The two messages are equal.");
    const side = (value, isThere) => make("td", { dir: "auto" }, isThere ? brief(JSON.stringify(value), 400) : "—");
    return make(
        "div.table-place",
        { tabindex: "0", role: "region", "aria-label": "Differences" },
        make(
            "table.difference",
            {},
            make(
                "thead",
                {},
                make(
                    "tr",
                    {},
                    ["Path", ...names].map((name) => make("th", { scope: "col" }, name)),
                ),
            ),
            make(
                "tbody",
                {},
                found.map((one) =>
                    make(
                        "tr",
                        { "data-kind": one.kind },
                        make("td", {}, make("code", {}, brief(one.path, 200))),
                        side(one.before, "before" in one),
                        side(one.after, "after" in one),
                    ),
                ),
            ),
        ),
    );
}
