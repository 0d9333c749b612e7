// The releases of the site, the newest first, each with its pages. `make docs-release` writes this file anew into every release.
const RELEASES = [];
