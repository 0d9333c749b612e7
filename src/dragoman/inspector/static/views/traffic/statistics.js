// Statistics of the traffic: for each method how many, how quick, how large.

import { ask } from "../../page/backend.js";
import { button, fill, make } from "../../page/nodes.js";
import { brief, bytes, duration } from "../../page/texts.js";
import { failureBox } from "../failure.js";

/** Return a table of statistics; choosing a method filters by it. */
export function statistics(query, choose) {
    const place = make("div.statistics", {}, make("p.quiet", {}, "Counting…"));
    ask("traffic/statistics", query).then(
        ({ methods, messages, bytes: total }) =>
            fill(
                place,
                methods.length ? grid(methods, choose) : make("p.quiet", {}, "No request yet."),
                make("p.quiet", {}, `${messages.toLocaleString("en")} messages, ${bytes(total)}`),
            ),
        (failure) => fill(place, failureBox(failure)),
    );
    return place;
}

function grid(methods, choose) {
    const heads = ["Method", "Count", "Errors", "p50", "p95", "Max", "Bytes"];
    return make(
        "div.table-place",
        { tabindex: "0", role: "region", "aria-label": "Statistics" },
        make(
            "table.numbers",
            {},
            make(
                "thead",
                {},
                make(
                    "tr",
                    {},
                    heads.map((head) => make("th", { scope: "col" }, head)),
                ),
            ),
            make(
                "tbody",
                {},
                methods.map((one) =>
                    make(
                        "tr",
                        {},
                        make(
                            "td",
                            {},
                            button(brief(one.method ?? "", 60), () => choose(`method:${one.method}`), {
                                look: "quiet",
                            }),
                        ),
                        make("td", {}, one.count),
                        make("td", { class: one.errors ? "bad" : null }, one.errors),
                        [one.p50, one.p95, one.max].map((value) => make("td", {}, duration(value))),
                        make("td", {}, bytes(one.bytes)),
                    ),
                ),
            ),
        ),
    );
}
