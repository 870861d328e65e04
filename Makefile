# Thin names for what the tools do; `make` alone lists them.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
QUEUE  := $(VENV)/.queue-installed
STAMP  := $(VENV)/.installed
TIDY   := --stdin-filename src/roquet/sync.py -
SYNC   := $(BIN)/python -m roquet.client.describe_sync | $(BIN)/ruff check -q --fix --select I,F401 $(TIDY) \
	| $(BIN)/ruff format -q $(TIDY)

.DEFAULT_GOAL := help
.PHONY: help setup up test check bench sim docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

SOURCES := pyproject.toml setup.py $(shell find src -name '*.p[xy][dx]')

$(QUEUE): $(SOURCES)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(STAMP): $(SOURCES)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $(QUEUE) $@

setup: $(QUEUE) ## create .venv and install Roquet into it, with everything the tests need

up: $(QUEUE) ## start name server and broker in one process, with a store under ./data
	@exec $(BIN)/roquet up --store data

test: $(STAMP) ## run all tests; those that drive Apache's jars need Java, Maven, Go and Node
	$(BIN)/python -m pytest

check: $(STAMP) ## format, lint, types, layers, generated files
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@$(BIN)/python -m roquet.wire.describe | cmp - docs/protocol.md || { echo "run make docs" >&2; exit 1; }
	@$(SYNC) | cmp - src/roquet/sync.py || { echo "run make docs" >&2; exit 1; }
	@$(BIN)/python -m roquet.spark.describe --check || { echo "run make docs" >&2; exit 1; }

bench: $(STAMP) ## measure against Apache 5.5.0 on this machine and print the table
	$(BIN)/python -m bench

sim: $(STAMP) ## run the simulation on new seeds for half a minute; SEED=n replays one
	$(BIN)/python -m roquet.sim $(SEED)

docs: $(STAMP) ## write the generated pages and the synchronous client anew
	$(BIN)/python -m roquet.wire.describe > docs/protocol.md
	$(SYNC) > $(VENV)/sync.py && mv $(VENV)/sync.py src/roquet/sync.py
	$(BIN)/python -m roquet.spark.describe

clean: ## remove what was built, not the data
	rm -rf $(VENV) build .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis
