// Export: a call or a session as a pytest test, a cassette, curl, a Python client or HAR.

import { ask } from "../page/backend.js";
import { button, fill, make } from "../page/nodes.js";
import { chosenServer, listen, state } from "../page/state.js";
import { brief, shownText } from "../page/texts.js";
import { copyButton, saveFile } from "../shown/result.js";
import { failureBox } from "./failure.js";

const FORMATS = { pytest: "pytest test", python: "Python client", curl: "curl", cassette: "cassette", har: "HAR" };

export function exporting() {
    const numbers = make("input", {
        type: "text",
        id: "export-numbers",
        placeholder: "all",
        autocomplete: "off",
        oninput: soon,
    });
    const filter = make("input", {
        type: "text",
        id: "export-filter",
        placeholder: "method:tools/call",
        autocomplete: "off",
        spellcheck: "false",
        "data-search": true,
        oninput: soon,
    });
    const servers = make("select", { id: "export-server", onchange: draw });
    const formats = make(
        "div.formats",
        { role: "radiogroup", "aria-label": "Format" },
        Object.entries(FORMATS).map(([format, label], place) =>
            make(
                "label.inline",
                {},
                make("input", { type: "radio", name: "format", value: format, checked: place === 0, onchange: draw }),
                label,
            ),
        ),
    );
    const preview = make("div.preview");
    const field = (label, control) => make("div.field", {}, make("label", { for: control.id }, label), control);
    const node = make(
        "div.view.export",
        {},
        make("div.view-head", {}, make("h2", {}, "Export")),
        make(
            "div.fields",
            {},
            field("Server", servers),
            field("Numbers of messages", numbers),
            field("Filter", filter),
        ),
        formats,
        preview,
    );
    let timer = null;
    let asked = 0;

    function soon() {
        clearTimeout(timer);
        timer = setTimeout(draw, 250);
    }
    async function draw() {
        asked += 1;
        const mine = asked;
        const wanted = numbers.value
            .split(/[\s,]+/)
            .map(Number)
            .filter((one) => Number.isInteger(one) && one > 0);
        const parameters = {
            format: formats.querySelector("input:checked").value,
            numbers: wanted.length ? wanted : undefined,
            server: servers.value || undefined,
            filter: filter.value.trim() || undefined,
        };
        try {
            const made = await ask("export/make", parameters);
            if (mine !== asked) return;
            fill(
                preview,
                make(
                    "div.actions",
                    {},
                    make("code", {}, brief(made.name, 80)),
                    copyButton(made.text),
                    button("Save", () => saveFile(new Blob([made.text], { type: made.type }), made.name), {
                        look: "tiny",
                    }),
                ),
                shownText(made.text, "pre.code"),
            );
        } catch (failure) {
            if (mine === asked) fill(preview, failureBox(failure));
        }
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
    drawServers();
    function show(detail) {
        if (detail?.numbers) {
            numbers.value = detail.numbers.join(", ");
            filter.value = "";
            servers.value = "";
        }
        if (!detail && !servers.value && state.servers.length > 1) servers.value = chosenServer()?.id ?? "";
        draw();
    }
    return { node, show };
}
