// One message of the traffic, whole; what differs between two; and a request sent again, as it was or edited.

import { ask, askForFile } from "../../page/backend.js";
import { button, make, tabs } from "../../page/nodes.js";
import { named, notify, state } from "../../page/state.js";
import { brief, bytes, duration, shownText } from "../../page/texts.js";
import { differenceTable } from "../../shown/difference.js";
import { jsonTree } from "../../shown/json_tree.js";
import { copyButton, saveFile } from "../../shown/result.js";
import { failureBox } from "../failure.js";
import { Requester } from "../explore/request.js";

/** Return a node that shows a message. */
export async function messageDetail(number, actions) {
    let message;
    try {
        message = await ask("traffic/message", { number });
    } catch (failure) {
        return failureBox(failure, { actions: [["Close", actions.close]] });
    }
    const { row, head, data, text, cut } = message;
    const panels = [];
    if (data !== null) panels.push(["Tree", () => jsonTree(data, 4)]);
    panels.push([
        "Text",
        () =>
            make(
                "div.raw",
                {},
                copyButton(text),
                shownText(data !== null && !cut ? JSON.stringify(data, null, 2) : text, "pre.code"),
            ),
    ]);
    if (head && Object.keys(head).length) panels.push(["Record", () => jsonTree(head, 3)]);
    if (row.what === "request" && row.sender === "client" && data !== null)
        panels.push(["Replay", () => replay(row, data, actions)]);
    return make(
        "article.message-detail",
        {},
        make(
            "div.message-head",
            {},
            make("h3", {}, `${number} `, make("bdi", {}, brief(row.summary, 120))),
            button("✕", actions.close, { look: "quiet", "aria-label": "Close the message" }),
        ),
        make(
            "div.chips",
            {},
            facts(row).map((fact) => make("span.chip", {}, fact)),
            row.error && make("span.chip.bad", {}, brief(row.error, 120)),
        ),
        make(
            "div.actions",
            {},
            button("Mark", () => actions.mark(number), {
                look: "tiny",
                title: "Mark this message, to compare it with another",
            }),
            actions.marked !== null &&
                actions.marked !== number &&
                button(`Compare with ${actions.marked}`, actions.compare, { look: "tiny" }),
            row.span &&
                button("Its span", () => actions.filter(`span:${row.span}`), {
                    look: "tiny",
                    title: "Only the messages of this call",
                }),
            button("Export", () => actions.open("export", { numbers: [number] }), { look: "tiny" }),
            button(
                "Save",
                async () => {
                    const { blob, name } = await askForFile("traffic/download", { number });
                    saveFile(blob, name);
                },
                { look: "tiny" },
            ),
        ),
        cut && make("p.cut", {}, `The message has ${bytes(row.bytes)}. The beginning is shown; Save gives all of it.`),
        tabs("Ways to see the message", panels),
    );
}

function facts(row) {
    const found = [
        `from the ${row.sender}`,
        row.what ?? row.kind,
        named(row.server)?.name,
        row.ms !== null && duration(row.ms),
        bytes(row.bytes),
        row.event && `event ${row.event}`,
        row.exchange !== null && row.exchange !== undefined && `exchange ${row.exchange}`,
    ];
    return found.filter(Boolean).map((fact) => brief(String(fact), 60));
}

function replay(row, data, { open }) {
    const area = make("textarea.code", {
        rows: 12,
        "aria-label": "The request to send",
        spellcheck: "false",
        value: JSON.stringify(data, null, 2),
    });
    const targets = state.servers.filter((one) => one.status === "connected");
    const selector = make(
        "select",
        { "aria-label": "Server" },
        targets.map((one) => make("option", { value: one.id, selected: one.id === row.server }, brief(one.name, 40))),
    );
    const requester = new Requester({
        server: row.server,
        label: "Send again",
        open,
        verb: "traffic/replay",
        requestNow,
    });
    function requestNow() {
        try {
            return { number: row.number, message: JSON.parse(area.value), server: selector.value || undefined };
        } catch (error) {
            notify(`The JSON cannot be read: ${error.message}`, "error");
            return null;
        }
    }
    if (!targets.length) notify("No server is connected that could get the request again.", "warning");
    return make(
        "div.replay",
        {},
        make("p.quiet", {}, "Edit it, or send it as it was. The id and the session are those of the connection now."),
        area,
        make("label.inline", {}, "To ", selector),
        requester.bar,
        requester.outcome,
    );
}

/** Return a node that shows what differs between two messages. */
export async function compared(before, after, close) {
    try {
        const [one, other] = await Promise.all([before, after].map((number) => ask("traffic/message", { number })));
        return make(
            "article.message-detail",
            {},
            make(
                "div.message-head",
                {},
                make("h3", {}, `Messages ${before} and ${after}`),
                button("✕", close, { look: "quiet", "aria-label": "Close the comparison" }),
            ),
            differenceTable(one.data ?? one.text, other.data ?? other.text, [`Message ${before}`, `Message ${after}`]),
        );
    } catch (failure) {
        return failureBox(failure, { actions: [["Close", close]] });
    }
}
