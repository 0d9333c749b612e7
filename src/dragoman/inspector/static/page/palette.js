// The command palette: everything that the page can do, found by typing. Ctrl+K or Cmd+K opens it.

import { fill, freshId, make } from "./nodes.js";
import { brief } from "./texts.js";

const MOST = 50;

/** `commands()` returns what can be done now: a list of `{name, hint, run}`. */
export function makePalette(commands) {
    const list = make("ul", { role: "listbox", id: freshId("commands"), "aria-label": "Commands" });
    const input = make("input", {
        type: "text",
        role: "combobox",
        "aria-label": "Search commands",
        "aria-controls": list.id,
        "aria-expanded": "true",
        "aria-autocomplete": "list",
        placeholder: "Search tools, views and actions",
        autocomplete: "off",
        oninput: () => show(0),
        onkeydown: pressed,
    });
    const dialog = make(
        "dialog.palette",
        { "aria-label": "Command palette", onclick: (event) => event.target === dialog && dialog.close() },
        input,
        list,
    );
    let found = [];
    let place = 0;

    function show(next) {
        found = matching(commands(), input.value).slice(0, MOST);
        place = Math.max(0, Math.min(next, found.length - 1));
        fill(
            list,
            found.map((command, index) =>
                make(
                    "li",
                    {
                        role: "option",
                        id: `${list.id}-${index}`,
                        "aria-selected": String(index === place),
                        onclick: () => run(command),
                    },
                    make("bdi", {}, brief(command.name, 80)),
                    make("span.hint", {}, brief(command.hint ?? "", 60)),
                ),
            ),
            !found.length &&
                make(
                    "li.quiet",
                    { role: "option", "aria-selected": "false", "aria-disabled": "true" },
                    "Nothing is called that.",
                ),
        );
        input.setAttribute("aria-activedescendant", `${list.id}-${place}`);
        list.children[place]?.scrollIntoView({ block: "nearest" });
    }

    function pressed(event) {
        const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
        if (step) show((place + step + found.length) % Math.max(1, found.length));
        else if (event.key === "Enter" && found[place]) run(found[place]);
        else return;
        event.preventDefault();
    }

    function run(command) {
        dialog.close();
        command.run();
    }

    return {
        node: dialog,
        open() {
            input.value = "";
            if (!dialog.open) dialog.showModal();
            show(0);
            input.focus();
        },
    };
}

/** Return the commands whose letters come in the order in which they were typed, the best first. */
export function matching(commands, typed) {
    const wanted = typed.toLowerCase().trim();
    if (!wanted) return commands;
    return commands
        .map((command) => [score(`${command.name} ${command.hint ?? ""}`.toLowerCase(), wanted), command])
        .filter(([points]) => points > 0)
        .sort((one, other) => other[0] - one[0])
        .map(([, command]) => command);
}

function score(text, wanted) {
    const at = text.indexOf(wanted);
    if (at >= 0) return 1_000 - at;
    let place = 0;
    let gaps = 0;
    for (const letter of wanted) {
        const next = text.indexOf(letter, place);
        if (next < 0) return 0;
        gaps += next - place;
        place = next + 1;
    }
    return Math.max(1, 500 - gaps);
}
