# Everything is set up here: `make demo` and `make test` work on a machine with Python and make.
PYTHON ?= python3
VENV := .venv
SECURE := .venv-secure
TOOLS := .venv-deploy
BIN := $(VENV)/bin
TRANSPORT := packages/silot-transport
CODE := conftest.py src tests packages deploy evidence examples reference docs/gallery
KERNELS = $(BIN)/cmake -S $(TRANSPORT)/native -B $(VENV)/kernels -G Ninja -DPython_EXECUTABLE=$(abspath $(BIN)/python) \
	-DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja)
# How deep the suite goes: commit, merge or nightly (tests/tiers.py has the table).
TIER := commit
# One worker for each core, each with one thread. A worker that has finished takes over tests from the end of another's list.
EACH = OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(1)/bin/python -m pytest --tier $(TIER) --numprocesses auto --maxprocesses 8 --dist worksteal
PIP := $(BIN)/python -m pip --quiet --quiet --disable-pip-version-check

.PHONY: demo demo-sites docs test nightly slow speed sites sites-nightly sites-secure secure bench reproduce clean kernels sanitize lint types contracts unit charts images wheels previous

demo: $(VENV)/.installed
	$(BIN)/silot demo

# Three sites, a server and an asker on this machine, with real certificates.
demo-sites: $(VENV)/.sites
	$(BIN)/python -m examples.sites

# What every commit must pass.
test: lint types contracts unit

# What commits and merges thin out or leave out, with other examples every night.
nightly: TIER := nightly
nightly: lint types contracts unit slow secure sites sites-nightly sites-secure docs sanitize demo-sites charts images wheels previous

lint: $(VENV)/.dev
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)

types: $(VENV)/.dev
	$(BIN)/basedpyright

contracts: $(VENV)/.dev
	$(BIN)/lint-imports

# The site, in build/site: every page, the gallery run, the reference made from the package. Nothing
# is fetched but packages, and a warning ends it.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 OMP_NUM_THREADS=1 $(BIN)/python -m mkdocs --quiet build
	@echo "build/site/index.html"

unit: $(VENV)/.dev
	$(call EACH,$(VENV)) -m 'not slow and not real and not nightly'

# Whole commands, long runs and every page of the docs.
slow: $(VENV)/.dev
	$(call EACH,$(VENV)) -m 'slow and not real and not nightly'

# Real processes behind NVFlare; nightly, a kill at every message.
speed: $(VENV)/.dev
	$(BIN)/python -m evidence transport speed --quick

sites: $(VENV)/.dev
	$(BIN)/python -m pytest --tier $(TIER) -m real tests/sites --ignore tests/sites/secure

sites-nightly: $(VENV)/.dev
	$(BIN)/python -m pytest --tier $(TIER) -m nightly tests/sites --ignore tests/sites/secure

# The engine of secure distances pins an older numpy: it has an environment of its own, and part
# of the other tests runs there too.
secure: $(SECURE)/.installed
	$(call EACH,$(SECURE)) -m 'not real and not nightly' tests/sites/secure $(TRANSPORT)/tests tests/test_conformance.py

# Two real sites behind NVFlare that compute with one another.
sites-secure: $(SECURE)/.installed
	$(SECURE)/bin/python -m pytest --tier $(TIER) -m real tests/sites/secure

# The chart, the compose file and the Containerfile, by the tools that know their formats.
charts: $(VENV)/.dev $(TOOLS)/.installed
	PATH=$(abspath $(TOOLS))/bin:$$PATH $(BIN)/python -m pytest -m 'not nightly' tests/deploy

# The image of the last commit, run as a server, three sites and an asker. Without Docker it needs
# root and apt.
images: $(VENV)/.dev $(TOOLS)/.installed
	deploy/build
	PATH=$(abspath $(TOOLS))/bin:$$PATH $(BIN)/python -m pytest --tier nightly -m nightly tests/deploy

# Wheels of both packages by way of their source distributions, in dist, and the demo from them.
wheels: $(VENV)/.dev $(TOOLS)/.installed
	deploy/wheels $(TOOLS)/bin/python

# What the previous tagged version wrote is read.
previous: $(VENV)/.dev
	$(BIN)/python -m pytest --tier nightly -rs tests/test_previous.py

bench: $(VENV)/.dev
	$(BIN)/python -m evidence speed

reproduce: $(VENV)/.dev
	$(BIN)/python -m evidence all

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "silot needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)

$(SECURE)/.installed: pyproject.toml $(TRANSPORT)/pyproject.toml constraints-secure.txt | $(VENV)/.kernels
	$(PYTHON) -m venv $(SECURE)
	$(SECURE)/bin/python -m pip --quiet --quiet --disable-pip-version-check install \
		--constraint constraints-secure.txt --editable $(TRANSPORT) --editable '.[nvflare,parquet,plot,privacy,secure]' hypothesis POT pytest-xdist
	touch $@

$(VENV)/.installed: pyproject.toml $(TRANSPORT)/pyproject.toml constraints.txt | $(VENV)/bin/python $(VENV)/.kernels
	$(PIP) install --constraint constraints.txt --editable $(TRANSPORT) --editable '.[plot]'
	touch $@

# Compiled beside the source that uses them. Without a compiler everything works, more slowly, and
# `silot doctor` says so.
kernels: $(VENV)/.kernels
$(VENV)/.kernels: $(wildcard $(TRANSPORT)/native/*) | $(VENV)/bin/python
	$(PIP) install --constraint constraints.txt cmake nanobind ninja
	$(KERNELS) -DSILOT_BESIDE=ON && $(BIN)/cmake --build $(VENV)/kernels || echo "no compiled kernels: see above"
	touch $@

# Faults of memory and undefined behaviour of the kernels, on problems that hypothesis thinks of.
sanitize: $(VENV)/.dev
	$(BIN)/cmake -S $(TRANSPORT)/native -B $(VENV)/sanitize -G Ninja -DPython_EXECUTABLE=$(abspath $(BIN)/python) \
		-DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) -DSILOT_SANITIZE=ON
	$(BIN)/cmake --build $(VENV)/sanitize
	LD_PRELOAD="$$(c++ -print-file-name=libasan.so) $$(c++ -print-file-name=libubsan.so)" \
		ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1 OMP_NUM_THREADS=1 \
		SILOT_KERNELS=pure SILOT_SANITIZED=$$(ls -d $(abspath $(VENV))/sanitize/_kernels*) $(BIN)/python -m pytest $(TRANSPORT)/tests/test_kernels.py

$(VENV)/.sites: pyproject.toml constraints.txt $(VENV)/.installed
	$(PIP) install --constraint constraints.txt --editable $(TRANSPORT) --editable '.[nvflare,privacy]'
	touch $@

$(TOOLS)/.installed: deploy/requirements.txt deploy/install-tools
	PYTHON=$(PYTHON) deploy/install-tools $(TOOLS)
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt requirements-dev.txt $(VENV)/.installed
	$(PIP) install --constraint constraints.txt --requirement requirements-dev.txt
# Its script alone is used; what it needs drives a browser of its own.
	$(PIP) install --no-deps --constraint constraints.txt axe-playwright-python
	touch $@

$(VENV)/.docs: constraints.txt requirements-docs.txt $(VENV)/.installed
	$(PIP) install --no-compile --constraint constraints.txt --requirement requirements-docs.txt
	touch $@

clean:
	rm -rf $(VENV) $(SECURE) $(TOOLS) build/site dist $(TRANSPORT)/src/silot_transport/_kernels.* silot-demo silot-sites .pytest_cache .ruff_cache .hypothesis
