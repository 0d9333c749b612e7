// Traffic: every message both ways as it passes, with a filter, a time line, statistics, a difference and a replay.

import { ask, askForFile, upload } from "../page/backend.js";
import { button, fill, make } from "../page/nodes.js";
import { listen, named, notify, putSession, state } from "../page/state.js";
import { brief, bytes, duration } from "../page/texts.js";
import { VirtualList } from "../page/virtual_list.js";
import { saveFile } from "../shown/result.js";
import { compared, messageDetail } from "./traffic/message.js";
import { Rows } from "./traffic/rows.js";
import { statistics } from "./traffic/statistics.js";
import { timeLine } from "./traffic/time_line.js";

const ARROWS = { client: "→", server: "←", tap: "·" };
const BELL_MILLISECONDS = 150;

export function traffic({ open }) {
    const rows = new Rows(redraw);
    const filter = make("input", {
        type: "search",
        placeholder: "method:tools/* error >500ms text",
        "aria-label": "Filter",
        "data-search": true,
        autocomplete: "off",
        spellcheck: "false",
        oninput: () => search(),
    });
    const servers = make("select", { "aria-label": "Server", onchange: () => search() });
    const word = make("span.quiet", { role: "status" });
    const aside = make("div.message-pane", { hidden: true });
    const extra = make("div.extra-pane", { hidden: true });
    const list = new VirtualList({ label: "Messages", draw: cells, onchoose: chosen });
    const node = make(
        "div.view.traffic",
        {},
        make("h2.hidden-label", {}, "Traffic"),
        make(
            "div.toolbar",
            {},
            filter,
            servers,
            toggle("Time line", () => timeLine(queryNow(), (number) => showNumber(number))),
            toggle("Statistics", () =>
                statistics(queryNow(), (words) => {
                    filter.value = words;
                    search();
                }),
            ),
            fileMenu(),
        ),
        make("div.filter-word", {}, word),
        extra,
        make(
            "div.traffic-panes",
            {},
            make(
                "div.rows-pane",
                {},
                make(
                    "div.row.heads",
                    { "aria-hidden": "true" },
                    ["#", "Time", "", "Message", "Id", "ms", "Bytes"].map((head) => make("span", {}, head)),
                ),
                list.node,
            ),
            aside,
        ),
    );
    let marked = null;
    let chosenNumber = null;
    let bell = null;

    function queryNow() {
        return { filter: filter.value.trim() || undefined, server: servers.value || undefined };
    }
    function search() {
        return rows.search(queryNow()).catch((failure) => notify(failure.message, "error"));
    }
    function redraw(why) {
        if (why === "search") list.followsEnd = true;
        list.setRows(rows.rows);
        const sampled = rows.hasSkipped
            ? " · sampled: more came than the page can show, and the filter finds the rest"
            : "";
        const dropped = rows.dropped ? ` · ${rows.dropped.toLocaleString("en")} oldest dropped` : "";
        filter.setAttribute("aria-invalid", String(rows.error !== null));
        fill(
            word,
            rows.error
                ? `The filter is wrong: ${brief(rows.error)}`
                : `${rows.matched.toLocaleString("en")} of ${rows.kept.toLocaleString("en")} messages${dropped}${sampled}`,
        );
    }
    list.node.addEventListener("scroll", async () => {
        if (list.node.scrollTop > 200 || !rows.rows.length) return;
        const added = await rows.growUp().catch(() => 0);
        if (!added) return;
        const top = list.node.scrollTop;
        list.followsEnd = false;
        list.setRows(rows.rows);
        list.node.scrollTop = top + added * list.rowHeight;
    });

    function chosen(row, event) {
        if (event?.shiftKey && chosenNumber !== null && chosenNumber !== row.number)
            return compare(chosenNumber, row.number);
        return showNumber(row.number);
    }
    function showNumber(number) {
        chosenNumber = number;
        list.chosen = number;
        list.show();
        aside.hidden = false;
        node.dataset.detail = "true";
        const actions = {
            close,
            mark,
            marked,
            compare: () => compare(marked, number),
            open,
            filter: (words) => {
                filter.value = words;
                search();
            },
        };
        messageDetail(number, actions).then((shown) => chosenNumber === number && fill(aside, shown));
    }
    function mark(number) {
        marked = number;
        list.marked = new Set([number]);
        list.show();
        notify(`Message ${number} is marked. Choose another one to compare.`);
    }
    function compare(before, after) {
        aside.hidden = false;
        compared(before, after, close).then((shown) => fill(aside, shown));
    }
    function close() {
        aside.hidden = true;
        chosenNumber = null;
        node.removeAttribute("data-detail");
        list.node.focus();
    }

    function toggle(label, draw) {
        const one = button(
            label,
            () => {
                const isOn = one.getAttribute("aria-pressed") !== "true";
                for (const other of node.querySelectorAll(".toolbar [aria-pressed]"))
                    other.setAttribute("aria-pressed", "false");
                one.setAttribute("aria-pressed", String(isOn));
                extra.hidden = !isOn;
                fill(extra, isOn && draw());
            },
            { "aria-pressed": "false" },
        );
        return one;
    }
    function fileMenu() {
        const file = make("input", {
            type: "file",
            accept: ".mcpsession,.jsonl",
            hidden: true,
            onchange: () => upload(file.files[0]).then(opened, failed),
        });
        const path = make("input", {
            type: "text",
            "aria-label": "Path of a session file",
            placeholder: "/path/to/a.mcpsession",
            onkeydown: (event) => event.key === "Enter" && follow(),
        });
        const opened = ({ session }) => {
            putSession(session);
            servers.value = session.id;
            search();
        };
        const failed = (failure) => notify(failure.message, "error");
        const follow = () => ask("traffic/open", { path: path.value, follow: true }).then(opened, failed);
        return make(
            "details.menu",
            {},
            make("summary", {}, "Session file"),
            make(
                "div.menu-body",
                {},
                button("Save what is shown", () =>
                    askForFile("traffic/save", queryNow()).then(({ blob, name }) => saveFile(blob, name), failed),
                ),
                button("Open a file…", () => file.click()),
                file,
                make(
                    "div.inline",
                    {},
                    path,
                    button("Follow", follow, { title: "Shows rows while `dragoman tap` writes them" }),
                ),
                button("Clear all messages", () =>
                    ask("traffic/clear").then(() => {
                        close();
                        rows.clear();
                        search();
                    }, failed),
                ),
            ),
        );
    }
    function drawServers() {
        const before = servers.value;
        fill(
            servers,
            make("option", { value: "" }, "All servers"),
            [...state.servers, ...state.sessions].map((one) =>
                make("option", { value: one.id, selected: one.id === before }, brief(one.name, 40)),
            ),
        );
    }

    listen("servers", drawServers);
    listen("traffic", (event) => {
        if (bell || node.hidden) return;
        bell = setTimeout(() => {
            bell = null;
            rows.grow(event.last).catch(() => {});
        }, BELL_MILLISECONDS);
    });
    drawServers();
    search();

    function show(detail) {
        if (detail?.server) servers.value = detail.server;
        if (detail?.numbers) {
            filter.value = "";
            servers.value = "";
        }
        if (detail?.filter !== undefined) filter.value = detail.filter;
        const searched = detail ? search() : rows.grow(Infinity).catch(() => {});
        if (detail?.numbers) searched.then(() => showNumber(detail.numbers.at(-1)));
    }
    const commands = () => [
        { name: "Show errors only", hint: "traffic", run: () => open("traffic", { filter: "error" }) },
        { name: "Clear all messages", hint: "traffic", run: () => ask("traffic/clear").then(search) },
    ];
    return { node, show, commands };
}

function said(row) {
    if (row.error && !row.summary.includes(row.error)) return `${row.summary} · ${row.error}`;
    return row.summary || "(empty)";
}

function cells(row) {
    const time = new Date(row.time * 1_000);
    const stamp = `${time.toLocaleTimeString("en-GB")}.${String(time.getMilliseconds()).padStart(3, "0")}`;
    return [
        make("span.number", {}, row.number),
        make("span.time", {}, stamp),
        make("span.arrow", { "data-sender": row.sender, title: `from the ${row.sender}` }, ARROWS[row.sender] ?? ""),
        make(
            "span.summary",
            { "data-kind": row.kind, "data-what": row.what, "data-error": row.error !== null },
            make("bdi", {}, brief(said(row), 160)),
            state.servers.length + state.sessions.length > 1 &&
                make("span.of", {}, brief(named(row.server)?.name ?? row.server, 24)),
        ),
        make("span.id", {}, row.id === null ? "" : brief(String(row.id), 12)),
        make("span.ms", {}, row.ms === null ? "" : duration(row.ms)),
        make("span.size", {}, bytes(row.bytes)),
    ];
}
