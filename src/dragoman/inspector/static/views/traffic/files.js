// The menu of session files: save what is shown, open a file, follow the file of a running tap, clear everything.

import { ask, askForFile, upload } from "../../page/backend.js";
import { button, make } from "../../page/nodes.js";
import { notify, putSession } from "../../page/state.js";
import { saveFile } from "../../shown/result.js";

const failed = (failure) => notify(failure.message, "error");

/** Return the menu; `queryNow()` is what is shown, `onopen(id)` hears of an opened file, `onclear()` that all is gone. */
export function fileMenu({ queryNow, onopen, onclear }) {
    const opened = ({ session }) => {
        putSession(session);
        onopen(session.id);
    };
    const file = make("input", {
        type: "file",
        accept: ".mcpsession,.jsonl",
        hidden: true,
        onchange: () => upload(file.files[0]).then(opened, failed),
    });
    const path = make("input", {
        type: "text",
        "aria-label": "Path of a session file",
        placeholder: "/path/to/a.mcpsession",
        onkeydown: (event) => event.key === "Enter" && follow(),
    });
    const save = () => askForFile("traffic/save", queryNow()).then(({ blob, name }) => saveFile(blob, name), failed);
    const follow = () => ask("traffic/open", { path: path.value, follow: true }).then(opened, failed);
    const clear = () => ask("traffic/clear").then(onclear, failed);
    const followButton = button("Follow", follow, { title: "Shows rows while `dragoman tap` writes them" });
    return make(
        "details.menu",
        {},
        make("summary", {}, "Session file"),
        make(
            "div.menu-body",
            {},
            button("Save what is shown", save),
            button("Open a file…", () => file.click()),
            file,
            make("div.inline", {}, path, followButton),
            button("Clear all messages", clear),
        ),
    );
}
