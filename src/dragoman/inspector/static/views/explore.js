// Explore: what a server offers, and what it answers. The form that is open stays as it is when the server goes away.

import { ask } from "../page/backend.js";
import { button, fill, make, moveAmong, redraw } from "../page/nodes.js";
import { chosenServer, connect, listen, named, state } from "../page/state.js";
import { brief, harmless } from "../page/texts.js";
import { KINDS } from "./explore/kinds.js";
import { itemDetail } from "./explore/item.js";
import { failureBox } from "./failure.js";

const AT_ONCE = 300;
const NARROW = "(max-width: 760px)";
const FIRST_FIELD = ".form input, .form textarea, .form select, .send-bar button";

class ExploreView {
    constructor({ open }) {
        this.open = open;
        this.kind = "tools";
        this.chosen = null;
        this.wasConnected = false;
        this.lists = new Map();
        this.makeNodes();
        listen("servers", (id) => {
            if (id === undefined || id === state.chosen || id === this.chosen?.server) this.show();
        });
        listen("chosen", () => this.begin());
        listen("changed", (event) => {
            if (event.kind === "list_changed" && event.server === state.chosen) this.load();
        });
        this.begin();
    }

    makeNodes() {
        this.kindRow = make("div.tabs.kinds", {
            role: "tablist",
            "aria-label": "Kinds",
            onkeydown: (event) => moveAmong(event, [...this.kindRow.children]),
        });
        this.search = make("input", {
            type: "search",
            placeholder: "Search",
            "aria-label": "Search the list",
            "data-search": true,
            oninput: () => this.drawItems(),
            onkeydown: (event) => this.intoList(event),
        });
        this.list = make("ul.items-list", { "aria-label": "Items", onkeydown: (event) => this.moveInList(event) });
        this.foot = make("div.list-foot");
        this.banner = make("div.banner", { hidden: true });
        this.detail = make("div.detail");
        this.detailPane = make("div.detail-pane", {}, this.banner, this.detail);
        const pane = { id: "explore-list", role: "tabpanel", "aria-label": "Items of this kind" };
        const title = make("h2.hidden-label", {}, "Explore");
        const listPane = make("div.list-pane", pane, title, this.kindRow, this.search, this.list, this.foot);
        this.node = make("div.view.explore", {}, listPane, this.detailPane);
    }

    /** Start again with the server that was chosen. */
    begin() {
        this.wasConnected = false;
        this.chosen = null;
        this.node.removeAttribute("data-detail");
        fill(this.detail, welcome());
        this.drawKinds();
        this.show();
    }

    /** Draw what the server's status changes; a server that came back is asked for its lists again. */
    show() {
        const isConnected = chosenServer()?.status === "connected";
        this.drawBanner();
        if (isConnected && !this.wasConnected) {
            for (const key of this.lists.keys())
                if (key.startsWith(`${state.chosen} `) && key !== this.listKey()) this.lists.delete(key);
            this.load();
        } else this.drawItems();
        this.wasConnected = isConnected;
    }

    listKey(kind = this.kind) {
        return `${state.chosen} ${kind}`;
    }

    itemKey(item) {
        return `${this.listKey()} ${KINDS[this.kind].nameOf(item)}`;
    }

    drawKinds() {
        const tab = ([name, { label }]) => {
            const count = this.lists.get(this.listKey(name))?.items.length;
            const attributes = {
                type: "button",
                role: "tab",
                "aria-selected": String(name === this.kind),
                tabindex: name === this.kind ? "0" : "-1",
                "aria-controls": "explore-list",
                onclick: () => this.chooseKind(name),
            };
            return make("button", attributes, label, count ? make("span.count", {}, count) : null);
        };
        redraw(this.kindRow, Object.entries(KINDS).map(tab));
    }

    chooseKind(kind) {
        this.kind = kind;
        this.search.value = "";
        this.drawKinds();
        this.drawItems();
        if (!this.lists.has(this.listKey())) this.load();
    }

    async load(cursor = undefined) {
        const server = chosenServer();
        if (server?.status !== "connected") return this.drawItems();
        const [key, kind] = [this.listKey(), this.kind];
        const before = cursor ? this.lists.get(key).items : [];
        if (!cursor) this.lists.set(key, { items: this.lists.get(key)?.items ?? [], isLoading: true });
        this.drawItems();
        try {
            const answer = await ask("explore/list", { server: server.id, kind, cursor });
            this.lists.set(key, { items: [...before, ...answer.items], nextCursor: answer.nextCursor });
        } catch (failure) {
            this.lists.set(key, { items: before, failure });
        }
        this.drawKinds();
        return this.drawItems();
    }

    drawItems() {
        const found = this.lists.get(this.listKey());
        const wanted = this.search.value.toLowerCase();
        const textOf = (item) => JSON.stringify([KINDS[this.kind].nameOf(item), item.title, item.description]);
        const items = (found?.items ?? []).filter((item) => !wanted || textOf(item).toLowerCase().includes(wanted));
        redraw(
            this.list,
            items.slice(0, AT_ONCE).map((item) => this.itemRow(item)),
        );
        const more = found?.nextCursor && button("Load more", () => this.load(found.nextCursor), { look: "quiet" });
        fill(this.foot, this.listWord(found, items, wanted), more, found?.failure && failureBox(found.failure));
    }

    itemRow(item) {
        const { nameOf, labelOf = nameOf } = KINDS[this.kind];
        const [name, label] = [nameOf(item), labelOf(item)];
        const about = item.description ?? (label === name ? (item.title ?? "") : name);
        const attributes = {
            type: "button",
            "aria-current": this.chosen?.key === this.itemKey(item) ? "true" : null,
            onclick: () => this.showItem(item),
        };
        const shown = make("span.item-name", {}, make("bdi", {}, brief(label ?? "", 100)));
        return make("li", {}, make("button.item", attributes, shown, make("span.item-about", {}, brief(about, 120))));
    }

    listWord(found, items, wanted) {
        const server = chosenServer();
        const said = (...words) => make("p.quiet", {}, words);
        if (!server)
            return said(
                "Add a server first. ",
                button("Servers", () => this.open("servers"), { look: "quiet" }),
            );
        if (found?.isLoading) return said("Loading…");
        if (found?.failure || (items.length && items.length <= AT_ONCE)) return null;
        if (items.length) return said(`${AT_ONCE} of ${items.length} are shown. Search for the others.`);
        if (wanted && found?.items.length) return said("Nothing matches.");
        if (server.status !== "connected") return said("The server is not connected.");
        return said(`The server has no ${KINDS[this.kind].label.toLowerCase()}.`);
    }

    showItem(item) {
        this.chosen = { key: this.itemKey(item), server: state.chosen };
        const back = button("‹ List", () => this.node.removeAttribute("data-detail"), { look: "quiet back" });
        fill(this.detail, back, itemDetail(chosenServer(), this.kind, item, { open: this.open }));
        this.node.dataset.detail = "true";
        this.drawItems();
        this.detailPane.scrollTop = 0;
        if (!matchMedia(NARROW).matches) this.detail.querySelector(FIRST_FIELD)?.focus({ preventScroll: true });
    }

    drawBanner() {
        const server = this.chosen ? named(this.chosen.server) : chosenServer();
        this.banner.hidden = !server || server.status === "connected";
        if (this.banner.hidden) return;
        const words = { connecting: "It is being connected.", login: "It needs a login." };
        fill(
            this.banner,
            make("strong", {}, make("bdi", {}, `${brief(server.name, 40)} is not connected. `)),
            make("span", {}, brief(server.failure?.message ?? words[server.status] ?? "", 300)),
            " ",
            server.status !== "connecting" && button("Connect", () => connect(server.id)),
            button("Why", () => this.open("servers"), { look: "quiet" }),
        );
    }

    intoList(event) {
        if (event.key !== "ArrowDown") return;
        event.preventDefault();
        this.list.querySelector("button")?.focus();
    }

    moveInList(event) {
        const buttons = [...this.list.querySelectorAll("button")];
        const next = buttons.indexOf(document.activeElement) + ({ ArrowDown: 1, ArrowUp: -1 }[event.key] ?? NaN);
        if (Number.isNaN(next)) return;
        event.preventDefault();
        (buttons[next] ?? (next < 0 ? this.search : buttons.at(-1)))?.focus();
    }

    commands() {
        const { nameOf, labelOf = nameOf, label } = KINDS[this.kind];
        const run = (item) => {
            this.open("explore");
            this.showItem(item);
        };
        const items = this.lists.get(this.listKey())?.items ?? [];
        return items.map((item) => ({
            name: harmless(String(labelOf(item))),
            hint: label.toLowerCase(),
            run: () => run(item),
        }));
    }
}

export const explore = (frame) => new ExploreView(frame);

function welcome() {
    const keys = [make("kbd", {}, "/"), " searches, ", make("kbd", {}, "Ctrl K"), " finds everything, "];
    return make(
        "div.empty",
        {},
        make("p", {}, "Choose something from the list."),
        make("p.quiet", {}, keys, make("kbd", {}, "Ctrl ↵"), " sends."),
    );
}
