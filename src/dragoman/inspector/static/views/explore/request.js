// Sends one request and shows what becomes of it: progress, a button that cancels, the result, or why it failed.

import { ask, askForFile } from "../../page/backend.js";
import { button, fill, make } from "../../page/nodes.js";
import { connect, listen, named, notify } from "../../page/state.js";
import { brief, bytes, duration, shownText } from "../../page/texts.js";
import { saveFile, shownResult } from "../../shown/result.js";
import { failureBox } from "../failure.js";

let last = 0;

export class Requester {
    /** `requestNow()` returns what goes to the backend, or null; `verb` is what the backend does with it. */
    constructor({ server, label, requestNow, open, verb = "explore/request" }) {
        this.server = server;
        this.requestNow = requestNow;
        this.open = open;
        this.verb = verb;
        this.key = null;
        this.run = button([label, " ", make("kbd", { "aria-hidden": "true" }, "Ctrl ↵")], () => this.send(), {
            look: "primary",
        });
        this.stop = button("Cancel", () => this.cancel(), { hidden: true });
        this.progress = make("div.progress", { role: "status" });
        this.outcome = make("section.outcome", { "aria-label": "Result", "aria-live": "polite" });
        this.bar = make("div.actions", {}, this.run, this.stop, this.progress);
        listen("progress", (event) => event.key === this.key && this.showProgress(event));
    }

    async send(request = this.requestNow()) {
        if (!request || this.key) return;
        last += 1;
        this.key = `page-${Date.now()}-${last}`;
        this.stop.hidden = false;
        this.run.disabled = true;
        fill(this.progress, make("progress", { "aria-label": "Working" }));
        try {
            this.showOutcome(await ask(this.verb, { server: this.server, ...request, key: this.key }));
        } catch (failure) {
            this.showFailure(failure);
        }
        this.outcome.firstElementChild?.scrollIntoView({ block: "nearest" });
        this.key = null;
        this.stop.hidden = true;
        this.run.disabled = false;
        fill(this.progress);
    }

    cancel() {
        if (this.key) ask("explore/cancel", { key: this.key }).catch((failure) => notify(failure.message, "error"));
    }

    showProgress({ progress, total, message }) {
        const bar = make("progress", {
            "aria-label": "Progress",
            max: total ?? null,
            value: total ? progress : null,
        });
        fill(
            this.progress,
            total ? bar : make("progress", { "aria-label": "Progress" }),
            ` ${progress}${total ? ` of ${total}` : ""} `,
            message && brief(message, 200),
        );
    }

    showOutcome(outcome) {
        const { result, cut, preview } = outcome;
        const isError = result?.isError === true;
        fill(
            this.outcome,
            make(
                "div.outcome-head",
                { "data-error": isError },
                make("strong", {}, isError ? "The tool reports an error" : "Result"),
                make("span.quiet", {}, `${duration(outcome.ms)} · ${bytes(outcome.bytes)}`),
                this.rowButtons(outcome.rows),
            ),
            cut &&
                make(
                    "div.cut",
                    { role: "note" },
                    `This result has ${bytes(outcome.bytes)}. The beginning is shown. `,
                    button("Save it whole", async () => {
                        const { blob, name } = await askForFile("traffic/download", { number: outcome.row });
                        saveFile(blob, name);
                    }),
                ),
            cut ? shownText(preview ?? "", "pre.code") : shownResult(result ?? {}),
        );
    }

    showFailure(failure) {
        const server = named(this.server);
        const isGone = server && server.status !== "connected";
        fill(
            this.outcome,
            failure.kind === "Cancelled"
                ? make("div.outcome-head", {}, make("strong", {}, "Cancelled"))
                : failureBox(failure, {
                      stderr: isGone ? server.stderr : "",
                      actions: isGone ? [["Connect again", () => connect(this.server)]] : [],
                  }),
            this.rowButtons(failure.rows),
        );
    }

    rowButtons(rows) {
        if (!rows?.length) return null;
        return make(
            "span.actions",
            {},
            button("Messages", () => this.open("traffic", { numbers: rows }), {
                look: "tiny",
                title: "Show the messages of this request",
            }),
            button("Export", () => this.open("export", { numbers: rows }), {
                look: "tiny",
                title: "As a test, curl, Python, HAR",
            }),
        );
    }
}
