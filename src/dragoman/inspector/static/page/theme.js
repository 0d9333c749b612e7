// Light or dark: as the system says, until somebody chooses.

const KEY = "dragoman.theme";

/** Apply the theme that was chosen before. */
export function applyTheme() {
    const chosen = localStorage.getItem(KEY);
    if (chosen) document.documentElement.dataset.theme = chosen;
    else delete document.documentElement.dataset.theme;
}

/** Return whether the page is dark now. */
export function isDark() {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Change from light to dark, or back. */
export function toggleTheme() {
    localStorage.setItem(KEY, isDark() ? "light" : "dark");
    applyTheme();
}
