# The first target you call makes a virtual environment in .venv and installs juju into it, with JAX, Mojo and MAX
# from PyPI. Nothing outside this folder and the caches of pip and juju is touched.
#
#   make demo                                    make test ARGS='-k softmax -x'
#   make test PYTHON=python3.13 VENV=.venv-3.13  make demo ARGS='--points 100000'

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV ?= .venv
ARGS ?=
PY := "$(VENV)/bin/python"

# The first Python of 3.11 to 3.13 that really runs; PYTHON=... overrides it.
SUPPORTED := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
ifndef PYTHON
PYTHON = $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	if "$$p" -c '$(SUPPORTED)' 2>/dev/null; then echo "$$p"; break; fi; done)
endif

.PHONY: help
help: ## Show this list
	@echo "juju: JAX functions as fused Mojo kernels. Every target sets up $(VENV) by itself."
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20

.PHONY: demo
demo: $(VENV)/.juju ## Fuse a few real functions and time them against jax.jit
	@$(PY) -m juju.cli demo $(ARGS)

.PHONY: test
test: $(VENV)/.juju-dev ## Run the test suite (ARGS='-k name -x' is passed to pytest)
	@$(PY) -m pytest $(ARGS)

.PHONY: test-fast
test-fast: $(VENV)/.juju-dev ## Run the tests that take less than about ten seconds each
	@$(PY) -m pytest -m "not slow" $(ARGS)

.PHONY: kernels
kernels: $(VENV)/.juju ## Compile the hand-written kernels in kernels/, and the launcher, into the cache
	@$(PY) -m juju.cli cache warm

.PHONY: golden
golden: $(VENV)/.juju-dev ## Rewrite generated/, the kernels the tests compare with
	@$(PY) -m pytest tests/test_golden.py --rewrite-golden $(ARGS)

.PHONY: bench
bench: $(VENV)/.juju ## Measure bandwidth, call overhead, programs and first calls (on an idle machine)
	@for script in copy_bandwidth dispatch functions programs arrays ordering first_call; do \
		echo "== benchmarks/$$script.py"; $(PY) benchmarks/$$script.py $(ARGS); done

.PHONY: accuracy
accuracy: $(VENV)/.juju-dev ## Measure every operation against exact results and write docs/accuracy.md
	@$(PY) tools/accuracy_page.py $(ARGS)

.PHONY: coverage
coverage: $(VENV)/.juju-dev ## Run JAX's own harnesses and write docs/coverage.md
	@$(PY) tools/coverage_page.py $(ARGS)

.PHONY: lint
lint: $(VENV)/.juju-dev ## ruff check, ruff format --check, pyright
	@failed=0; \
	$(PY) -m ruff check . || failed=1; \
	$(PY) -m ruff format --check . || failed=1; \
	$(PY) -m pyright --pythonpath $(PY) || failed=1; \
	exit $$failed

.PHONY: format
format: $(VENV)/.juju-dev ## Apply ruff's fixes and format
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

.PHONY: docs
docs: $(VENV)/.juju ## Build the documentation into site/
	@$(PY) -m pip install --quiet -e '.[docs]'
	@$(PY) -m mkdocs build --strict

.PHONY: wheel
wheel: $(VENV)/.juju-dev ## Build the wheel into dist/
	@$(PY) -m hatchling build -t wheel

.PHONY: clean
clean: ## Remove the virtual environment and what tools left behind (not juju's cache: juju cache clear)
	rm -rf .venv .venv-* dist site .pytest_cache .ruff_cache .hypothesis

# --- the virtual environment -----------------------------------------------------------------------------------------

$(VENV)/bin/python:
	@if [ -z "$(PYTHON)" ]; then \
		echo "error: juju needs Python 3.11, 3.12 or 3.13, and none was found; say which with make PYTHON=/path/to/python" >&2; \
		exit 1; fi
	@"$(PYTHON)" -c '$(SUPPORTED)' || { \
		echo "error: juju needs Python 3.11 to 3.13; $(PYTHON) is $$("$(PYTHON)" --version 2>&1)" >&2; exit 1; }
	@echo "making $(VENV) with $$("$(PYTHON)" --version)"
	@"$(PYTHON)" -m venv "$(VENV)" || { rm -rf "$(VENV)"; \
		echo "error: no virtual environment could be made; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }

$(VENV)/.juju: pyproject.toml | $(VENV)/bin/python
	@echo "installing juju with JAX, Mojo and MAX from PyPI (some 500 MB to download the first time)"
	@$(PY) -m pip install --disable-pip-version-check -e .
	@touch $@

$(VENV)/.juju-dev: pyproject.toml $(VENV)/.juju
	@echo "installing what the tests and checks need"
	@$(PY) -m pip install --disable-pip-version-check --quiet -e '.[dev]'
	@touch $@
