# Every target works on a machine that has Python 3.11 or newer, make and a package index: the first one that needs
# it makes .venv with plain venv and pip.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PROGRAM := $(VENV)/.program
STAMP := $(VENV)/.installed
DEMO_PROMPT ?=

.PHONY: demo test check format lint types tests diagrams pictures diagrams-check requirements bench search crash clean

# --- the two commands for a fresh machine

# A small model on this machine answers, fetched when it is not there (34 + 491 MB); where it cannot be had within five
# minutes (SLUICE_DEMO_SECONDS), a script answers. It says which.

demo: $(PROGRAM)
	@$(BIN)/python examples/demo.py $(if $(DEMO_PROMPT),"$(DEMO_PROMPT)")

test: $(STAMP)
	$(BIN)/python -m pytest

# --- while working on it

check: $(STAMP) lint types diagrams-check tests

format: $(STAMP)
	$(BIN)/ruff format sluice tests
	$(BIN)/ruff check --fix sluice tests

lint: $(STAMP)
	$(BIN)/ruff format --check sluice tests
	$(BIN)/ruff check sluice tests

types: $(STAMP)
	$(BIN)/mypy

tests: $(STAMP)
	$(BIN)/python -m pytest

diagrams: $(STAMP)
	$(BIN)/sluice diagrams

diagrams-check: $(STAMP)
	$(BIN)/sluice diagrams --check

pictures: $(STAMP)
	$(BIN)/python docs/pictures/make.py

requirements: $(STAMP)
	@$(BIN)/python -m tests.requirements

bench: $(STAMP)
	$(BIN)/python -m benchmarks.bench

# --- the long proofs

search: $(STAMP)
	$(BIN)/python -m tests.machines.search --full

crash: $(STAMP)
	$(BIN)/python -m tests.crash.runs 200

# --- the environment: the program, which is all that the demo needs, and then what working on it needs

$(PROGRAM): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Sluice needs Python 3.11 or newer; set PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "Python's venv module is missing. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	$(BIN)/python -m compileall -q sluice
	@touch $(PROGRAM)

$(STAMP): $(PROGRAM)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $(STAMP)

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .hypothesis
