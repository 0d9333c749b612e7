// The selector of releases in the header. It uses the list in releases.js and no request, so that it works for files too.
//
// The theme has a selector of its own, which fetches a list; a browser fetches nothing for a page that was opened as a file.
{
  const { site, page } = document.currentScript.dataset;
  const top = new URL(site.replace(/\/?$/, "/"), location.href);
  const folder = top.pathname.split("/").at(-2);
  const shown = RELEASES.find(({ version }) => version === folder) ?? (folder === "latest" && RELEASES[0]);
  if (shown) {
    const made = (name, properties, ...children) => {
      const element = Object.assign(document.createElement(name), properties);
      element.append(...children);
      return element;
    };
    const items = RELEASES.map(({ version, pages }) => {
      const href = new URL(`../${version}/${pages.includes(page) ? page : "index.html"}`, top).href;
      const link = made("a", { className: "md-version__link", href }, version);
      if (version === shown.version) link.ariaCurrent = "true";
      return made("li", { className: "md-version__item" }, link);
    });
    const button = made("button", { className: "md-version__current", ariaLabel: `Version ${shown.version}` }, shown.version);
    const list = made("ul", { className: "md-version__list" }, ...items);
    document.querySelector(".md-header__topic").append(made("div", { className: "md-version" }, button, list));
  }
}
