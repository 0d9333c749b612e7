// A form and its JSON side by side, in step: what is typed in one appears in the other. Text that is no JSON stays as it
// was typed, and the form keeps the last value that was JSON.

import { button, fill, freshId, make } from "../page/nodes.js";
import { check } from "./check.js";
import { schemaForm } from "./form.js";
import { equal, initialValue, isObject } from "./resolve.js";

export class SchemaEditor {
    /**
     * `onchange(value, text)` hears every change; `text` is given only while it is no JSON.
     *
     * @param {{
     *     schema: any,
     *     value?: any,
     *     text?: string | null,
     *     onchange?: (value: any, text: string | null) => void,
     *     complete?: any,
     * }} options
     */
    constructor({ schema, value, text = null, onchange = () => {}, complete = null }) {
        this.schema = isObject(schema) ? schema : { type: "object" };
        this.onchange = onchange;
        this.complete = complete;
        this.value = value ?? initialValue(this.schema, this.schema) ?? {};
        this.formPlace = make("div.form-place");
        this.problems = make("ul.problems", { "aria-live": "polite" });
        this.mistake = make("div.mistake", { role: "status" });
        const id = freshId("json");
        this.area = make("textarea.code", {
            id,
            spellcheck: "false",
            autocomplete: "off",
            oninput: () => this.typed(),
        });
        this.node = make(
            "div.editor",
            {},
            make("section", { "aria-label": "Form" }, this.formPlace, this.problems),
            make(
                "section.json",
                { "aria-label": "JSON" },
                make(
                    "div.field-head",
                    {},
                    make("label", { for: id }, "JSON"),
                    button("Format", () => this.format(), { look: "tiny" }),
                    button("Reset", () => this.reset(), {
                        look: "tiny",
                        title: "Start again with the defaults of the schema",
                    }),
                ),
                this.area,
                this.mistake,
            ),
        );
        this.drawForm();
        this.write();
        if (text !== null) {
            this.area.value = text;
            this.typed();
        }
    }

    /** Whether the JSON can be read. */
    get isReadable() {
        return this.text === null;
    }

    text = null;
    isTouched = false;

    drawForm() {
        fill(
            this.formPlace,
            schemaForm(this.schema, this.value, (value) => this.formChanged(value), this.complete),
        );
        this.judge();
    }

    formChanged(value) {
        this.isTouched = true;
        this.value = value;
        this.write();
        this.judge();
        this.onchange(value, null);
    }

    write() {
        this.text = null;
        this.area.value = this.value === undefined ? "" : JSON.stringify(this.value, null, 2);
        fill(this.mistake);
        this.area.removeAttribute("aria-invalid");
    }

    typed() {
        let value;
        try {
            value = this.area.value.trim() === "" ? {} : JSON.parse(this.area.value);
        } catch (error) {
            this.text = this.area.value;
            this.area.setAttribute("aria-invalid", "true");
            fill(this.mistake, `This is no JSON yet: ${error.message}`);
            this.onchange(this.value, this.text);
            return;
        }
        this.text = null;
        this.area.removeAttribute("aria-invalid");
        fill(this.mistake);
        if (!equal(value, this.value)) {
            this.value = value;
            this.drawForm();
        }
        this.onchange(value, null);
    }

    format() {
        if (this.isReadable) this.write();
    }

    reset() {
        this.set(initialValue(this.schema, this.schema) ?? {});
    }

    set(value) {
        this.value = value;
        this.drawForm();
        this.write();
        this.onchange(value, null);
    }

    judge() {
        const found = check(this.value, this.schema).filter(
            ({ message }) => this.isTouched || message !== "is required",
        );
        fill(
            this.problems,
            found
                .slice(0, 8)
                .map(({ path, message }) =>
                    make("li", {}, make("code", {}, path.slice(1) || "arguments"), ` ${message}`),
                ),
        );
    }
}
