# Everything is set up here: `make demo` and `make test` work on a machine with Python and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CODE := src tests benchmarks
PIP := $(BIN)/python -m pip --quiet --quiet --disable-pip-version-check

.PHONY: demo test bench reproduce clean lint types contracts unit

demo: $(VENV)/.installed
	$(BIN)/silot demo

test: lint types contracts unit

lint: $(VENV)/.dev
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)

types: $(VENV)/.dev
	$(BIN)/basedpyright

contracts: $(VENV)/.dev
	$(BIN)/lint-imports

unit: $(VENV)/.dev
	$(BIN)/python -m pytest

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks

reproduce: $(VENV)/.dev
	$(BIN)/python -m benchmarks.reproduce

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "silot needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install --constraint constraints.txt --editable .
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt requirements-dev.txt $(VENV)/.installed
	$(PIP) install --constraint constraints.txt --requirement requirements-dev.txt
	touch $@

clean:
	rm -rf $(VENV) silot-demo .pytest_cache .ruff_cache .hypothesis
