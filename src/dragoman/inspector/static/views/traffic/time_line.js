// The time line: one bar for each call with its rounds, each task with its polls, each stream; a mark for each message.

import { ask } from "../../page/backend.js";
import { button, fill, make } from "../../page/nodes.js";
import { brief, duration } from "../../page/texts.js";
import { failureBox } from "../failure.js";

const MOST = 100;

/** Return the time line of the newest spans; choosing a bar shows its last message. */
export function timeLine(query, choose) {
    const place = make("div.time-line", {}, make("p.quiet", {}, "Loading…"));
    ask("traffic/spans", { ...query, limit: MOST }).then(
        ({ spans }) => fill(place, spans.length ? bars(spans, choose) : make("p.quiet", {}, "No call yet.")),
        (failure) => fill(place, failureBox(failure)),
    );
    return place;
}

/** Return where a span lies between the first and the last moment, in percent. */
export function placed(begin, end, first, last) {
    const whole = Math.max(last - first, 0.001);
    const left = ((begin - first) / whole) * 100;
    return { left, width: Math.max(0.4, ((end - begin) / whole) * 100) };
}

function bars(spans, choose) {
    const endOf = (span) => span.end ?? Math.max(span.begin, ...span.marks.map((mark) => mark.time));
    const first = Math.min(...spans.map((span) => span.begin));
    const last = Math.max(...spans.map(endOf));
    const scale = make(
        "div.scale",
        { "aria-hidden": "true" },
        [0, 0.25, 0.5, 0.75, 1].map((part) => make("span", {}, duration((last - first) * 1_000 * part))),
    );
    return [
        scale,
        make(
            "ol.spans",
            { tabindex: "0", "aria-label": "Spans" },
            spans.map((span) => bar(span, endOf(span), first, last, choose)),
        ),
    ];
}

function bar(span, end, first, last, choose) {
    const { left, width } = placed(span.begin, end, first, last);
    const line = make("span.bar", {
        "data-kind": span.kind,
        "data-error": span.error !== null,
        "data-open": span.end === null,
    });
    line.style.left = `${left}%`;
    line.style.width = `${width}%`;
    const marks = span.marks.slice(0, 200).map((mark) => {
        const dot = make("span.tick", { "data-what": mark.what });
        dot.style.left = `${placed(mark.time, mark.time, first, last).left}%`;
        return dot;
    });
    const name = brief(span.label || span.method || span.kind, 40);
    const length = span.end === null ? "open" : duration((end - span.begin) * 1_000);
    const shown = `${length}${span.rounds > 1 ? `, ${span.rounds} rounds` : ""}`;
    return make(
        "li",
        {},
        button(
            [
                make(
                    "span.span-name",
                    {},
                    make("bdi", {}, name),
                    make("span.quiet", {}, ` ${shown}`),
                ),
                make("span.lane", {}, line, marks),
            ],
            () => choose(span.marks.at(-1)?.number),
            {
                look: "span",
                // The name for screen readers begins with what is seen.
                "aria-label": `${name} ${shown}, ${span.kind} ${span.method ?? ""}, ${span.messages} messages${span.error ? `, ${brief(span.error, 80)}` : ""}`,
            },
        ),
    );
}
