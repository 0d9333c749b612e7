// A browser lets no page that is opened as a file read the search index. The page then says how to serve it.
if (location.protocol === "file:") {
  document.addEventListener("DOMContentLoaded", () => {
    for (const input of document.querySelectorAll("#mkdocs-search-query")) {
      input.disabled = true;
      input.placeholder = "Search needs a server";
    }
    for (const results of document.querySelectorAll("#mkdocs-search-results")) {
      results.textContent =
        "Search needs a server. Run `python3 -m http.server --directory build/docs` and open http://localhost:8000.";
    }
  });
}
