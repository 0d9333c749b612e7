// URI templates (RFC 6570): the variables of a template, and the URI that values make of it.

const EXPRESSION = /\{([+#./;?&]?)([^{}]+)\}/g;
const STYLES = {
    "": { first: "", separator: ",", isNamed: false, isOpen: false },
    "+": { first: "", separator: ",", isNamed: false, isOpen: true },
    "#": { first: "#", separator: ",", isNamed: false, isOpen: true },
    ".": { first: ".", separator: ".", isNamed: false, isOpen: false },
    "/": { first: "/", separator: "/", isNamed: false, isOpen: false },
    ";": { first: ";", separator: ";", isNamed: true, isOpen: false },
    "?": { first: "?", separator: "&", isNamed: true, isOpen: false },
    "&": { first: "&", separator: "&", isNamed: true, isOpen: false },
};

/** Return the names of the variables, each once, with whether the URI needs it. */
export function variables(template) {
    const found = new Map();
    for (const [, operator, list] of template.matchAll(EXPRESSION))
        for (const one of list.split(","))
            found.set(nameOf(one), found.get(nameOf(one)) || !["?", "&", "#"].includes(operator));
    return [...found].map(([name, isRequired]) => ({ name, isRequired }));
}

/** Return the URI that a template and values make; a variable without a value is left out. */
export function expand(template, values) {
    return template.replace(EXPRESSION, (_, operator, list) => {
        const style = STYLES[operator];
        const parts = list
            .split(",")
            .filter((one) => values[nameOf(one)] !== undefined)
            .map((one) => part(one, values[nameOf(one)], style));
        return parts.length ? style.first + parts.join(style.separator) : "";
    });
}

function part(variable, value, style) {
    const length = Number(/:(\d+)$/.exec(variable)?.[1] ?? Infinity);
    const text = [...String(value)].slice(0, length).join("");
    const encoded = style.isOpen
        ? encodeURI(text)
        : encodeURIComponent(text).replace(/[!'()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`);
    return style.isNamed ? `${nameOf(variable)}=${encoded}` : encoded;
}

function nameOf(variable) {
    return variable.trim().replace(/(:\d+|\*)$/, "");
}
