// Servers: add, connect, switch the version, and see what a server is and why it fails.

import { ask } from "../page/backend.js";
import { button, fill, link, make, redraw } from "../page/nodes.js";
import { chosenServer, connect, listen, named, notify, state, tell } from "../page/state.js";
import { brief, harmless, shownText, withoutColours } from "../page/texts.js";
import { jsonTree } from "../shown/json_tree.js";
import { adder } from "./servers/adder.js";
import { doctor } from "./servers/doctor.js";
import { failureBox } from "./failure.js";
import { authorization } from "./servers/login.js";

export function servers({ open }) {
    const place = make("div.server-detail");
    const node = make(
        "div.view.servers",
        {},
        make("div.view-head", {}, make("h2", {}, "Servers")),
        adder(),
        openedFiles(open),
        place,
    );
    let card = null;

    function draw() {
        const server = chosenServer();
        if (!server) {
            card = null;
            fill(
                place,
                make(
                    "div.empty",
                    {},
                    make("p", {}, "No server yet."),
                    make("p.quiet", {}, "Give a URL, a command, a Python file or a configuration file above."),
                ),
            );
        } else if (card?.id !== server.id) {
            card = serverCard(server, open);
            fill(place, card.node);
        } else card.update(server);
    }
    listen("servers", draw);
    listen("chosen", draw);
    draw();
    return { node, show: draw };
}

function openedFiles(open) {
    const place = make("div.session-files");
    function draw() {
        fill(
            place,
            state.sessions.map((session) =>
                make(
                    "div.session-file",
                    {},
                    make("strong", {}, brief(session.name, 60)),
                    ` ${session.records} records${session.following ? ", followed" : ""} `,
                    session.failure && make("span.bad", {}, brief(session.failure.message)),
                    button("Show", () => open("traffic", { server: session.id }), { look: "tiny" }),
                    button(
                        "Close",
                        () =>
                            ask("traffic/close", { session: session.id }).catch((failure) =>
                                notify(failure.message, "error"),
                            ),
                        { look: "tiny" },
                    ),
                ),
            ),
        );
    }
    listen("servers", draw);
    draw();
    return place;
}

function serverCard(server, open) {
    const parts = {
        head: make("div.card-head"),
        failure: make("div.failure-place"),
        facts: make("div.facts"),
        stderr: make("div.stderr-place"),
    };
    const examined = doctor(server.id);
    const login = authorization(server.id);
    const node = make(
        "article.card",
        {},
        parts.head,
        parts.failure,
        login.node,
        examined.node,
        parts.facts,
        parts.stderr,
        logs(server.id),
    );
    let shownStatus = null;
    let shownFacts = "";
    function update(next) {
        drawHead(parts.head, next, open);
        fill(
            parts.failure,
            next.failure &&
                next.status !== "connected" &&
                failureBox(next.failure, { kind: next.status === "login" ? "warning" : "error" }),
        );
        const facts = JSON.stringify([next.capabilities, next.serverInfo, next.instructions]);
        if (facts !== shownFacts) drawFacts(parts.facts, next);
        shownFacts = facts;
        drawStderr(parts.stderr, next);
        login.update(next);
        if (next.status !== shownStatus && (next.status === "failed" || next.status === "login")) examined.run();
        shownStatus = next.status;
    }
    listen("stderr", (event) => event.server === server.id && drawStderr(parts.stderr, named(server.id)));
    update(server);
    return { id: server.id, node, update };
}

const STATUS = {
    connected: "connected",
    connecting: "connecting…",
    disconnected: "not connected",
    failed: "failed",
    login: "login needed",
};

function drawHead(place, server, open) {
    const versions = make(
        "select",
        {
            "aria-label": "Protocol version",
            title: "Switches the version and reconnects",
            onchange: () => connect(server.id, versions.value || null),
        },
        make("option", { value: "", selected: server.requestedVersion === null }, "negotiated"),
        state.versions.map((version) =>
            make("option", { value: version, selected: server.requestedVersion === version }, version),
        ),
    );
    const isConnected = server.status === "connected";
    redraw(
        place,
        make(
            "div.card-title",
            {},
            make("h3", {}, make("bdi", {}, brief(server.name, 60))),
            make(
                "span.status",
                { "data-status": server.status },
                make("span.dot", { "data-status": server.status, "aria-hidden": "true" }),
                STATUS[server.status] ?? server.status,
            ),
            server.version && make("span.chip", { title: "The protocol version of this connection" }, server.version),
            server.era && make("span.chip", {}, `${server.era} era`),
        ),
        make(
            "div.target",
            {},
            make("code", {}, make("bdi", {}, brief(server.target, 300))),
            make("span.quiet", {}, ` ${server.carrier}, from ${brief(server.source ?? "", 100)}`),
        ),
        make(
            "div.actions",
            {},
            button(isConnected ? "Reconnect" : "Connect", () => connect(server.id), {
                look: isConnected || server.status === "login" ? "" : "primary",
            }),
            isConnected && button("Explore", () => open("explore"), { look: "primary" }),
            make("label.inline", {}, "Version ", versions),
            isConnected &&
                button("Disconnect", () =>
                    ask("servers/disconnect", { server: server.id }).catch((failure) =>
                        notify(failure.message, "error"),
                    ),
                ),
            button("Examine", () => tell("examine", server.id), { title: "Look at every step of the connection" }),
            button(
                "Remove",
                () => ask("servers/remove", { server: server.id }).catch((failure) => notify(failure.message, "error")),
                { look: "quiet" },
            ),
        ),
    );
}

function drawFacts(place, server) {
    const info = server.serverInfo;
    fill(
        place,
        info &&
            section(
                "Server",
                make(
                    "dl",
                    {},
                    Object.entries(info)
                        .filter(([, value]) => typeof value === "string")
                        .map(([key, value]) => [
                            make("dt", {}, brief(key, 40)),
                            make(
                                "dd",
                                {},
                                key.toLowerCase().includes("url") ? link(value) : make("bdi", {}, brief(value, 300)),
                            ),
                        ]),
                ),
            ),
        server.instructions && section("Instructions", shownText(server.instructions, "div.text.pre")),
        server.capabilities && section("Capabilities", jsonTree(server.capabilities, 2)),
    );
}

function drawStderr(place, server) {
    if (!server?.stderr) return fill(place);
    const text = harmless(withoutColours(server.stderr)).slice(-8_000);
    const area = place.querySelector("pre") ?? make("pre.code.stderr", { tabindex: "0", "aria-label": "stderr" });
    const isAtEnd = area.scrollTop + area.clientHeight >= area.scrollHeight - 4;
    area.textContent = text;
    if (!area.isConnected) fill(place, section("stderr", area));
    if (isAtEnd) area.scrollTop = area.scrollHeight;
    return place;
}

function logs(id) {
    const list = make("ul.log", { tabindex: "0", "aria-label": "Log messages" });
    const levels = make(
        "select",
        {
            "aria-label": "Log level",
            onchange: () =>
                ask("explore/log_level", { server: id, level: levels.value }).catch((failure) =>
                    notify(failure.message, "error"),
                ),
        },
        ["debug", "info", "notice", "warning", "error", "critical"].map((level) =>
            make("option", { value: level, selected: level === "info" }, level),
        ),
    );
    const part = section("Log", list, make("label.inline", {}, "Level ", levels));
    function draw() {
        const mine = state.logs.filter((one) => one.server === id).slice(-100);
        const leftOut = state.leftOut.get(id);
        part.hidden = !mine.length && !named(id)?.capabilities?.logging;
        fill(
            list,
            mine.map((one) =>
                make(
                    "li",
                    { "data-level": one.level },
                    make("span.chip", {}, brief(one.level, 20)),
                    " ",
                    one.logger && make("code", {}, brief(one.logger, 60)),
                    " ",
                    brief(typeof one.data === "string" ? one.data : JSON.stringify(one.data), 500),
                ),
            ),
            !mine.length && make("li.quiet", {}, "No message yet."),
            leftOut &&
                make(
                    "li.quiet",
                    {},
                    `${leftOut.toLocaleString("en")} messages came faster than this list can show them. See the traffic.`,
                ),
        );
    }
    listen("logs", (servers) => servers.has(id) && draw());
    listen("servers", (changed) => changed === id && draw());
    draw();
    return part;
}

function section(title, ...children) {
    return make("section", {}, make("h4", {}, title), children);
}
