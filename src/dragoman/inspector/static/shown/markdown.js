// Markdown, built as nodes: headings, paragraphs, lists, quotes, code, tables, emphasis and links. Images are not loaded,
// because an image tells its owner who looks; their descriptions are shown. HTML in the text stays text.

import { link, make } from "../page/nodes.js";
import { harmless, shownText } from "../page/texts.js";

const LONGEST = 100_000;
const INLINE =
    /(`+)([^`]+?)\1|!\[([^\]\n]{0,500})\]\(([^()\s]{0,2000})\)|\[([^\]\n]{1,500})\]\(([^()\s]{1,2000})\)|\*\*([^*\n]{1,2000})\*\*|\*([^*\s][^*\n]{0,2000})\*|(https?:\/\/[^\s<>()]{1,2000})/g;

/** Return whether a text looks as if it was written as Markdown. */
export function looksLikeMarkdown(text) {
    return /^#{1,6} |^[-*] |^\d+\. |^```|\*\*[^*\n]+\*\*|\[[^\]\n]+\]\(http/m.test(text.slice(0, 20_000));
}

/** Return nodes of a Markdown text; a text that is too long for that is shown as it is. */
export function markdown(text) {
    if (text.length > LONGEST) return shownText(text);
    return make("div.markdown", { dir: "auto" }, blocks(harmless(text).split("\n")));
}

function blocks(lines) {
    const made = [];
    let place = 0;
    const takeWhile = (test) => {
        const from = place;
        while (place < lines.length && test(lines[place], place)) place += 1;
        return lines.slice(from, place);
    };
    while (place < lines.length) {
        const line = lines[place];
        const heading = /^(#{1,6})\s+(.*)$/.exec(line);
        if (line.trim() === "") place += 1;
        else if (line.startsWith("```")) {
            place += 1;
            const code = takeWhile((one) => !one.startsWith("```"));
            place += 1;
            made.push(make("pre", { tabindex: "0" }, make("code", {}, code.join("\n"))));
        } else if (heading) {
            place += 1;
            made.push(
                make(
                    "p.heading",
                    {
                        "data-level": heading[1].length,
                        role: "heading",
                        "aria-level": Math.min(6, heading[1].length + 3),
                    },
                    inline(heading[2]),
                ),
            );
        } else if (/^\s*(---+|\*\*\*+)\s*$/.test(line)) {
            place += 1;
            made.push(make("hr"));
        } else if (line.startsWith(">")) {
            made.push(
                make(
                    "blockquote",
                    {},
                    blocks(takeWhile((one) => one.startsWith(">")).map((one) => one.replace(/^>\s?/, ""))),
                ),
            );
        } else if (/^\s*([-*+]|\d+[.)])\s+/.test(line)) {
            made.push(list(takeWhile((one) => /^\s*([-*+]|\d+[.)])\s+/.test(one) || /^\s{2,}\S/.test(one))));
        } else if (line.includes("|") && /^\s*\|?[\s:|-]+\|[\s:|-]*$/.test(lines[place + 1] ?? "")) {
            made.push(grid(takeWhile((one) => one.includes("|"))));
        } else {
            const from = place;
            made.push(
                make(
                    "p",
                    {},
                    inline(
                        takeWhile(
                            (one, at) =>
                                one.trim() !== "" &&
                                (at === from || !/^(#{1,6}\s|```|>|\s*([-*+]|\d+[.)])\s)/.test(one)),
                        ).join("\n"),
                    ),
                ),
            );
        }
    }
    return made;
}

function list(lines) {
    const isOrdered = /^\s*\d/.test(lines[0]);
    const items = [];
    for (const line of lines) {
        const found = /^\s*(?:[-*+]|\d+[.)])\s+(.*)$/.exec(line);
        if (found) items.push(found[1]);
        else items[items.length - 1] += ` ${line.trim()}`;
    }
    return make(
        isOrdered ? "ol" : "ul",
        {},
        items.map((item) => make("li", {}, inline(item))),
    );
}

function grid(lines) {
    const cells = (line) =>
        line
            .trim()
            .replace(/^\||\|$/g, "")
            .split("|")
            .map((one) => one.trim());
    const [head, , ...rows] = lines;
    return make(
        "div.table-place",
        {},
        make(
            "table",
            {},
            make(
                "thead",
                {},
                make(
                    "tr",
                    {},
                    cells(head).map((one) => make("th", { scope: "col" }, inline(one))),
                ),
            ),
            make(
                "tbody",
                {},
                rows.map((row) =>
                    make(
                        "tr",
                        {},
                        cells(row).map((one) => make("td", {}, inline(one))),
                    ),
                ),
            ),
        ),
    );
}

function inline(text) {
    const made = [];
    let end = 0;
    for (const found of text.matchAll(INLINE)) {
        made.push(text.slice(end, found.index));
        const [whole, , code, pictured, , label, address, strong, emphasized, plain] = found;
        if (code !== undefined) made.push(make("code", {}, code));
        else if (pictured !== undefined)
            made.push(make("span.picture", {}, `[picture: ${pictured || "no description"}]`));
        else if (label !== undefined) made.push(link(address, label));
        else if (strong !== undefined) made.push(make("strong", {}, strong));
        else if (emphasized !== undefined) made.push(make("em", {}, emphasized));
        else made.push(link(plain));
        end = found.index + whole.length;
    }
    made.push(text.slice(end));
    return made.filter((one) => one !== "");
}
