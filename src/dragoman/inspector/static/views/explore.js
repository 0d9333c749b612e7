// Explore: what a server offers, and what it answers. The form that is open stays as it is when the server goes away.

import { ask } from "../page/backend.js";
import { button, fill, make, moveAmong, redraw } from "../page/nodes.js";
import { chosenServer, connect, listen, named, state } from "../page/state.js";
import { brief, harmless } from "../page/texts.js";
import { itemDetail } from "./explore/item.js";
import { failureBox } from "./failure.js";
import { KINDS } from "./explore/kinds.js";

const AT_ONCE = 300;
const NARROW = "(max-width: 760px)";

export function explore({ open }) {
    const kindRow = make("div.tabs.kinds", { role: "tablist", "aria-label": "Kinds" });
    const search = make("input", {
        type: "search",
        placeholder: "Search",
        "aria-label": "Search the list",
        "data-search": true,
        oninput: drawItems,
        onkeydown: intoList,
    });
    const list = make("ul.items-list", { "aria-label": "Items", onkeydown: moveInList });
    const foot = make("div.list-foot");
    const banner = make("div.banner", { hidden: true });
    const detail = make("div.detail");
    const node = make(
        "div.view.explore",
        {},
        make(
            "div.list-pane",
            { id: "explore-list", role: "tabpanel", "aria-label": "Items of this kind" },
            make("h2.hidden-label", {}, "Explore"),
            kindRow,
            search,
            list,
            foot,
        ),
        make("div.detail-pane", {}, banner, detail),
    );
    const lists = new Map();
    let kind = "tools";
    let chosen = null;
    let wasConnected = false;

    const listKey = () => `${state.chosen} ${kind}`;
    const found = () => lists.get(listKey());

    function drawKinds() {
        const buttons = Object.entries(KINDS).map(([name, { label }]) =>
            make(
                "button",
                {
                    type: "button",
                    role: "tab",
                    "aria-selected": String(name === kind),
                    tabindex: name === kind ? "0" : "-1",
                    "aria-controls": "explore-list",
                    onclick: () => choose(name),
                },
                label,
                lists.get(`${state.chosen} ${name}`)?.items.length
                    ? make("span.count", {}, lists.get(`${state.chosen} ${name}`).items.length)
                    : null,
            ),
        );
        redraw(kindRow, buttons);
    }
    kindRow.addEventListener("keydown", (event) => moveAmong(event, [...kindRow.children]));

    function choose(next) {
        kind = next;
        search.value = "";
        drawKinds();
        drawItems();
        if (!found()) load();
    }

    async function load(cursor = undefined) {
        const server = chosenServer();
        if (!server || server.status !== "connected") return drawItems();
        const [key, wanted] = [listKey(), kind];
        const before = cursor ? lists.get(key).items : [];
        if (!cursor) lists.set(key, { items: lists.get(key)?.items ?? [], isLoading: true });
        drawItems();
        try {
            const answer = await ask("explore/list", { server: server.id, kind: wanted, cursor });
            lists.set(key, { items: [...before, ...answer.items], nextCursor: answer.nextCursor });
        } catch (failure) {
            lists.set(key, { items: before, failure });
        }
        drawKinds();
        drawItems();
        return undefined;
    }

    function drawItems() {
        const server = chosenServer();
        const entry = found();
        const wanted = search.value.toLowerCase();
        const { nameOf, labelOf = nameOf } = KINDS[kind];
        const items = (entry?.items ?? []).filter(
            (item) =>
                !wanted ||
                JSON.stringify([nameOf(item), item.title, item.description])
                    .toLowerCase()
                    .includes(wanted),
        );
        redraw(
            list,
            items.slice(0, AT_ONCE).map((item) =>
                make(
                    "li",
                    {},
                    make(
                        "button.item",
                        {
                            type: "button",
                            "aria-current": chosen?.key === keyOf(item) ? "true" : null,
                            onclick: () => show(item),
                        },
                        make("span.item-name", {}, make("bdi", {}, brief(labelOf(item) ?? "", 100))),
                        make(
                            "span.item-about",
                            {},
                            brief(
                                item.description ??
                                    (labelOf(item) === nameOf(item) ? (item.title ?? "") : nameOf(item)),
                                120,
                            ),
                        ),
                    ),
                ),
            ),
        );
        fill(
            foot,
            listWord(server, entry, items, wanted),
            entry?.nextCursor && button("Load more", () => load(entry.nextCursor), { look: "quiet" }),
            entry?.failure && failureBox(entry.failure),
        );
    }

    function listWord(server, entry, items, wanted) {
        if (!server)
            return make(
                "p.quiet",
                {},
                "Add a server first. ",
                button("Servers", () => open("servers"), { look: "quiet" }),
            );
        if (entry?.isLoading) return make("p.quiet", {}, "Loading…");
        if (entry?.failure || (items.length && items.length <= AT_ONCE)) return null;
        if (items.length) return make("p.quiet", {}, `${AT_ONCE} of ${items.length} are shown. Search for the others.`);
        if (wanted && entry?.items.length) return make("p.quiet", {}, "Nothing matches.");
        return make(
            "p.quiet",
            {},
            server.status === "connected"
                ? `The server has no ${KINDS[kind].label.toLowerCase()}.`
                : "The server is not connected.",
        );
    }

    const keyOf = (item) => `${state.chosen} ${kind} ${KINDS[kind].nameOf(item)}`;

    function show(item) {
        chosen = { key: keyOf(item), server: state.chosen };
        fill(
            detail,
            button("‹ List", () => node.removeAttribute("data-detail"), { look: "quiet back" }),
            itemDetail(chosenServer(), kind, item, { open }),
        );
        node.dataset.detail = "true";
        drawItems();
        node.querySelector(".detail-pane").scrollTop = 0;
        if (!matchMedia(NARROW).matches)
            detail
                .querySelector(".form input, .form textarea, .form select, .send-bar button")
                ?.focus({ preventScroll: true });
    }

    function drawBanner() {
        const server = chosen ? named(chosen.server) : chosenServer();
        const isGone = server && server.status !== "connected";
        banner.hidden = !isGone;
        if (!isGone) return;
        const reason =
            server.failure?.message ??
            { connecting: "It is being connected.", login: "It needs a login." }[server.status] ??
            "";
        fill(
            banner,
            make("strong", {}, make("bdi", {}, `${brief(server.name, 40)} is not connected. `)),
            make("span", {}, brief(reason, 300)),
            " ",
            server.status !== "connecting" && button("Connect", () => connect(server.id)),
            button("Why", () => open("servers"), { look: "quiet" }),
        );
    }

    function refreshed() {
        const isConnected = chosenServer()?.status === "connected";
        drawBanner();
        if (isConnected && !wasConnected) {
            for (const key of [...lists.keys()].filter((one) => one.startsWith(`${state.chosen} `)))
                if (key !== listKey()) lists.delete(key);
            load();
        } else drawItems();
        wasConnected = isConnected;
    }

    function intoList(event) {
        if (event.key !== "ArrowDown") return;
        event.preventDefault();
        list.querySelector("button")?.focus();
    }
    function moveInList(event) {
        const buttons = [...list.querySelectorAll("button")];
        const next = buttons.indexOf(document.activeElement) + ({ ArrowDown: 1, ArrowUp: -1 }[event.key] ?? NaN);
        if (Number.isNaN(next)) return;
        event.preventDefault();
        (buttons[next] ?? (next < 0 ? search : buttons.at(-1)))?.focus();
    }

    listen("servers", (id) => (id === undefined || id === state.chosen || id === chosen?.server) && refreshed());
    listen("chosen", () => {
        wasConnected = false;
        chosen = null;
        node.removeAttribute("data-detail");
        fill(detail, welcome());
        drawKinds();
        refreshed();
    });
    listen("changed", (event) => event.kind === "list_changed" && event.server === state.chosen && load());
    drawKinds();
    fill(detail, welcome());
    refreshed();

    function commands() {
        return (found()?.items ?? []).map((item) => ({
            name: harmless(String((KINDS[kind].labelOf ?? KINDS[kind].nameOf)(item))),
            hint: KINDS[kind].label.toLowerCase(),
            run: () => {
                open("explore");
                show(item);
            },
        }));
    }
    return { node, commands, show: refreshed };
}

function welcome() {
    return make(
        "div.empty",
        {},
        make("p", {}, "Choose something from the list."),
        make(
            "p.quiet",
            {},
            make("kbd", {}, "/"),
            " searches, ",
            make("kbd", {}, "Ctrl K"),
            " finds everything, ",
            make("kbd", {}, "Ctrl ↵"),
            " sends.",
        ),
    );
}
