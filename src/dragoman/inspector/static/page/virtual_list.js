// A list of any length that holds only the rows in sight in the DOM.
//
// All rows have one height, so the place of a row is arithmetic. Rows of many heights were rejected: every row above
// would have to be measured, and at 10,000 rows that costs more than everything else on the page.

import { fill, freshId, make } from "./nodes.js";

const AROUND = 12;
const MOST = 500;
const NEAR_TOP = 200;

export class VirtualList {
    /** `draw(row)` returns the cells of a row; `onchoose(row, event)`, `ontop()` and `onend()` hear what the reader does. */
    constructor({
        label,
        rowHeight = 28,
        draw,
        onchoose,
        ontop = () => {},
        onend = () => {},
        identify = (row) => row.number,
    }) {
        this.rowHeight = rowHeight;
        this.draw = draw;
        this.onchoose = onchoose;
        this.ontop = ontop;
        this.onend = onend;
        this.identify = identify;
        this.rows = [];
        this.chosen = null;
        this.marked = null;
        this.followsEnd = true;
        this.prefix = freshId("row");
        this.space = make("div.space", { role: "presentation" });
        this.node = make(
            "div.virtual-list",
            {
                role: "listbox",
                "aria-label": label,
                tabindex: "0",
                onscroll: () => this.scrolled(),
                onkeydown: (event) => this.pressed(event),
            },
            this.space,
        );
        new ResizeObserver(() => this.show()).observe(this.node);
    }

    /** Show other rows; a reader at the end stays at the end. */
    setRows(rows) {
        this.rows = rows;
        this.space.style.height = `${rows.length * this.rowHeight}px`;
        if (this.followsEnd) this.node.scrollTop = rows.length * this.rowHeight;
        this.show();
    }

    /** Show other rows, of which so many stand before those that were there; the reader stays where he reads. */
    prepend(rows, count) {
        const top = this.node.scrollTop;
        this.followsEnd = false;
        this.setRows(rows);
        this.node.scrollTop = top + count * this.rowHeight;
    }

    /** Make a row the chosen one, wherever it is. */
    select(key) {
        this.chosen = key;
        this.show();
    }

    /** Mark a row, besides the chosen one. */
    mark(key) {
        this.marked = key;
        this.show();
    }

    scrolled() {
        const before = this.followsEnd;
        this.followsEnd = this.node.scrollTop + this.node.clientHeight >= this.space.offsetHeight - this.rowHeight;
        this.show();
        if (this.followsEnd && !before) this.onend();
        if (this.node.scrollTop < NEAR_TOP && this.rows.length) this.ontop();
    }

    show() {
        const first = Math.max(0, Math.floor(this.node.scrollTop / this.rowHeight) - AROUND);
        const inSight = Math.ceil((this.node.clientHeight || 600) / this.rowHeight);
        const count = Math.min(MOST, inSight + 2 * AROUND);
        fill(
            this.space,
            this.rows.slice(first, first + count).map((row, offset) => this.rowNode(row, first + offset)),
        );
        const place = this.chosenPlace();
        if (place >= first && place < first + count)
            this.node.setAttribute("aria-activedescendant", `${this.prefix}-${this.chosen}`);
        else this.node.removeAttribute("aria-activedescendant");
    }

    rowNode(row, place) {
        const key = this.identify(row);
        const node = make(
            "div.row",
            {
                role: "option",
                id: `${this.prefix}-${key}`,
                "aria-selected": String(key === this.chosen),
                "aria-setsize": this.rows.length,
                "aria-posinset": place + 1,
                "data-marked": this.marked === key,
                onclick: (event) => this.choose(place, event),
            },
            this.draw(row),
        );
        node.style.top = `${place * this.rowHeight}px`;
        node.style.height = `${this.rowHeight}px`;
        return node;
    }

    chosenPlace() {
        return this.chosen === null ? -1 : this.rows.findIndex((row) => this.identify(row) === this.chosen);
    }

    choose(place, event) {
        const row = this.rows[place];
        if (row === undefined) return;
        this.chosen = this.identify(row);
        this.reveal(place);
        this.show();
        this.onchoose(row, event);
    }

    reveal(place) {
        const top = place * this.rowHeight;
        if (top < this.node.scrollTop) this.node.scrollTop = top;
        else if (top + this.rowHeight > this.node.scrollTop + this.node.clientHeight)
            this.node.scrollTop = top + this.rowHeight - this.node.clientHeight;
    }

    pressed(event) {
        const page = Math.max(1, Math.floor(this.node.clientHeight / this.rowHeight) - 1);
        const step = {
            ArrowDown: 1,
            ArrowUp: -1,
            j: 1,
            k: -1,
            PageDown: page,
            PageUp: -page,
            Home: -Infinity,
            End: Infinity,
        }[event.key];
        if (step === undefined || !this.rows.length || event.ctrlKey || event.metaKey) return;
        event.preventDefault();
        const before = this.chosenPlace();
        this.choose(
            Math.min(this.rows.length - 1, Math.max(0, (before < 0 && step < 0 ? this.rows.length : before) + step)),
            event,
        );
    }
}
