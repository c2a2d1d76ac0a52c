# Each target first creates the environment it needs from lock files with hashes.
# `make demo` and `make test` need only Python 3.11 or newer.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
PIP = $(BIN)/python -m pip --disable-pip-version-check --quiet install
BENCH_VENV := .venv-bench
ENGINES_VENV := .venv-engines
OUT ?= runs/demo
CHROMIUM ?= chromium
REPRODUCTION ?= reproduction
LOCK = uv pip compile --universal --python-version 3.11 --generate-hashes --quiet \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"

# Variables of an activated environment would make our interpreter import packages from there.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV

find_python = $(firstword $(foreach p,$(PYTHON) python3 python3.13 python3.12 python3.11 python,\
	$(shell $(p) -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $(p))))

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 15

$(VENV)/core: requirements/core.txt pyproject.toml
	@test -n "$(find_python)" || { echo "No Python 3.11 or newer found; set one with make PYTHON=/path/to/python" >&2; exit 1; }
	@echo "Setting up $(VENV) with $$($(find_python) --version) ..."
	@test -x $(BIN)/python || $(find_python) -m venv $(VENV)
	@$(PIP) --require-hashes --requirement requirements/core.txt
	@$(PIP) --no-deps --no-build-isolation --editable .
	@$(BIN)/driftsurf doctor --warm | grep --line-buffered "^compiling"
	@touch $@

$(VENV)/dev: requirements/dev.txt $(VENV)/core
	@echo "Installing the development tools ..."
	@$(PIP) --require-hashes --requirement requirements/dev.txt
	@touch $@

$(BENCH_VENV)/ready: benchmarks/peers.txt pyproject.toml
	@echo "Setting up $(BENCH_VENV) with the libraries that we compare with ..."
	@test -x $(BENCH_VENV)/bin/python || $(find_python) -m venv $(BENCH_VENV)
	@$(subst $(BIN),$(BENCH_VENV)/bin,$(PIP)) --require-hashes --requirement benchmarks/peers.txt
	@$(subst $(BIN),$(BENCH_VENV)/bin,$(PIP)) --no-deps --no-build-isolation --editable .
	@touch $@

$(ENGINES_VENV)/ready: requirements/engines.txt pyproject.toml
	@echo "Setting up $(ENGINES_VENV) with Spark, Kafka and Dask ..."
	@test -x $(ENGINES_VENV)/bin/python || $(find_python) -m venv $(ENGINES_VENV)
	@$(subst $(BIN),$(ENGINES_VENV)/bin,$(PIP)) --require-hashes --requirement requirements/engines.txt
	@$(subst $(BIN),$(ENGINES_VENV)/bin,$(PIP)) --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: demo
demo: $(VENV)/core ## Run DriftSurf on a built-in stream with drift and write report.html
	@$(BIN)/driftsurf run mixed --out $(OUT) --overwrite

.PHONY: picture
picture: demo ## Redraw the picture of the README from the report of the demo (needs Chromium)
	$(CHROMIUM) --headless --no-sandbox --hide-scrollbars --force-color-profile=srgb --window-size=1180,930 \
		--virtual-time-budget=3000 --screenshot=docs/images/report.png $(OUT)/report.html 2>/dev/null

.PHONY: test
test: check ## Run the checks and all tests (about 13 minutes on two cores, the first time)
	$(BIN)/python -m pytest -q -n 2
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -q -n 2 -m python_kernels tests

.PHONY: coverage
coverage: $(VENV)/dev ## Run all tests and require that they execute 98 % of the code
	$(BIN)/python -m coverage erase
	$(BIN)/python -m pytest -q -n 2 --cov --cov-report=
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -q -n 2 -m python_kernels tests --cov --cov-append --cov-report=
	$(BIN)/python -m coverage report --fail-under=98

.PHONY: test-engines
test-engines: ## Run the tests on Spark, Kafka and Dask (needs Java 17; fifteen minutes at most)
	@if command -v java >/dev/null; then $(MAKE) --no-print-directory run-engine-tests; else \
		echo "Skipped: Spark needs Java 17. Install it (Debian: apt-get install openjdk-17-jre-headless) and run make test-engines again."; fi

.PHONY: test-services
test-services: $(VENV)/dev ## Run the tests with brokers and databases that run on this machine (others are skipped)
	timeout 1200 $(BIN)/python -m pytest -q -rs -p no:cacheprovider tests_services

.PHONY: run-engine-tests
run-engine-tests: $(ENGINES_VENV)/ready
	timeout 900 $(ENGINES_VENV)/bin/python -m pytest -q -p no:cacheprovider tests_engines

.PHONY: check
check: $(VENV)/dev ## Check formatting, lint, spelling, types and import layers
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/codespell
	$(BIN)/mypy
	$(BIN)/lint-imports
	@$(MAKE) --no-print-directory types

.PHONY: types
types: $(VENV)/dev ## Check that the public API is completely typed (part of check)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/basedpyright --verifytypes driftsurf --ignoreexternal

.PHONY: generate
generate: $(VENV)/dev ## Write estimators, exports and documentation tables from the registry and the options
	PYTHONPATH=src $(BIN)/python -m tools.generate
	PYTHONPATH=src $(BIN)/python -m driftsurf.cli.reference docs/options.md

.PHONY: format
format: $(VENV)/dev ## Format the code and apply automatic lint fixes
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

.PHONY: bench
bench: $(BENCH_VENV)/ready ## Measure speed against C and other libraries
	$(BENCH_VENV)/bin/python -m benchmarks

.PHONY: reproduce
reproduce: $(VENV)/dev ## Repeat the paper's evaluation and write a report (real data: DRIFTSURF_DATA)
	@$(BIN)/driftsurf reproduce --out $(REPRODUCTION)

.PHONY: torture
torture: $(VENV)/dev ## Test crashes, disk faults, power loss, damaged files and bad values (hours)
	$(BIN)/python -m torture
	@$(MAKE) --no-print-directory torture-spark

.PHONY: torture-spark
torture-spark: ## Kill the driver and workers of a Spark cluster, 20 times each (needs Java 17)
	@if command -v java >/dev/null; then $(MAKE) --no-print-directory run-torture-spark; else \
		echo "Skipped: Spark needs Java 17. Install it (Debian: apt-get install openjdk-17-jre-headless) and run make torture-spark again."; fi

.PHONY: run-torture-spark
run-torture-spark: $(ENGINES_VENV)/ready
	$(ENGINES_VENV)/bin/python -m torture spark

.PHONY: torture-full
torture-full: $(VENV)/dev ## Run the torture tests at full size (hours; resumes where it stopped)
	$(BIN)/python -m torture --full

.PHONY: lock
lock: ## Update the lock files (needs uv)
	$(LOCK) pyproject.toml --group build --output-file requirements/core.txt
	$(LOCK) pyproject.toml --group build --group dev --constraint requirements/core.txt --output-file requirements/dev.txt
	$(LOCK) pyproject.toml --extra spark --extra kafka --extra dask --group build --group engines \
		--constraint requirements/core.txt --output-file requirements/engines.txt
	$(LOCK) pyproject.toml --extra service --extra telemetry --extra lightgbm --group build \
		--constraint requirements/core.txt --output-file requirements/service.txt
	$(LOCK) benchmarks/peers.in --output-file benchmarks/peers.txt

.PHONY: clean
clean: ## Remove environments, caches and outputs
	rm -rf $(VENV) $(BENCH_VENV) $(ENGINES_VENV) runs reproduction build dist .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
