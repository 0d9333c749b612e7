// Authorization of one server: who is logged in, log in, refresh, log out, and what a token says.

import { ask } from "../../page/backend.js";
import { button, fill, link, make } from "../../page/nodes.js";
import { connect, listen } from "../../page/state.js";
import { brief } from "../../page/texts.js";
import { jsonTree } from "../../shown/json_tree.js";
import { failureBox } from "../failure.js";

/** Return the part of a server's card about its authorization. */
export function authorization(id) {
    const facts = make("div.facts-line");
    const busy = make("div", { role: "status" });
    const decoded = make("div.decoded");
    const node = make("section", { hidden: true }, make("h4", {}, "Authorization"), facts, busy, decoded);
    let shown = "";

    async function act(verb, parameters = {}) {
        fill(busy, verb === "begin" ? "Waiting for the login…" : "");
        fill(decoded);
        try {
            const answer = await ask(`login/${verb}`, { server: id, ...parameters });
            fill(busy);
            if (verb === "begin") await connect(id);
            return answer;
        } catch (failure) {
            fill(busy, failureBox(failure));
            return null;
        }
    }
    async function decode(token) {
        const answer = await act("decode", { token });
        if (!answer) return;
        fill(
            decoded,
            answer.opaque
                ? make("p.quiet", {}, "The token is opaque: it is no JSON Web Token, and only its issuer can read it.")
                : jsonTree({ header: answer.header, claims: answer.claims, expired: answer.expired }, 3),
        );
    }
    function update(server) {
        const { login } = server;
        node.hidden = server.carrier !== "http" || (login === null && server.status !== "login");
        const next = JSON.stringify([login, server.status]);
        if (next === shown) return;
        shown = next;
        fill(
            facts,
            make("dl", {}, login?.loggedIn ? rows(login) : [make("dt", {}, "Logged in"), make("dd", {}, "no")]),
            make(
                "div.actions",
                {},
                button(login?.loggedIn ? "Log in again" : "Log in", () => act("begin"), {
                    look: login?.loggedIn ? "" : "primary",
                }),
                login?.canRefresh && button("Refresh", () => act("refresh")),
                login?.accessToken && button("Decode the token", () => decode("access")),
                login?.loggedIn && button("Log out", () => act("end")),
            ),
        );
    }
    listen("login", (event) => {
        if (event.server !== id) return;
        const opened = window.open(event.url, "_blank", "noopener");
        fill(
            busy,
            opened === null ? "Log in here: " : "Waiting for the login in the other tab. ",
            link(event.url, brief(event.url, 120)),
        );
    });
    return { node, update };
}

function rows(login) {
    const expires = login.expiresAt ? new Date(login.expiresAt * 1_000).toLocaleString() : null;
    const facts = {
        "Logged in": "yes",
        Issuer: login.issuer,
        Scopes: (login.scopes ?? []).join(" "),
        "Access token": login.accessToken,
        Expires: expires,
    };
    return Object.entries(facts)
        .filter(([, value]) => value)
        .map(([key, value]) => [make("dt", {}, key), make("dd", {}, make("bdi", {}, brief(value, 200)))]);
}
