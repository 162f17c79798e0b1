# `make demo` runs a small experiment from nothing to its report; `make test` checks everything.
# Needed: Python 3.11 or newer and make. All else goes into .venv.
#
#   PYTHON=python3.12   the interpreter that .venv is made from
#   LOCKED=1            install the exact versions of constraints.txt
#   TEST_WORKERS=2      processes that run the tests; each compiles for itself
#   BENCH_SECONDS=40    how long `make bench` measures
#   FUZZ_SECONDS=1500   how long `make fuzz` takes at most; FUZZ_SEED=1 chooses what it generates

PYTHON ?= python3
LOCKED ?= 0
TEST_WORKERS ?= 2
BENCH_SECONDS ?= 40
FUZZ_SECONDS ?= 1500
FUZZ_SEED ?= 1
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
CONSTRAINTS := $(if $(filter 1,$(LOCKED)),--constraint constraints.txt)
INSTALLED := $(VENV)/.installed$(if $(filter 1,$(LOCKED)),-locked)

.PHONY: help install demo test test-fast check fuzz bench docs clean
.DEFAULT_GOAL := help

help:  ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 11

install: $(INSTALLED)  ## Make .venv and install the project into it

demo: $(INSTALLED)  ## A whole small experiment: results/demo/report.html (about 5 minutes on 2 cores)
	$(BIN)/omg demo

test: check  ## Check and test everything
	$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist loadfile

test-fast: check  ## The same checks and some tests of every room (2 minutes on 2 cores)
	$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist loadfile --fast

check: $(INSTALLED)  ## Style, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fuzz: $(INSTALLED)  ## Generated command lines, plans and damaged files: none may end in a traceback
	PYTHONPATH=tests $(BIN)/python -m fuzz --seconds $(FUZZ_SECONDS) --seed $(FUZZ_SEED)

bench: $(INSTALLED)  ## Measure the speed of this machine
	$(BIN)/omg bench --seconds $(BENCH_SECONDS)

docs: $(VENV)/.installed-docs  ## Build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:  ## Remove .venv, built files and caches; results/ stays
	rm -rf $(VENV) build dist site .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed, but '$(PYTHON)' is not that. Choose one: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# Installed once, and again when the dependencies change. The interpreter is no ordinary prerequisite: it is a link to
# a file older or newer than all of this.
$(INSTALLED): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --quiet $(CONSTRAINTS) --editable '.[dev]'
	@touch $@

$(VENV)/.installed-docs: $(INSTALLED)
	$(PIP) install --quiet $(CONSTRAINTS) --editable '.[docs]'
	@touch $@
