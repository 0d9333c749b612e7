// The doctor in place: every step of a connection, with the requests, the responses and the rule that each follows.

import { ask } from "../../page/backend.js";
import { fill, make } from "../../page/nodes.js";
import { listen, state } from "../../page/state.js";
import { brief, duration, shownText } from "../../page/texts.js";
import { failureBox } from "../failure.js";

/** Return the place where the doctor's findings about a server appear, and what runs it. */
export function doctor(id) {
    const list = make("ol.findings");
    const word = make("p.quiet", { role: "status" });
    const node = make("section", { hidden: true }, make("h4", {}, "Steps of the connection"), word, list);
    let isRunning = false;

    function draw() {
        const findings = state.findings.get(id) ?? [];
        node.hidden = !findings.length && !isRunning;
        fill(word, isRunning ? "Looking at every step…" : "");
        fill(list, findings.map(shownFinding));
    }
    async function run() {
        if (isRunning) return;
        isRunning = true;
        state.findings.set(id, []);
        draw();
        try {
            state.findings.set(id, (await ask("servers/examine", { server: id })).findings);
        } catch (failure) {
            node.append(failureBox(failure));
        }
        isRunning = false;
        draw();
    }
    listen("findings", (server) => server === id && draw());
    listen("examine", (server) => server === id && run());
    return { node, run };
}

function shownFinding(finding) {
    const mark = finding.ok ? (finding.remark ? "note" : "ok") : "bad";
    return make(
        "li",
        { "data-mark": mark },
        make(
            "div.finding-head",
            {},
            make(
                "span.mark",
                { role: "img", "aria-label": { ok: "passed", note: "remark", bad: "failed" }[mark] },
                { ok: "✓", note: "!", bad: "✗" }[mark],
            ),
            make("strong", {}, brief(finding.step, 60)),
            " ",
            shownText(String(finding.detail ?? ""), "span"),
        ),
        finding.remedy && make("p.remedy", {}, shownText(finding.remedy, "span")),
        finding.rule && make("p.rule", {}, `Rule: ${brief(finding.rule, 300)}`),
        (finding.exchanges ?? []).map(shownExchange),
    );
}

function shownExchange(exchange) {
    const { request, response } = exchange;
    const outcome = response ? `${response.status}` : brief(exchange.failure ?? "no response", 200);
    return make(
        "details.exchange",
        {},
        make(
            "summary",
            {},
            make("code", {}, `${request.method} ${brief(request.url, 160)}`),
            ` → ${outcome} `,
            make("span.quiet", {}, duration(exchange.ms)),
        ),
        half("Request", `${request.method} ${request.url}`, request),
        response && half("Response", String(response.status), response),
    );
}

function half(name, first, { headers = [], body }) {
    const text = [first, ...headers.map(([key, value]) => `${key}: ${value}`), "", body ?? ""].join("\n").trimEnd();
    return make("div", {}, make("div.quiet", {}, name), shownText(text, "pre.code"));
}
