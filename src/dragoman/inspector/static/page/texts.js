// Shows texts of servers so that they harm nobody: control characters and characters that turn the direction of a text
// are named, a text keeps its direction to itself, and a long text is cut until somebody asks for more.

import { button, fill, make } from "./nodes.js";

const FIRST_CHARACTERS = 4_000;
const FIRST_LINES = 200;
const COLOURS = /\u001b\[[0-9;]*m/g;
// The same characters as in dragoman.runtime.terminal; the controls are named apart.
const HIDDEN = new RegExp(
    "[\\xad\\u034f\\u061c\\u070f\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u2800" +
        "\\u3164\\ufdd0-\\ufdef\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb\\ufffe\\uffff\\ud800-\\udfff\\u{13430}-\\u{1343f}" +
        "\\u{16fe4}\\u{1bca0}-\\u{1bca3}\\u{1d159}\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}]",
    "gu",
);
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

/** Return a text in which every character that hides or moves others is named. */
export function harmless(text) {
    return text
        .replaceAll("\r\n", "\n")
        .replace(CONTROLS, (one) =>
            one.codePointAt(0) < 0x20 ? String.fromCodePoint(0x2400 + one.codePointAt(0)) : codeOf(one),
        )
        .replace(HIDDEN, codeOf);
}

function codeOf(character) {
    return `⟨U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

/** Return what a program wrote to a terminal, without its colours. */
export function withoutColours(text) {
    return text.replace(COLOURS, "");
}

/** Return a short text for a label or a row: one line, and cut. */
export function brief(text, most = 120) {
    const whole = typeof text === "string" ? text : (JSON.stringify(text) ?? "");
    const line = harmless(whole.slice(0, most * 2))
        .replace(/\s+/g, " ")
        .trim();
    return line.length > most || whole.length > most * 2 ? `${line.slice(0, most)}…` : line;
}

/** Return where a text is cut at first. */
export function cutAt(text, characters = FIRST_CHARACTERS, lines = FIRST_LINES) {
    let end = Math.min(text.length, characters);
    let found = -1;
    for (let count = 0; count < lines; count += 1) {
        found = text.indexOf("\n", found + 1);
        if (found < 0 || found >= end) return end;
    }
    return Math.min(end, found);
}

/** Return a node that shows a text of a server; a long text has a button that shows more of it. */
export function shownText(given, tag = "div.text") {
    const text = typeof given === "string" ? given : (JSON.stringify(given) ?? "");
    const node = make(tag, { dir: "auto" });
    let end = cutAt(text);
    let factor = 1;
    function show() {
        const left = text.length - end;
        fill(
            node,
            harmless(text.slice(0, end)),
            left > 0 && [
                " … ",
                button(`Show more (${left.toLocaleString("en")} characters left)`, more, { look: "quiet" }),
            ],
        );
    }
    function more() {
        factor *= 8;
        end = cutAt(text, FIRST_CHARACTERS * factor, FIRST_LINES * factor);
        show();
    }
    show();
    return node;
}

/** Return a number of bytes as people read it. */
export function bytes(count) {
    if (count === null || count === undefined) return "";
    if (count < 1_000) return `${count} B`;
    if (count < 1_000_000) return `${(count / 1_000).toFixed(1)} kB`;
    return `${(count / 1_000_000).toFixed(1)} MB`;
}

/** Return a duration in milliseconds as people read it. */
export function duration(milliseconds) {
    if (milliseconds === null || milliseconds === undefined) return "";
    if (milliseconds < 10) return `${milliseconds.toFixed(1)} ms`;
    if (milliseconds < 10_000) return `${Math.round(milliseconds)} ms`;
    return `${(milliseconds / 1_000).toFixed(1)} s`;
}
