// A result of a server in every way that fits it: its content, its structure as a tree or a table, and its JSON.

import { button, link, make, tabs } from "../page/nodes.js";
import { brief, shownText } from "../page/texts.js";
import { isObject } from "../schema/resolve.js";
import { jsonTree } from "./json_tree.js";
import { looksLikeMarkdown, markdown } from "./markdown.js";
import { listsOfObjects, table } from "./table.js";

const LONGEST_MEDIUM = 20_000_000;

/** Return a node that shows a result of tools/call, prompts/get, resources/read or any other method. */
export function shownResult(result) {
    const panels = [];
    const blocks = blocksOf(result);
    const parsed = parsedText(blocks, result);
    const structured = result.structuredContent ?? parsed;
    if (blocks.length) panels.push(["Content", () => make("div.blocks", {}, blocks)]);
    if (structured !== undefined) panels.push(["Structured", () => jsonTree(structured, 3)]);
    const lists = listsOfObjects(structured);
    if (lists.length) panels.push(["Table", () => lists.map(([name, rows]) => table(rows, name))]);
    if (!panels.length) panels.push(["Tree", () => jsonTree(result, 3)]);
    panels.push(["Raw JSON", () => rawJson(result)]);
    return tabs("Ways to see the result", panels);
}

/** Return JSON as text that can be copied. */
export function rawJson(value) {
    const text = JSON.stringify(value, null, 2);
    return make("div.raw", {}, copyButton(text), shownText(text, "pre.code"));
}

/** Return a button that puts a text on the clipboard. */
export function copyButton(text, label = "Copy") {
    const node = button(
        label,
        async () => {
            await navigator.clipboard.writeText(text);
            node.textContent = "Copied";
        },
        { look: "tiny copy" },
    );
    return node;
}

function blocksOf(result) {
    if (Array.isArray(result.content)) return result.content.map(shownBlock);
    if (Array.isArray(result.contents)) return result.contents.map(shownContents);
    if (Array.isArray(result.messages))
        return result.messages.map((message) =>
            make(
                "div.message",
                {},
                make("div.role", {}, brief(message.role, 40)),
                [message.content].flat().map(shownBlock),
            ),
        );
    return [];
}

function parsedText(blocks, result) {
    const texts = (result.content ?? result.contents ?? []).filter?.((block) => typeof block?.text === "string") ?? [];
    if (texts.length !== 1 || !/^\s*[[{]/.test(texts[0].text) || texts[0].text.length > 5_000_000) return undefined;
    try {
        return JSON.parse(texts[0].text);
    } catch {
        return undefined;
    }
}

/** Return a node for one content block. */
export function shownBlock(block) {
    if (!isObject(block)) return jsonTree(block);
    if (block.type === "text" && typeof block.text === "string") return shownWords(block.text);
    if (block.type === "image") return medium("image", block);
    if (block.type === "audio") return medium("audio", block);
    if (block.type === "resource" && isObject(block.resource))
        return make("div.embedded", {}, shownContents(block.resource));
    if (block.type === "resource_link")
        return make(
            "div.embedded",
            {},
            make("strong", {}, make("bdi", {}, brief(block.title ?? block.name ?? ""))),
            " ",
            link(String(block.uri)),
            block.description && shownText(String(block.description)),
        );
    return jsonTree(block);
}

function shownWords(text, isMarkdown = looksLikeMarkdown(text)) {
    if (!isMarkdown) return shownText(text, "div.text.pre");
    return tabs("Ways to see the text", [
        ["Markdown", () => markdown(text)],
        ["Text", () => shownText(text, "div.text.pre")],
    ]);
}

function shownContents(contents) {
    const type = contents.mimeType ?? "";
    const head = make(
        "div.contents-head",
        {},
        make("code", {}, make("bdi", {}, brief(String(contents.uri ?? ""), 200))),
        make("span.type", {}, brief(type, 60)),
    );
    if (typeof contents.text === "string")
        return make(
            "div.contents",
            {},
            head,
            shownWords(contents.text, type === "text/markdown" || (!type && looksLikeMarkdown(contents.text))),
        );
    if (typeof contents.blob === "string") {
        const kind = type.split("/")[0];
        const block = { mimeType: type, data: contents.blob };
        return make(
            "div.contents",
            {},
            head,
            kind === "image" || kind === "audio" ? medium(kind, block) : download(block),
        );
    }
    return make("div.contents", {}, head, jsonTree(contents));
}

function medium(kind, block) {
    const type = String(block.mimeType ?? "");
    if (typeof block.data !== "string" || block.data.length > LONGEST_MEDIUM || !/^(image|audio)\/[\w.+-]+$/.test(type))
        return jsonTree(block);
    const source = `data:${type};base64,${block.data}`;
    const node =
        kind === "image"
            ? make("img", { src: source, alt: `Image of the server, ${type}` })
            : make("audio", { src: source, controls: true });
    return make("figure", {}, node, make("figcaption", {}, `${brief(type, 60)} · `, download(block)));
}

function download(block) {
    return button(
        "Save",
        () => {
            const bytes = Uint8Array.from(atob(block.data), (one) => one.charCodeAt(0));
            saveFile(new Blob([bytes], { type: "application/octet-stream" }), "content");
        },
        { look: "tiny" },
    );
}

/** Let the browser save bytes as a file. */
export function saveFile(blob, name) {
    const address = URL.createObjectURL(blob);
    const anchor = make("a", { href: address, download: name });
    anchor.click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
