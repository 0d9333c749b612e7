// Starts the page: the frame with its five views, the keyboard, the palette, and the socket.

import { ask } from "./page/backend.js";
import { button, fill, make, redraw } from "./page/nodes.js";
import { makePalette } from "./page/palette.js";
import { chooseServer, listen, notify, start, state } from "./page/state.js";
import { brief } from "./page/texts.js";
import { applyTheme, isDark, toggleTheme } from "./page/theme.js";
import { explore } from "./views/explore.js";
import { exporting } from "./views/export.js";
import { questions } from "./views/questions.js";
import { servers } from "./views/servers.js";
import { traffic } from "./views/traffic.js";

const VIEWS = {
    servers: ["Servers", servers],
    explore: ["Explore", explore],
    traffic: ["Traffic", traffic],
    questions: ["Questions", questions],
    export: ["Export", exporting],
};
const NOTICE_MILLISECONDS = 6_000;

const made = {};
let current = "";
const main = make("main", { id: "main", tabindex: "-1" });
const navigation = make("ul.views");
const serverList = make("ul.server-list");
const notices = make("div.notices", { role: "status", "aria-live": "polite" });
const connection = make("div.connection", { role: "alert", hidden: true });
const asked = make("div.asked", { role: "alert", hidden: true });
const palette = makePalette(commands);

/** Show a view; `detail` goes to its `show`. */
function open(name, detail) {
    current = name;
    for (const [other, view] of Object.entries(made)) view.node.hidden = other !== name;
    if (!made[name]) {
        made[name] = VIEWS[name][1]({ open });
        main.append(made[name].node);
    }
    const parameters = new URLSearchParams(location.hash.slice(1));
    parameters.set("view", name);
    history.replaceState(null, "", `#${parameters}`);
    document.title = `${VIEWS[name][0]} · Dragoman Inspector`;
    made[name].show?.(detail);
    drawNavigation();
}

function drawNavigation() {
    const waiting = state.questions.length;
    redraw(
        navigation,
        Object.entries(VIEWS).map(([name, [label]], place) =>
            make(
                "li",
                {},
                button(
                    [
                        label,
                        name === "questions" &&
                            waiting > 0 &&
                            make("span.badge", { "aria-label": `${waiting} waiting` }, waiting),
                    ],
                    () => open(name),
                    { "aria-current": name === current ? "page" : null, title: `Alt+${place + 1}` },
                ),
            ),
        ),
    );
    asked.hidden = !waiting || current === "questions";
    const first = state.questions[0];
    if (first)
        fill(
            asked,
            "A server asks: ",
            make("bdi", {}, brief(first.params?.message ?? first.params?.name ?? first.kind, 80)),
            " ",
            button("Answer", () => open("questions"), { look: "primary" }),
        );
}

function drawServers() {
    redraw(
        serverList,
        state.servers.map((server) =>
            make(
                "li",
                {},
                button(
                    [
                        make("span.dot", { "data-status": server.status, role: "img", "aria-label": server.status }),
                        make("bdi", {}, brief(server.name, 40)),
                    ],
                    () => {
                        chooseServer(server.id);
                        if (current !== "servers" && current !== "explore") open("explore");
                    },
                    { "aria-current": server.id === state.chosen ? "true" : null, title: server.target },
                ),
            ),
        ),
        !state.servers.length && make("li.quiet", {}, "No server yet"),
    );
}

function drawConnection() {
    connection.hidden = state.isConnected;
    fill(
        connection,
        state.isRefused
            ? "The token of this page is not valid any more. Open the URL that `dragoman inspect` printed."
            : "The inspector does not answer. It is asked again; nothing that you typed is lost.",
    );
}

function showNotice({ text, kind }) {
    const node = make(`div.notice`, { "data-kind": kind }, make("bdi", {}, brief(text, 200)));
    notices.append(node);
    while (notices.children.length > 4) notices.firstChild.remove();
    setTimeout(() => node.remove(), NOTICE_MILLISECONDS);
}

function commands() {
    const views = Object.entries(VIEWS).map(([name, [label]]) => ({
        name: label,
        hint: "view",
        run: () => open(name),
    }));
    const ofServers = state.servers.flatMap((server) => [
        {
            name: `Inspect ${server.name}`,
            hint: "server",
            run: () => {
                chooseServer(server.id);
                open("explore");
            },
        },
        {
            name: `${server.status === "connected" ? "Reconnect" : "Connect"} ${server.name}`,
            hint: "server",
            run: () =>
                ask("servers/connect", { server: server.id }).catch((failure) => notify(failure.message, "error")),
        },
    ]);
    const others = Object.values(made).flatMap((view) => view.commands?.() ?? []);
    return [
        ...others,
        ...views,
        ...ofServers,
        { name: isDark() ? "Light theme" : "Dark theme", hint: "appearance", run: toggleTheme },
    ];
}

function pressed(event) {
    const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
    const place = event.altKey && /^Digit[1-5]$/.test(event.code) ? Number(event.code.slice(5)) - 1 : -1;
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") palette.open();
    else if (place >= 0) open(Object.keys(VIEWS)[place]);
    else if (event.key === "/" && !isTyping) made[current]?.node.querySelector("[data-search]")?.focus();
    else return;
    event.preventDefault();
}

applyTheme();
document.body.append(
    make(
        "a.skip",
        {
            href: "#main",
            onclick: (event) => {
                event.preventDefault();
                main.focus();
            },
        },
        "Skip to the content",
    ),
    make(
        "div.shell",
        {},
        make(
            "header.side",
            {},
            make(
                "div.brand",
                {},
                make("img", { src: "icon.svg", alt: "", width: 22, height: 22 }),
                make("h1", {}, "Dragoman ", make("span", {}, "Inspector")),
            ),
            make("nav", { "aria-label": "Views" }, navigation),
            make(
                "section.servers-side",
                { "aria-labelledby": "servers-side" },
                make("h2", { id: "servers-side" }, "Servers"),
                serverList,
            ),
            make(
                "div.side-foot",
                {},
                button(["Commands ", make("kbd", { "aria-hidden": "true" }, "Ctrl K")], () => palette.open(), {
                    look: "quiet",
                    title: "Ctrl K",
                }),
                button("◐", toggleTheme, { look: "quiet", "aria-label": "Light or dark", title: "Light or dark" }),
            ),
        ),
        make("div.content", {}, connection, asked, main),
    ),
    notices,
    palette.node,
);
document.addEventListener("keydown", pressed);
for (const topic of ["servers", "chosen"]) listen(topic, drawServers);
listen("questions", drawNavigation);
listen("connection", drawConnection);
listen("notice", showNotice);
drawServers();
const wanted = new URLSearchParams(location.hash.slice(1)).get("view");
open(wanted !== null && wanted in VIEWS ? wanted : "servers");
start();
