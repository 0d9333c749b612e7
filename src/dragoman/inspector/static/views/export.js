// Export: a call or a session as a pytest test, a cassette, curl, a Python client or HAR.

import { ask } from "../page/backend.js";
import { button, fill, make } from "../page/nodes.js";
import { chosenServer, listen, state } from "../page/state.js";
import { brief, shownText } from "../page/texts.js";
import { copyButton, saveFile } from "../shown/result.js";
import { failureBox } from "./failure.js";

const QUIET_MILLISECONDS = 250;
const FORMATS = { pytest: "pytest test", python: "Python client", curl: "curl", cassette: "cassette", har: "HAR" };

class ExportView {
    constructor() {
        const soon = () => this.drawSoon();
        const plain = { type: "text", autocomplete: "off", spellcheck: "false", oninput: soon };
        this.numbers = make("input", { ...plain, id: "export-numbers", placeholder: "all" });
        this.filter = make("input", {
            ...plain,
            id: "export-filter",
            placeholder: "method:tools/call",
            "data-search": true,
        });
        this.servers = make("select", { id: "export-server", onchange: () => this.draw() });
        this.formats = make("div.formats", { role: "radiogroup", "aria-label": "Format" }, this.choices());
        this.preview = make("div.preview");
        this.timer = null;
        this.asked = 0;
        const field = (label, control) => make("div.field", {}, make("label", { for: control.id }, label), control);
        const fields = [
            field("Server", this.servers),
            field("Numbers of messages", this.numbers),
            field("Filter", this.filter),
        ];
        const head = make("div.view-head", {}, make("h2", {}, "Export"));
        this.node = make("div.view.export", {}, head, make("div.fields", {}, fields), this.formats, this.preview);
        listen("servers", () => this.drawServers());
        this.drawServers();
    }

    choices() {
        const choice = (format) => ({ type: "radio", name: "format", value: format, onchange: () => this.draw() });
        return Object.entries(FORMATS).map(([format, label], place) =>
            make("label.inline", {}, make("input", { ...choice(format), checked: place === 0 }), label),
        );
    }

    drawServers() {
        const before = this.servers.value;
        const option = (one) => make("option", { value: one.id, selected: one.id === before }, brief(one.name, 40));
        const all = [...state.servers, ...state.sessions];
        fill(this.servers, make("option", { value: "" }, "All servers"), all.map(option));
    }

    drawSoon() {
        clearTimeout(this.timer);
        this.timer = setTimeout(() => this.draw(), QUIET_MILLISECONDS);
    }

    async draw() {
        this.asked += 1;
        const mine = this.asked;
        const numbers = this.numbers.value.match(/\d+/g)?.map(Number);
        let shown;
        try {
            shown = this.shownFile(
                await ask("export/make", {
                    format: this.formats.querySelector("input:checked").value,
                    numbers,
                    server: this.servers.value || undefined,
                    filter: this.filter.value.trim() || undefined,
                }),
            );
        } catch (failure) {
            shown = failureBox(failure);
        }
        if (mine === this.asked) fill(this.preview, shown);
    }

    shownFile({ name, type, text }) {
        const save = button("Save", () => saveFile(new Blob([text], { type }), name), { look: "tiny" });
        const actions = make("div.actions", {}, make("code", {}, brief(name, 80)), copyButton(text), save);
        return [actions, shownText(text, "pre.code")];
    }

    show(detail) {
        if (detail?.numbers) {
            this.numbers.value = detail.numbers.join(", ");
            this.filter.value = "";
            this.servers.value = "";
        } else if (!this.servers.value && state.servers.length > 1) this.servers.value = chosenServer()?.id ?? "";
        this.draw();
    }
}

export const exporting = () => new ExportView();
