// A list of objects as a table.

import { button, fill, make } from "../page/nodes.js";
import { brief } from "../page/texts.js";
import { isObject } from "../schema/resolve.js";

const AT_ONCE = 100;
const MOST_COLUMNS = 20;

/** Return the lists of objects in a value that a table can show: the value itself, or a property of it. */
export function listsOfObjects(value) {
    if (isList(value)) return [["", value]];
    if (!isObject(value)) return [];
    return Object.entries(value).filter(([, part]) => isList(part));
}

function isList(value) {
    return Array.isArray(value) && value.length > 0 && value.every(isObject);
}

/** Return a table of a list of objects, which sorts by a column when its head is pressed. */
export function table(rows, caption = "") {
    const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))].slice(0, MOST_COLUMNS);
    const body = make("tbody");
    let order = { column: null, isDown: false };
    let shown = AT_ONCE;
    const heads = columns.map((column) =>
        make(
            "th",
            { scope: "col" },
            button(make("bdi", {}, brief(column, 40)), () => sort(column), { look: "head" }),
        ),
    );
    const more = button(
        "",
        () => {
            shown *= 4;
            draw();
        },
        { look: "quiet" },
    );
    function sort(column) {
        order = { column, isDown: order.column === column && !order.isDown };
        draw();
    }
    function draw() {
        const sorted =
            order.column === null
                ? rows
                : [...rows].sort(
                      (one, other) => compare(one[order.column], other[order.column]) * (order.isDown ? -1 : 1),
                  );
        fill(
            body,
            sorted.slice(0, shown).map((row) =>
                make(
                    "tr",
                    {},
                    columns.map((column) => make("td", { dir: "auto" }, cell(row[column]))),
                ),
            ),
        );
        heads.forEach((head, place) =>
            head.setAttribute(
                "aria-sort",
                columns[place] !== order.column ? "none" : order.isDown ? "descending" : "ascending",
            ),
        );
        more.hidden = rows.length <= shown;
        fill(more, `Show more of ${rows.length} rows`);
    }
    draw();
    return make(
        "div.table-place",
        { tabindex: "0", role: "region", "aria-label": caption || "Table" },
        make(
            "table",
            {},
            caption && make("caption", {}, brief(caption)),
            make("thead", {}, make("tr", {}, heads)),
            body,
        ),
        more,
    );
}

function cell(value) {
    if (value === undefined) return "";
    return brief(typeof value === "string" ? value : JSON.stringify(value), 200);
}

function compare(one, other) {
    if (typeof one === "number" && typeof other === "number") return one - other;
    return String(one ?? "").localeCompare(String(other ?? ""));
}
