# Everything here needs python3 (3.11 or newer) and make, nothing else; check-js and vendor also npm.

PYTHON ?= python3
VENV := .venv$(patsubst -python3,,-$(notdir $(PYTHON)))
BIN := $(VENV)/bin
TYPESCRIPT := 5.9.3

# pytest rewrites each test module once and then reads what it kept, if it may; without, each process does it each time.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-slow test-clients test-gateway coverage mutants soak check check-js vendor docs bench
.PHONY: bench-quick pictures clean

help:  ## what there is to make
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/.runtime: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.test: $(VENV)/.runtime
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@

$(VENV)/.dev: $(VENV)/.test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

$(VENV)/.docs: $(VENV)/.test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs,test]'
	@touch $@

$(VENV)/.slow: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,slow]'
	@touch $@

demo: $(VENV)/.runtime  ## record, show, count and replay a session: no key, no network
	$(BIN)/recorder demo

# A test waits for half of its time, for sockets and other processes: so there are more of its processes than processors.
# The tests of a file stay in one process: what they share, such as an archive or an export, is made once.
PYTEST := $(BIN)/python -m pytest
PARALLEL := -n 4 --dist loadfile --no-loadscope-reorder

test: $(VENV)/.test  ## the tests that everybody runs, two minutes (PYTHON=python3.14 for another Python)
	$(PYTEST) -m 'not slow and not timed and not long' $(PARALLEL) tests/unit tests/integration tests/acceptance/test_smoke.py

test-all: $(VENV)/.dev  ## all tests but the slow ones, ten minutes: browsers, real SDKs, kill -9, the docs
	$(PYTEST) -m 'not slow and not timed' $(PARALLEL)
	$(PYTEST) -q -m 'timed and not slow' $$(grep -rl --include='test_*.py' 'mark\.timed' tests)

test-slow: $(VENV)/.slow  ## crash loops, mutants, the whole corpus, many minutes
	$(PYTEST) -m slow --timeout 1800
	$(PYTEST) -q -m 'hypothesis and not slow' --hypothesis-profile thorough --timeout 1800

# Every Python process that has these variables is measured, so that the quick tests are listed in one place. That is slow:
# a test which fails of it here and passes in `make test` says nothing, so that the table is made in any case. A process
# that was killed leaves half a file.
coverage: export COVERAGE_FILE := $(CURDIR)/build/coverage/data
coverage: $(VENV)/.test  ## lines and branches that the quick tests reach, by folder; pages in build/coverage/pages
	rm -rf build/coverage
	-COVERAGE_PROCESS_START=$(CURDIR)/pyproject.toml $(MAKE) test
	$(BIN)/python -m coverage combine --quiet
	rm -f $(COVERAGE_FILE).*
	$(BIN)/python -m coverage html --quiet -d build/coverage/pages
	$(BIN)/python -m coverage json --quiet -o build/coverage/report.json
	$(BIN)/python -m tools.coverage_table < build/coverage/report.json

FILES ?= $(shell git diff --name-only HEAD -- recorder)

mutants: $(VENV)/.dev  ## break the files that have changed (FILES='recorder/wire/framing/sse.py') and see that a test notices
	@test -n "$(FILES)" || { echo "No file of recorder/ has changed: name some, FILES='recorder/wire/framing/sse.py'."; exit 2; }
	$(BIN)/python -m tools.mutants $(FILES)

test-clients: $(VENV)/.dev  ## real clients from their registries, a quarter of an hour; writes docs/clients.md (CLIENTS=codex)
	$(BIN)/python -m tools.real_clients --write $(CLIENTS)

check: $(VENV)/.dev  ## ruff, mypy --strict, the layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(PYTEST) -q tests/repository/test_layers.py

check-js: .tools/node_modules/.typescript-$(TYPESCRIPT)  ## the types of the viewer's pages; needs npm
	.tools/node_modules/.bin/tsc -p recorder/ui/static/jsconfig.json

.tools/node_modules/.typescript-$(TYPESCRIPT):
	npm install --prefix .tools --silent --no-save --no-audit --no-fund typescript@$(TYPESCRIPT)
	@touch $@

vendor: $(VENV)/.dev  ## fetch the libraries of the viewer's pages and compare their digests; needs npm
	$(BIN)/python -m tools.vendored

test-gateway: $(VENV)/.dev  ## a probe of LiteLLM's proxy, from its registry, some minutes; writes tests/data/litellm
	$(BIN)/python -m tools.litellm_probe --write $(ROUTES)

soak: $(VENV)/.dev  ## an hour of 200 streams, faults and a nemesis; writes JSON (SOAK='--minutes 5 --seed 1')
	$(BIN)/python -m tools.soak $(SOAK)

docs: $(VENV)/.docs  ## the site of the documentation and the man pages, in build/; a warning is an error
	$(BIN)/python -m tools.reference
	$(BIN)/python -m tools.man_pages build/man
	$(BIN)/python -m sphinx -q -n -W --keep-going -c docs -d build/doctrees . build/docs

bench: $(VENV)/.dev  ## ratios against references measured in the same run, ten minutes; writes JSON
	$(BIN)/python -m benchmarks

bench-quick: $(VENV)/.dev  ## the same in two minutes: shorter, and fewer alternatives
	$(BIN)/python -m benchmarks --quick

pictures: $(VENV)/.dev  ## draw the pictures of README and docs/ anew, with the Chromium of this machine
	$(BIN)/python -m tools.terminal_pictures
	$(BIN)/python -m tools.viewer_pictures

clean:  ## remove what was made
	rm -rf .venv .venv-* .tools build dist docs/reference .pytest_cache .mypy_cache .ruff_cache .hypothesis
