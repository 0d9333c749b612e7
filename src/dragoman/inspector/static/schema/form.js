// A form made from a JSON Schema. Each field owns its part of the value and hands changes up, so that typing redraws
// nothing; only adding, removing and choosing redraw the field that they concern.
//
// A field that is emptied is "not given", and is left out of the value, because servers refuse null or "" where
// something is optional. Null is sent only where the schema allows it and somebody asks for it.

import { button, fill, freshId, make } from "../page/nodes.js";
import { brief, shownText } from "../page/texts.js";
import { branchOf, equal, fieldOf, initialValue, isObject } from "./resolve.js";

const INPUT_TYPES = { date: "date", time: "text", email: "email", uri: "url", url: "url", password: "password" };
const EXAMPLES = {
    "date-time": "2026-01-31T12:00:00Z",
    time: "12:00:00",
    uri: "https://",
    uuid: "00000000-0000-0000-0000-000000000000",
};
const DEEPEST = 12;

/** Return the node of a form; `onchange(value)` hears every change, and `complete(name, value)` suggests texts. */
export function schemaForm(schema, value, onchange, complete = null) {
    const root = isObject(schema) ? schema : {};
    const context = { root, complete };
    return make(
        "div.form",
        {},
        control(schema, value, onchange, {
            ...context,
            name: "arguments",
            isRequired: true,
            isRoot: true,
            depth: 0,
            labelId: null,
        }),
    );
}

function control(schema, value, set, context) {
    const field = fieldOf(schema, context.root);
    const draw = context.depth > DEEPEST ? jsonControl : (CONTROLS[field.kind] ?? jsonControl);
    return draw(field, value, set, context);
}

function labelled(name, schema, value, set, context) {
    const field = fieldOf(schema, context.root);
    const id = freshId("field");
    const inner = { ...context, name, id, labelId: `${id}-label`, depth: context.depth + 1, isRoot: false };
    const about = field.schema.description;
    const body = make("div.control");
    const redraw = (next) =>
        fill(body, control(schema, next, set, { ...inner, describedBy: about ? `${id}-about` : null }));
    redraw(value);
    const isPlain = !["object", "array", "choice"].includes(field.kind);
    const label = make(
        isPlain ? "label" : "span.label",
        { id: `${id}-label`, for: isPlain ? id : null },
        make("bdi", {}, brief(name, 80)),
        context.isRequired && make("span.required", { title: "required" }, " *"),
    );
    const type = make("span.type", {}, describeType(field));
    const nullButton =
        field.nullable &&
        field.kind !== "null" &&
        button(
            "null",
            () => {
                set(null);
                redraw(null);
            },
            { look: "tiny", title: `Send null as ${name}` },
        );
    return make(
        "div.field",
        { "data-field": name },
        make("div.field-head", {}, label, type, nullButton),
        about && aboutNode(about, `${id}-about`),
        body,
    );
}

function aboutNode(text, id) {
    const node = shownText(text, "div.about");
    node.id = id;
    return node;
}

function describeType(field) {
    const kind = { any: "any JSON", choice: "one of several", enum: "choice" }[field.kind] ?? field.kind;
    const format = field.schema.format ? `, ${field.schema.format}` : "";
    return brief(`${kind}${format}${field.nullable ? " or null" : ""}`, 60);
}

function attributesOf(context) {
    return {
        id: context.id,
        "aria-labelledby": context.labelId,
        "aria-describedby": context.describedBy,
        "aria-required": context.isRequired ? "true" : null,
    };
}

function stringControl(field, value, set, context) {
    const type = INPUT_TYPES[field.schema.format];
    const isSingle = type !== undefined || context.complete !== null || field.schema.contentEncoding === "base64";
    const node = make(isSingle ? "input" : "textarea", {
        ...attributesOf(context),
        type: isSingle ? (type ?? "text") : null,
        rows: isSingle ? null : 1,
        spellcheck: "false",
        autocomplete: "off",
        placeholder: value === null ? "null" : EXAMPLES[field.schema.format],
        value: value === undefined || value === null ? "" : String(value),
        oninput: () => set(node.value === "" && !context.isRequired ? undefined : node.value),
    });
    if (context.complete) return suggesting(node, context);
    if (field.schema.contentEncoding === "base64" || field.schema.format === "byte") return withFile(node, set);
    return node;
}

function suggesting(node, context) {
    const list = make("datalist", { id: freshId("suggestions") });
    let asked = 0;
    node.setAttribute("list", list.id);
    node.addEventListener("input", async () => {
        asked += 1;
        const mine = asked;
        const values = await context.complete(context.name, node.value);
        if (mine === asked)
            fill(
                list,
                values.map((one) => make("option", { value: one })),
            );
    });
    return make("div.suggesting", {}, node, list);
}

function withFile(node, set) {
    const file = make("input", {
        type: "file",
        "aria-label": "Take the content of a file",
        onchange: async () => {
            const bytes = new Uint8Array(await file.files[0].arrayBuffer());
            let text = "";
            for (let place = 0; place < bytes.length; place += 8_192)
                text += String.fromCharCode(...bytes.subarray(place, place + 8_192));
            node.value = btoa(text);
            set(node.value);
        },
    });
    return make("div.stack", {}, node, file);
}

function numberControl(field, value, set, context) {
    const warning = make("div.warning", { role: "status" });
    const node = make("input", {
        ...attributesOf(context),
        type: "text",
        inputmode: field.kind === "integer" ? "numeric" : "decimal",
        autocomplete: "off",
        placeholder: value === null ? "null" : null,
        value: value === undefined || value === null ? "" : String(value),
        oninput: () => {
            const text = node.value.trim();
            const number = Number(text);
            const isNumber =
                text !== "" && Number.isFinite(number) && (field.kind !== "integer" || Number.isInteger(number));
            node.setAttribute("aria-invalid", String(text !== "" && !isNumber));
            fill(warning, text !== "" && !isNumber && `This is no ${field.kind}. It is sent as text.`);
            set(text === "" ? undefined : isNumber ? number : node.value);
        },
    });
    return make("div.stack", {}, node, warning);
}

function booleanControl(field, value, set, context) {
    if (context.isRequired && !field.nullable) {
        const node = make("input", {
            ...attributesOf(context),
            "aria-required": null,
            type: "checkbox",
            checked: value === true,
            onchange: () => set(node.checked),
        });
        return node;
    }
    return optionControl(field, value, set, context, [
        { value: true, label: "true" },
        { value: false, label: "false" },
    ]);
}

function enumControl(field, value, set, context) {
    return optionControl(field, value, set, context, field.options);
}

function optionControl(field, value, set, context, options) {
    const place = options.findIndex((option) => equal(option.value, value));
    const isOdd = place < 0 && value !== undefined && value !== null;
    const node = make(
        "select",
        {
            ...attributesOf(context),
            onchange: () =>
                set(
                    node.value === ""
                        ? undefined
                        : node.value === "null"
                          ? null
                          : node.value === "odd"
                            ? value
                            : options[Number(node.value)].value,
                ),
        },
        make("option", { value: "", selected: value === undefined }, context.isRequired ? "Choose…" : "(not given)"),
        isOdd &&
            make("option", { value: "odd", selected: true }, `${brief(JSON.stringify(value), 60)} (not an option)`),
        options.map((option, index) =>
            make("option", { value: index, selected: index === place }, brief(option.label, 100)),
        ),
        field.nullable && make("option", { value: "null", selected: value === null }, "null"),
    );
    return node;
}

function constantControl(field, value, set, context) {
    const shown = JSON.stringify(field.schema.const);
    if (context.isRequired) return make("output", { ...attributesOf(context), "aria-required": null }, brief(shown));
    const node = make("input", {
        ...attributesOf(context),
        type: "checkbox",
        checked: value !== undefined,
        onchange: () => set(node.checked ? field.schema.const : undefined),
    });
    return make("div.inline", {}, node, brief(shown));
}

function nullControl(field, value, set, context) {
    return make("output", { ...attributesOf(context), "aria-required": null }, "null");
}

/** A part that may be left out: it offers to be added, and to be removed. */
function optional(value, set, context, { empty, draw }) {
    if (context.isRoot) return draw(value ?? empty());
    const place = make("div.part", { role: "group", "aria-labelledby": context.labelId });
    function show(next, hasChanged = false) {
        if (hasChanged) set(next);
        if (next === undefined || next === null)
            fill(place, [
                next === null && make("code", {}, "null "),
                button(`Add ${brief(context.name, 40)}`, () => show(empty(), true), { look: "quiet" }),
            ]);
        else
            fill(
                place,
                draw(next),
                !context.isRequired &&
                    button("Remove", () => show(undefined, true), {
                        look: "tiny",
                        "aria-label": `Remove ${context.name}`,
                    }),
            );
    }
    show(value);
    return place;
}

function objectControl(field, value, set, context) {
    return optional(value, set, context, {
        empty: () => initialValue({ ...field.schema, default: undefined }, context.root) ?? {},
        draw: (given) =>
            isObject(given) ? objectFields(field, given, set, context) : jsonControl(field, given, set, context),
    });
}

function objectFields(field, given, set, context) {
    const current = { ...given };
    const change = (name) => (next) => {
        if (next === undefined) delete current[name];
        else current[name] = next;
        set({ ...current });
    };
    const properties = Object.entries(field.schema.properties ?? {});
    const required = new Set(field.schema.required ?? []);
    const more = field.schema.additionalProperties;
    const extra = Object.keys(current).filter((name) => !(name in (field.schema.properties ?? {})));
    const box = make("div.extra");
    const extraField = (name, next) => {
        const row = make(
            "div.removable",
            {},
            labelled(name, isObject(more) ? more : {}, next, change(name), { ...context, isRequired: true }),
            button(
                "Remove",
                () => {
                    change(name)(undefined);
                    row.remove();
                },
                { look: "tiny", "aria-label": `Remove ${name}` },
            ),
        );
        return row;
    };
    fill(
        box,
        extra.map((name) => extraField(name, current[name])),
    );
    const offersMore = more !== false && (isObject(more) || !properties.length) && !(context.isRoot && !isObject(more));
    return make(
        "div.object",
        {},
        properties.map(([name, schema]) =>
            labelled(name, schema, current[name], change(name), { ...context, isRequired: required.has(name) }),
        ),
        !properties.length && !extra.length && !offersMore && make("p.quiet", {}, "No arguments."),
        box,
        offersMore &&
            propertyAdder((name) => {
                if (name in current) return;
                const next = initialValue(isObject(more) ? more : {}, context.root) ?? "";
                change(name)(next);
                box.append(extraField(name, next));
            }),
    );
}

function propertyAdder(add) {
    const name = make("input", {
        type: "text",
        placeholder: "name of a property",
        "aria-label": "Name of a property to add",
        autocomplete: "off",
        onkeydown: (event) =>
            event.key === "Enter" && !event.ctrlKey && !event.metaKey && (event.preventDefault(), use()),
    });
    function use() {
        if (name.value) add(name.value);
        name.value = "";
    }
    return make("div.inline.adder", {}, name, button("Add", use, { look: "quiet" }));
}

function arrayControl(field, value, set, context) {
    return optional(value, set, context, {
        empty: () => [],
        draw: (given) =>
            Array.isArray(given) ? arrayItems(field, given, set, context) : jsonControl(field, given, set, context),
    });
}

function arrayItems(field, given, set, context) {
    let current = [...given];
    const list = make("ol.items");
    const schemaAt = (place) =>
        field.schema.prefixItems?.[place] ?? (isObject(field.schema.items) ? field.schema.items : {});
    const choices = chosenFromEnum(field, context);
    if (choices) return manyOf(choices, given, set, context);
    function show() {
        fill(
            list,
            current.map((item, place) =>
                make(
                    "li",
                    {},
                    labelled(
                        `${context.name} ${place + 1}`,
                        schemaAt(place),
                        item,
                        (next) => {
                            current[place] = next ?? null;
                            set([...current]);
                        },
                        { ...context, isRequired: true },
                    ),
                    button("Remove", () => change(current.filter((_, other) => other !== place)), {
                        look: "tiny",
                        "aria-label": `Remove ${context.name} ${place + 1}`,
                    }),
                ),
            ),
        );
    }
    function change(next) {
        current = next;
        set([...current]);
        show();
    }
    show();
    return make(
        "div.array",
        {},
        list,
        button(
            "Add item",
            () => {
                change([
                    ...current,
                    initialValue(schemaAt(current.length), context.root) ??
                        emptyOf(schemaAt(current.length), context.root),
                ]);
                list.lastElementChild?.querySelector("input,textarea,select")?.focus();
            },
            { look: "quiet", "aria-label": `Add item to ${context.name}` },
        ),
    );
}

function emptyOf(schema, root) {
    return { string: "", number: 0, integer: 0 }[fieldOf(schema, root).kind] ?? null;
}

function chosenFromEnum(field, context) {
    if (!isObject(field.schema.items) || field.schema.prefixItems) return null;
    const item = fieldOf(field.schema.items, context.root);
    return item.kind === "enum" && field.schema.uniqueItems === true ? item.options : null;
}

function manyOf(options, given, set, context) {
    let current = [...given];
    return make(
        "div.many",
        { role: "group", "aria-labelledby": context.labelId },
        options.map((option) => {
            const box = make("input", {
                type: "checkbox",
                checked: current.some((one) => equal(one, option.value)),
                onchange: () => {
                    current = current
                        .filter((one) => !equal(one, option.value))
                        .concat(box.checked ? [option.value] : []);
                    set([...current]);
                },
            });
            return make("label.inline", {}, box, brief(option.label, 100));
        }),
    );
}

function choiceControl(field, value, set, context) {
    const { root } = context;
    const options = field.options;
    const body = make("div.branch");
    const isGiven = value !== undefined && value !== null;
    const start = isGiven || context.isRoot ? branchOf(value ?? {}, options, root) : context.isRequired ? 0 : -1;
    const kept = new Map([[start, value]]);
    const selector = make(
        "select",
        {
            ...attributesOf(context),
            "aria-label": context.labelId ? null : "Which of the alternatives",
            onchange: () => choose(Number(selector.value)),
        },
        !context.isRequired && make("option", { value: -1, selected: start < 0 }, "(not given)"),
        options.map((option, place) =>
            make("option", { value: place, selected: place === start }, brief(option.label, 80)),
        ),
    );
    function draw(place, next) {
        fill(
            body,
            place >= 0 &&
                control(
                    options[place].schema,
                    next,
                    (changed) => {
                        kept.set(place, changed);
                        set(changed);
                    },
                    { ...context, id: freshId("field"), isRequired: true, isRoot: true, depth: context.depth + 1 },
                ),
        );
    }
    function choose(place) {
        const next = place < 0 ? undefined : (kept.get(place) ?? initialValue(options[place].schema, root));
        kept.set(place, next);
        set(next);
        draw(place, next);
    }
    draw(start, value);
    return make("div.choice", {}, selector, body);
}

function jsonControl(field, value, set, context) {
    const warning = make("div.warning", { role: "status" });
    const node = make("textarea.code", {
        ...attributesOf(context),
        "aria-label": context.labelId ? null : "JSON",
        rows: 2,
        spellcheck: "false",
        placeholder: "JSON, or plain text",
        value:
            value === undefined
                ? ""
                : typeof value === "string" && value !== ""
                  ? value
                  : value === ""
                    ? ""
                    : JSON.stringify(value, null, 2),
        oninput: () => {
            if (node.value.trim() === "") return set(context.isRequired ? "" : undefined);
            try {
                set(JSON.parse(node.value));
                fill(warning);
            } catch {
                set(node.value);
                fill(warning, "This is no JSON. It is sent as text.");
            }
        },
    });
    return make("div.stack", {}, node, warning);
}

const CONTROLS = {
    string: stringControl,
    number: numberControl,
    integer: numberControl,
    boolean: booleanControl,
    enum: enumControl,
    constant: constantControl,
    null: nullControl,
    object: objectControl,
    array: arrayControl,
    choice: choiceControl,
    any: jsonControl,
};
