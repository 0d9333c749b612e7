// Questions: what servers ask of the person at the host. Sampling, forms, addresses to visit, approvals; and the answers
// that a script gives.

import { ask } from "../page/backend.js";
import { button, fill, link, make } from "../page/nodes.js";
import { chosenServer, listen, named, state } from "../page/state.js";
import { brief, shownText } from "../page/texts.js";
import { SchemaEditor } from "../schema/editor.js";
import { jsonTree } from "../shown/json_tree.js";
import { shownBlock } from "../shown/result.js";
import { failureBox } from "./failure.js";
import { settingsOf } from "./questions/settings.js";

export function questions() {
    const place = make("div.question-list");
    const settings = make("div.settings");
    const cards = new Map();
    const node = make(
        "div.view.questions",
        {},
        make("div.view-head", {}, make("h2", {}, "Questions")),
        place,
        settings,
    );

    function draw() {
        const ids = new Set(state.questions.map((one) => one.id));
        for (const [id, card] of cards) if (!ids.has(id)) (card.remove(), cards.delete(id));
        for (const question of state.questions) {
            if (cards.has(question.id)) continue;
            const card = questionCard(question);
            cards.set(question.id, card);
            place.append(card);
        }
        place.querySelector(".empty")?.remove();
        if (!cards.size)
            place.append(
                make(
                    "div.empty",
                    {},
                    make("p", {}, "No server asks anything."),
                    make(
                        "p.quiet",
                        {},
                        "Sampling, forms, addresses and approvals appear here while a call waits for them.",
                    ),
                ),
            );
    }
    function drawSettings() {
        const server = chosenServer();
        if (server?.id !== settings.dataset.server) {
            settings.dataset.server = server?.id ?? "";
            fill(settings, server && settingsOf(server));
        }
    }
    listen("questions", draw);
    listen("chosen", drawSettings);
    listen("servers", drawSettings);
    draw();
    drawSettings();
    return { node, show: draw };
}

function questionCard(question) {
    const problem = make("div");
    const answer = async (given) => {
        try {
            await ask("questions/answer", { question: question.id, answer: given });
        } catch (failure) {
            fill(problem, failureBox(failure));
        }
    };
    const draw = { sampling, elicitation, url: address, approval }[question.kind] ?? other;
    const server = named(question.server);
    const titles = {
        sampling: "A completion of a model",
        elicitation: "A form",
        url: "An address to visit",
        approval: "May this tool be called?",
    };
    return make(
        "article.card.question",
        { "data-kind": question.kind, "aria-label": titles[question.kind] },
        make(
            "div.card-title",
            {},
            make("h3", {}, titles[question.kind] ?? question.kind),
            make("span.chip", {}, make("bdi", {}, brief(server?.name ?? question.server, 40))),
        ),
        draw(question.params ?? {}, answer),
        problem,
    );
}

function sampling(params, answer) {
    const text = make("textarea", {
        rows: 4,
        "aria-label": "Answer of the assistant",
        placeholder: "Answer as the model would",
    });
    const model = make("input", { type: "text", "aria-label": "Model", placeholder: "openai:gpt-4.1" });
    const { messages = [], systemPrompt, ...others } = params;
    return [
        systemPrompt &&
            make("div.message", {}, make("div.role", {}, "system"), shownText(systemPrompt, "div.text.pre")),
        messages.map((message) =>
            make(
                "div.message",
                {},
                make("div.role", {}, brief(message.role, 20)),
                [message.content].flat().map(shownBlock),
            ),
        ),
        make("details", {}, make("summary", {}, "Other parameters"), jsonTree(others, 2)),
        text,
        make(
            "div.actions",
            {},
            button("Send the answer", () => answer({ action: "accept", text: text.value }), { look: "primary" }),
            button("Decline", () => answer({ action: "decline" })),
            make(
                "span.inline",
                {},
                model,
                button("Let this model answer", () => model.value && answer({ action: "model", model: model.value })),
            ),
        ),
    ];
}

function elicitation(params, answer) {
    const editor = new SchemaEditor({ schema: params.requestedSchema ?? { type: "object" } });
    return [
        shownText(String(params.message ?? ""), "div.text.pre.asked-text"),
        editor.node,
        make(
            "div.actions",
            {},
            button(
                "Accept",
                () => (editor.isReadable ? answer({ action: "accept", content: editor.value }) : editor.area.focus()),
                { look: "primary" },
            ),
            button("Decline", () => answer({ action: "decline" })),
            button("Cancel", () => answer({ action: "cancel" })),
        ),
    ];
}

function address(params, answer) {
    let host = "";
    try {
        host = new URL(params.url).host;
    } catch {
        host = "no address that can be read";
    }
    return [
        shownText(String(params.message ?? ""), "div.text.pre.asked-text"),
        make(
            "p",
            {},
            "It leads to ",
            make("strong", {}, make("bdi", {}, brief(host, 100))),
            ": ",
            link(String(params.url), brief(String(params.url), 300)),
        ),
        make(
            "div.actions",
            {},
            button("I have done it", () => answer({ action: "accept" }), { look: "primary" }),
            button("Decline", () => answer({ action: "decline" })),
            button("Cancel", () => answer({ action: "cancel" })),
        ),
    ];
}

function approval(params, answer) {
    const reason = make("input", { type: "text", "aria-label": "Reason", placeholder: "reason, if you decline" });
    return [
        make("p", {}, "The tool ", make("strong", {}, make("bdi", {}, brief(params.name ?? "", 100))), " with"),
        jsonTree(params.arguments ?? {}, 3),
        make(
            "div.actions",
            {},
            button("Approve", () => answer({ action: "accept" }), { look: "primary" }),
            button("Decline", () => answer({ action: "decline", reason: reason.value || undefined })),
            reason,
        ),
    ];
}

function other(params, answer) {
    return [
        jsonTree(params, 3),
        make(
            "div.actions",
            {},
            button("Decline", () => answer({ action: "decline" })),
        ),
    ];
}
