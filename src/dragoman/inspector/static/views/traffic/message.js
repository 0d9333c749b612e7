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
    const { row, cut } = message;
    const title = make("h3", {}, `${number} `, make("bdi", {}, brief(row.summary, 120)));
    const close = button("✕", actions.close, { look: "quiet", "aria-label": "Close the message" });
    const chips = facts(row).map((fact) => make("span.chip", {}, fact));
    if (row.error) chips.push(make("span.chip.bad", {}, brief(row.error, 120)));
    return make(
        "article.message-detail",
        {},
        make("div.message-head", {}, title, close),
        make("div.chips", {}, chips),
        make("div.actions", {}, buttonsOf(row, actions)),
        cut && make("p.cut", {}, `The message has ${bytes(row.bytes)}. The beginning is shown; Save gives all of it.`),
        tabs("Ways to see the message", panelsOf(message, actions)),
    );
}

function panelsOf({ row, head, data, text, cut }, actions) {
    const whole = data !== null && !cut ? JSON.stringify(data, null, 2) : text;
    const panels = [["Text", () => make("div.raw", {}, copyButton(text), shownText(whole, "pre.code"))]];
    if (data !== null) panels.unshift(["Tree", () => jsonTree(data, 4)]);
    if (head && Object.keys(head).length) panels.push(["Record", () => jsonTree(head, 3)]);
    const isRequest = row.what === "request" && row.sender === "client" && data !== null;
    if (isRequest) panels.push(["Replay", () => replay(row, data, actions)]);
    return panels;
}

function buttonsOf({ number, span }, { mark, marked, compare, filter, open }) {
    const tiny = (label, run, title) => button(label, run, { look: "tiny", title });
    const save = async () => {
        const { blob, name } = await askForFile("traffic/download", { number });
        saveFile(blob, name);
    };
    return [
        tiny("Mark", () => mark(number), "Mark this message, to compare it with another"),
        marked !== null && marked !== number && tiny(`Compare with ${marked}`, compare),
        span && tiny("Its span", () => filter(`span:${span}`), "Only the messages of this call"),
        tiny("Export", () => open("export", { numbers: [number] })),
        tiny("Save", save),
    ];
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
