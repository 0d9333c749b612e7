// What was typed, kept in the browser: by server, kind and name, so that a reload, a crash of a server or a change of view
// loses nothing. Browsers without room for it lose only the memory, not the page.

const PREFIX = "dragoman.input:";
const MOST = 200;
const LONGEST = 200_000;

function keyOf(server, kind, name) {
    return `${PREFIX}${JSON.stringify([server.target ?? server.name, kind, name])}`;
}

/** Return what was typed last: `{value, text}`, or null. */
export function remembered(server, kind, name) {
    try {
        return JSON.parse(localStorage.getItem(keyOf(server, kind, name)));
    } catch {
        return null;
    }
}

/** Keep what was typed. */
export function remember(server, kind, name, typed) {
    const key = keyOf(server, kind, name);
    const entry = JSON.stringify({ ...typed, at: Date.now() });
    if (entry.length > LONGEST) return;
    try {
        localStorage.setItem(key, entry);
    } catch {
        forgetOldest();
    }
    if (localStorage.length > 2 * MOST) forgetOldest();
}

function forgetOldest() {
    const keys = Object.keys(localStorage).filter((key) => key.startsWith(PREFIX));
    const ages = keys
        .map((key) => [JSON.parse(localStorage.getItem(key)).at ?? 0, key])
        .sort((one, other) => one[0] - other[0]);
    for (const [, key] of ages.slice(0, Math.max(1, ages.length - MOST))) localStorage.removeItem(key);
}
