// Traffic: every message both ways as it passes, with a filter, a time line, statistics, a difference and a replay.

import { ask } from "../page/backend.js";
import { button, fill, make } from "../page/nodes.js";
import { listen, named, notify, state } from "../page/state.js";
import { brief, bytes, duration } from "../page/texts.js";
import { VirtualList } from "../page/virtual_list.js";
import { fileMenu } from "./traffic/files.js";
import { compared, messageDetail } from "./traffic/message.js";
import { Rows } from "./traffic/rows.js";
import { statistics } from "./traffic/statistics.js";
import { timeLine } from "./traffic/time_line.js";

const ARROWS = { client: "→", server: "←", tap: "·" };
const BELL_MILLISECONDS = 150;
const HEADS = ["#", "Time", "", "Message", "Id", "ms", "Bytes"];

class TrafficView {
    constructor({ open }) {
        this.open = open;
        this.marked = null;
        this.chosen = null;
        this.bell = null;
        this.rows = new Rows(
            (why) => this.drawRows(why),
            () => this.list.followsEnd,
        );
        this.makeNodes();
        listen("servers", () => this.drawServers());
        listen("traffic", () => this.ring());
        this.drawServers();
        this.search();
    }

    makeNodes() {
        this.filter = make("input", {
            type: "search",
            placeholder: "method:tools/* error >500ms text",
            "aria-label": "Filter",
            "data-search": true,
            autocomplete: "off",
            spellcheck: "false",
            oninput: () => this.search(),
        });
        this.servers = make("select", { "aria-label": "Server", onchange: () => this.search() });
        this.word = make("span.quiet", { role: "status" });
        this.aside = make("div.message-pane", { hidden: true });
        this.extra = make("div.extra-pane", { hidden: true });
        this.list = new VirtualList({
            label: "Messages",
            draw: cells,
            onchoose: (row, event) => this.choose(row, event),
            ontop: () => this.growUp(),
            onend: () => this.ring(),
        });
        const heads = HEADS.map((head) => make("span", {}, head));
        const rowsPane = make(
            "div.rows-pane",
            {},
            make("div.row.heads", { "aria-hidden": "true" }, heads),
            this.list.node,
        );
        this.node = make(
            "div.view.traffic",
            {},
            make("h2.hidden-label", {}, "Traffic"),
            this.toolbar(),
            make("div.filter-word", {}, this.word),
            this.extra,
            make("div.traffic-panes", {}, rowsPane, this.aside),
        );
    }

    toolbar() {
        const queryNow = () => this.queryNow();
        const filterBy = (words) => this.filterBy(words);
        const menu = fileMenu({
            queryNow,
            onopen: (id) => this.show({ server: id }),
            onclear: () => {
                this.close();
                this.search();
            },
        });
        const switches = [
            this.toggle("Time line", () => timeLine(queryNow(), (number) => this.showNumber(number))),
            this.toggle("Statistics", () => statistics(queryNow(), filterBy)),
        ];
        return make("div.toolbar", {}, this.filter, this.servers, switches, menu);
    }

    /** A button that shows something above the rows, or hides it. */
    toggle(label, draw) {
        const press = () => {
            const isOn = one.getAttribute("aria-pressed") !== "true";
            for (const other of one.parentNode.querySelectorAll("[aria-pressed]"))
                other.setAttribute("aria-pressed", "false");
            one.setAttribute("aria-pressed", String(isOn));
            this.extra.hidden = !isOn;
            fill(this.extra, isOn && draw());
        };
        const one = button(label, press, { "aria-pressed": "false" });
        return one;
    }

    queryNow() {
        return { filter: this.filter.value.trim() || undefined, server: this.servers.value || undefined };
    }

    search() {
        return this.rows.search(this.queryNow()).catch((failure) => notify(failure.message, "error"));
    }

    filterBy(words) {
        this.filter.value = words;
        return this.search();
    }

    /** Fetch what came, soon; a page that nobody sees fetches nothing. */
    ring() {
        if (this.bell || this.node.hidden) return;
        this.bell = setTimeout(() => {
            this.bell = null;
            this.rows.grow().catch(() => {});
        }, BELL_MILLISECONDS);
    }

    async growUp() {
        const added = await this.rows.growUp().catch(() => 0);
        if (added) this.list.prepend(this.rows.rows, added);
    }

    drawRows(why) {
        const { rows, error, matched, kept, dropped, skipped, behind } = this.rows;
        if (why === "search") this.list.followsEnd = true;
        this.list.setRows(rows);
        const count = (number) => number.toLocaleString("en");
        const words = [`${count(matched)} of ${count(kept)} messages`];
        if (dropped) words.push(`${count(dropped)} oldest dropped`);
        if (behind) words.push(`${count(behind)} newer below: press End to see the newest`);
        if (skipped)
            words.push(
                `sampled: ${count(skipped)} came faster than the list can show them. Scroll up or filter to see them,` +
                    " or save them all as a session file",
            );
        this.filter.setAttribute("aria-invalid", String(error !== null));
        fill(this.word, error ? `The filter is wrong: ${brief(error)}` : words.join(" · "));
    }

    drawServers() {
        const before = this.servers.value;
        const option = (one) => make("option", { value: one.id, selected: one.id === before }, brief(one.name, 40));
        const all = [...state.servers, ...state.sessions];
        fill(this.servers, make("option", { value: "" }, "All servers"), all.map(option));
    }

    choose(row, event) {
        const isOther = this.chosen !== null && this.chosen !== row.number;
        if (event?.shiftKey && isOther) this.compare(this.chosen, row.number);
        else this.showNumber(row.number);
    }

    async showNumber(number) {
        this.chosen = number;
        this.list.select(number);
        this.aside.hidden = false;
        this.node.dataset.detail = "true";
        const shown = await messageDetail(number, {
            open: this.open,
            marked: this.marked,
            mark: (one) => this.mark(one),
            compare: () => this.compare(this.marked, number),
            filter: (words) => this.filterBy(words),
            close: () => this.close(),
        });
        if (this.chosen === number) fill(this.aside, shown);
    }

    mark(number) {
        this.marked = number;
        this.list.mark(number);
        notify(`Message ${number} is marked. Choose another one to compare.`);
    }

    async compare(before, after) {
        this.aside.hidden = false;
        fill(this.aside, await compared(before, after, () => this.close()));
    }

    close() {
        this.aside.hidden = true;
        this.chosen = null;
        this.node.removeAttribute("data-detail");
        this.list.node.focus();
    }

    /** Show the view: as it was, or a server, a filter, or the messages of a request. */
    show(detail) {
        if (!detail) return this.rows.grow({ wasAway: true }).catch(() => {});
        this.servers.value = detail.server ?? (detail.numbers ? "" : this.servers.value);
        this.filter.value = detail.filter ?? (detail.numbers ? "" : this.filter.value);
        return this.search().then(() => detail.numbers && this.showNumber(detail.numbers.at(-1)));
    }

    commands() {
        const clear = () => ask("traffic/clear").then(() => this.search());
        return [
            { name: "Show errors only", hint: "traffic", run: () => this.open("traffic", { filter: "error" }) },
            { name: "Clear all messages", hint: "traffic", run: clear },
        ];
    }
}

export const traffic = (frame) => new TrafficView(frame);

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
