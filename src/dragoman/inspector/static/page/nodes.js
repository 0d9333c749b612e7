// Makes DOM nodes. Every text becomes a text node, so that no text of a server is ever read as HTML.

const PROPERTIES = new Set(["value", "checked", "disabled", "selected", "open", "hidden", "indeterminate", "readOnly"]);

/**
 * Return a new element: `make("button.primary", { onclick: call }, "Call")`.
 *
 * A key that starts with "on" is a listener. A value that is null, undefined or false leaves the attribute out. A child
 * is a node, a text, a list of children, or nothing.
 */
export function make(tag, attributes = {}, ...children) {
    const [name, ...classes] = tag.split(".");
    const node = document.createElement(name || "div");
    if (classes.length) node.className = classes.join(" ");
    for (const [key, value] of Object.entries(attributes ?? {})) setAttribute(node, key, value);
    node.append(...flat(children));
    return node;
}

function setAttribute(node, key, value) {
    if (value === null || value === undefined) return;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (PROPERTIES.has(key)) node[key] = value;
    else if (value !== false) node.setAttribute(key, value === true ? "" : String(value));
}

function flat(children) {
    return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

/** Replace everything in a node. */
export function fill(node, ...children) {
    node.replaceChildren(...flat(children));
    return node;
}

/** Replace everything in a node, and leave the focus where it was: on the control at the same place. */
export function redraw(node, ...children) {
    const controls = () => [...node.querySelectorAll("button, a, input, select, textarea, summary")];
    const place = controls().indexOf(document.activeElement);
    fill(node, ...children);
    if (place >= 0) controls()[place]?.focus({ preventScroll: true });
    return node;
}

/**
 * Return a button with a text, or with an icon and a label for screen readers.
 *
 * @param {any} label
 * @param {(event: MouseEvent) => any} onclick
 * @param {Record<string, any>} options
 */
export function button(label, onclick, { look = "", title = null, ...attributes } = {}) {
    return make("button", { type: "button", class: look || null, title, onclick, ...attributes }, label);
}

let lastId = 0;

/** Return an id that no other node of the page has. */
export function freshId(kind = "node") {
    lastId += 1;
    return `${kind}-${lastId}`;
}

/** Return a link to an address of a server, or its plain text where it is neither http nor https. */
export function link(address, label = address) {
    let url;
    try {
        url = new URL(address);
    } catch {
        return make("bdi", {}, label);
    }
    if (url.protocol !== "https:" && url.protocol !== "http:") return make("bdi", {}, label);
    return make("a", { href: url.href, target: "_blank", rel: "noopener noreferrer" }, make("bdi", {}, label));
}

/**
 * Return a row of tabs, and the panel of the one that is chosen; panels are made when they are first shown.
 *
 * @param {string} label
 * @param {any[][]} panels pairs of a label and a function that makes the panel
 * @param {{chosen?: number, onchoose?: (index: number) => void}} options
 */
export function tabs(label, panels, { chosen = 0, onchoose = () => {} } = {}) {
    const panel = make("div.panel", { role: "tabpanel", tabindex: "0", id: freshId("panel") });
    const made = new Map();
    const buttons = panels.map(([name], index) =>
        make(
            "button",
            {
                type: "button",
                role: "tab",
                id: freshId("tab"),
                "aria-controls": panel.id,
                onclick: () => choose(index),
            },
            name,
        ),
    );
    function choose(index, isQuiet = false) {
        buttons.forEach((one, place) => {
            one.setAttribute("aria-selected", String(place === index));
            one.tabIndex = place === index ? 0 : -1;
        });
        if (!made.has(index)) made.set(index, panels[index][1]());
        panel.setAttribute("aria-labelledby", buttons[index].id);
        fill(panel, made.get(index));
        if (!isQuiet) onchoose(index);
    }
    const row = make(
        "div.tabs",
        { role: "tablist", "aria-label": label, onkeydown: (event) => moveAmong(event, buttons) },
        buttons,
    );
    choose(Math.min(chosen, panels.length - 1), true);
    return make("div.tabbed", {}, row, panel);
}

/** Move the focus among tabs with the arrow keys, and choose the tab that gets it. */
export function moveAmong(event, buttons) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const place = buttons.indexOf(document.activeElement);
    if (step === undefined || place < 0) return;
    event.preventDefault();
    const next = buttons[(place + step + buttons.length) % buttons.length];
    next.focus();
    next.click();
}
