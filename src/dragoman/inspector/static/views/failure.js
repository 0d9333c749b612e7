// Shows why something failed, with what helps against it.

import { button, make } from "../page/nodes.js";
import { brief, shownText, withoutColours } from "../page/texts.js";
import { jsonTree } from "../shown/json_tree.js";

const LAST = 3_000;

/** Return a box that says what failed and why. */
export function failureBox(failure, { stderr = "", actions = [], kind = "error" } = {}) {
    const tail = withoutColours(stderr).slice(-LAST);
    return make(
        "div.failure",
        { role: "alert", "data-kind": kind },
        make(
            "div.failure-head",
            {},
            make("strong", {}, brief(failure.kind ?? "Failure", 60)),
            failure.code !== null && failure.code !== undefined && make("code", {}, failure.code),
            failure.status && make("code", {}, `HTTP ${failure.status}`),
        ),
        shownText(String(failure.message ?? ""), "div.text.pre"),
        failure.remedy && make("p.remedy", {}, shownText(String(failure.remedy), "span")),
        failure.data !== null &&
            failure.data !== undefined &&
            make("details", {}, make("summary", {}, "Data of the error"), jsonTree(failure.data)),
        tail &&
            make(
                "details",
                { open: true },
                make("summary", {}, "What the server wrote to stderr"),
                shownText(tail, "pre.code"),
            ),
        actions.length > 0 &&
            make(
                "div.actions",
                {},
                actions.map(([label, run]) => button(label, run)),
            ),
    );
}
