# Each target first creates the environment it needs from lock files with hashes, and compiles the native core.
# `make demo` and `make test` need only Python 3.11 or newer: where there is no C compiler, ziglang is installed, which has one.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
PROGRAMS := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
BIN := $(VENV)/$(PROGRAMS)
# What the native core is compiled from, and with.
NATIVE := hatch_build.py $(wildcard src/driftsurf/native/*.pyx src/driftsurf/native/*.pxd src/driftsurf/native/c/*)
BENCH_VENV := .venv-bench
ENGINES_VENV := .venv-engines
DOCS_VENV := .venv-docs
# A worker takes neighbouring tests, which share fixtures, and at the end some of those that the other has left.
PYTEST := python -m pytest -q -n 2 --dist worksteal
OLDEST_VENV := .venv-oldest
RELEASE_VENV := .venv-release
INTERPRETERS ?= python3.11 python3.12 python3.13 python3.14 python3.15
TESTS ?= -q -n 2 -p no:cacheprovider
OUT ?= runs/demo
CHROMIUM ?= chromium
REPRODUCTION ?= reproduction
LOCK = uv pip compile --universal --python-version 3.11 --generate-hashes --quiet \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"

# Variables of an activated environment would make our interpreter import packages from there. Without its own
# bytecode, every process of the tests would translate all modules again.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV PYTHONDONTWRITEBYTECODE

find_python = $(firstword $(foreach p,$(PYTHON) python3 python3.13 python3.12 python3.11 python,\
	$(shell $(p) -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $(p))))

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 15

# Lock files name every package, so nothing is resolved: pip 23 would look for newer releases of packages with extras.
pip = $(1)/$(PROGRAMS)/python -m pip --disable-pip-version-check --quiet install --no-deps
locked = $(call pip,$(1)) --require-hashes --requirement requirements/$(2).txt

# An environment in a folder, with the packages of a lock file and this one.
define environment
	@test -x $(1)/$(PROGRAMS)/python || $(find_python) -m venv $(1)
	@$(call locked,$(1),$(2))
	@$(1)/$(PROGRAMS)/python hatch_build.py --find-compiler >/dev/null 2>&1 || { \
		echo "Found no C compiler; installing ziglang, which has one ..."; $(call locked,$(1),compiler); }
	@$(call pip,$(1)) --no-build-isolation --editable .
	@touch $@
endef

$(VENV)/core: requirements/core.txt requirements/compiler.txt pyproject.toml
	@test -n "$(find_python)" || { echo "No Python 3.11 or newer found; set one with make PYTHON=/path/to/python" >&2; exit 1; }
	@echo "Setting up $(VENV) with $$($(find_python) --version) ..."
	$(call environment,$(VENV),core)

$(VENV)/native: $(VENV)/core $(NATIVE)
	@$(BIN)/python hatch_build.py
	@touch $@

$(VENV)/dev: requirements/dev.txt $(VENV)/core
	@echo "Installing the development tools ..."
	@$(call locked,$(VENV),dev)
	@touch $@

$(BENCH_VENV)/ready: benchmarks/peers.txt pyproject.toml $(NATIVE)
	@echo "Setting up $(BENCH_VENV) with the libraries that we compare with ..."
	$(call environment,$(BENCH_VENV),../benchmarks/peers)

$(ENGINES_VENV)/ready: requirements/engines.txt pyproject.toml $(NATIVE)
	@echo "Setting up $(ENGINES_VENV) with Spark, Kafka and Dask ..."
	$(call environment,$(ENGINES_VENV),engines)

$(OLDEST_VENV)/ready: PYTHON := $(firstword $(PYTHON) python3.11)
$(OLDEST_VENV)/ready: requirements/oldest.txt pyproject.toml $(NATIVE)
	@echo "Setting up $(OLDEST_VENV) with the oldest supported versions of all dependencies ..."
	$(call environment,$(OLDEST_VENV),oldest)

$(RELEASE_VENV)/ready: requirements/release.txt requirements/compiler.txt pyproject.toml
	@test -x $(RELEASE_VENV)/$(PROGRAMS)/python || $(find_python) -m venv $(RELEASE_VENV)
	@$(call locked,$(RELEASE_VENV),release)
	@$(call locked,$(RELEASE_VENV),compiler)
	@touch $@

$(DOCS_VENV)/ready: requirements/docs.txt pyproject.toml $(NATIVE)
	@echo "Setting up $(DOCS_VENV) with Sphinx ..."
	$(call environment,$(DOCS_VENV),docs)

.PHONY: core
core: $(VENV)/native ## Compile what has changed in the native core (every target below does this first)

.PHONY: docs
docs: $(DOCS_VENV)/ready ## Build the documentation site in build/site and check its links (five minutes the first time)
	@env -u DRIFTSURF_DATA $(DOCS_VENV)/$(PROGRAMS)/python -m sphinx --builder html --fail-on-warning --keep-going --nitpicky --quiet \
		--doctree-dir build/doctrees docs build/site
	@$(DOCS_VENV)/$(PROGRAMS)/python -m tools.check_site build/site

.PHONY: docs-check
docs-check: ## Check ten pages of the site for accessibility and take screenshots (needs Node.js and Chromium)
	@test -d build/node/node_modules/axe-core || npm install --silent --prefix build/node axe-core puppeteer-core
	@CHROMIUM="$$(command -v $(CHROMIUM))" node tools/check_access.mjs

.PHONY: demo
demo: $(VENV)/native ## Run DriftSurf on a built-in stream with drift and write report.html
	@# Files in DRIFTSURF_DATA would take the place of the built-in stream.
	@env -u DRIFTSURF_DATA $(BIN)/driftsurf run mixed --out $(OUT) --overwrite

.PHONY: picture
picture: demo ## Redraw the picture of the README from the report of the demo (needs Chromium)
	$(CHROMIUM) --headless --no-sandbox --hide-scrollbars --force-color-profile=srgb --window-size=1180,930 \
		--virtual-time-budget=3000 --screenshot=docs/images/report.png $(OUT)/report.html 2>/dev/null

.PHONY: terminal
terminal: $(VENV)/dev $(VENV)/native ## Redraw the animated terminal of the README from what its commands print
	$(BIN)/python -m tools.terminal docs/images/terminal.svg

.PHONY: test
test: $(VENV)/dev $(VENV)/native ## Run the checks and all tests (about 8 minutes on two cores, the first time)
	@$(MAKE) --no-print-directory --jobs=2 check
	$(BIN)/$(PYTEST)

.PHONY: test-portable
test-portable: $(VENV)/dev $(VENV)/native ## Run the tests that start no processes and send no signals (for Windows)
	$(BIN)/python -m pytest -q -n 2 $(wildcard $(addprefix tests/,core detectors estimators evaluation explanation native learners strategies streams))

.PHONY: test-bits
test-bits: $(VENV)/dev $(VENV)/native ## Compare results to the bit between compilers, flags and processors (BUILDS="gcc-O0 zig": only these)
	@$(call locked,$(VENV),compiler)
	$(BIN)/python -m tools.same_bits $(BUILDS)

# Another copy of the package, whose core checks memory and arithmetic. The sanitizer has to be loaded before Python;
# memory that Python keeps until it ends is no leak.
SANITIZED := $(CURDIR)/build/sanitized
STATES ?= 1
SANITIZER := LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libstdc++.so)" PYTHONMALLOC=malloc \
	ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=4096 PYTHONPATH=$(SANITIZED)/src

.PHONY: test-sanitized
test-sanitized: $(VENV)/dev ## Run the tests of the core and 100,000 hostile states with sanitizers, for gcc (STATES=0.1: a tenth)
	@if command -v gcc >/dev/null; then $(MAKE) --no-print-directory run-sanitized; else \
		echo "Skipped: the sanitizers are those of gcc. Install it (Debian: apt-get install gcc) and run make test-sanitized again."; fi

.PHONY: run-sanitized
run-sanitized:
	rm -rf $(SANITIZED)/src && mkdir -p $(SANITIZED) && cp -a src $(SANITIZED)/src
	rm -f $(SANITIZED)/src/driftsurf/native/*.so
	CC=gcc $(BIN)/python hatch_build.py --out $(SANITIZED)/src/driftsurf/native --objects $(SANITIZED)/objects -- -O1 -g \
		-fno-omit-frame-pointer -fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all
	$(SANITIZER) $(BIN)/python -m pytest -q -p no:cacheprovider tests/native
	$(SANITIZER) $(BIN)/python -m torture states --scale $(STATES)

.PHONY: coverage
coverage: $(VENV)/dev ## Run all tests and require that they execute 98 % of the Python code; show what they execute of the core (needs gcc)
	@rm -rf build/coverage $(VENV)/native # a core that counts takes the place of the usual one until the end
	CC=gcc $(BIN)/python hatch_build.py --objects build/coverage -- -O0 --coverage
	$(BIN)/python -m coverage erase
	$(BIN)/$(PYTEST) --cov --cov-report=
	@$(MAKE) --no-print-directory core
	$(BIN)/python -m tools.core_coverage build/coverage
	$(BIN)/python -m coverage report --fail-under=98

.PHONY: test-engines
test-engines: ## Run the tests on Spark, Kafka and Dask (needs Java 17; five minutes, and an hour at most)
	@if command -v java >/dev/null; then $(MAKE) --no-print-directory run-engine-tests; else \
		echo "Skipped: Spark needs Java 17. Install it (Debian: apt-get install openjdk-17-jre-headless) and run make test-engines again."; fi

.PHONY: test-services
test-services: $(VENV)/dev $(VENV)/native ## Run the tests with brokers and databases that run on this machine (others are skipped)
	timeout 3600 $(BIN)/python -m pytest -q -rs -p no:cacheprovider tests_services

.PHONY: run-engine-tests
run-engine-tests: $(ENGINES_VENV)/ready
	timeout 3600 $(ENGINES_VENV)/$(PROGRAMS)/python -m pytest -q -p no:cacheprovider tests_engines

.PHONY: test-oldest
test-oldest: $(OLDEST_VENV)/ready ## Run all tests with the oldest supported version of every dependency
	@# Old versions use parts of newer indirect dependencies that are deprecated since.
	$(OLDEST_VENV)/$(PROGRAMS)/python -m pytest $(TESTS) -W ignore::DeprecationWarning

# An interpreter counts if it starts: shims of pyenv exist for versions that are not chosen.
.PHONY: test-matrix
test-matrix: ## Run all tests with every Python from 3.11 on that is installed
	@found=""; for python in $(INTERPRETERS); do \
		$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 || { echo "$$python: not installed"; continue; }; \
		found=yes; $(MAKE) --no-print-directory test-with WITH=$$python; \
	done; test -n "$$found" || { echo "none of $(INTERPRETERS) is installed" >&2; exit 1; }

.PHONY: test-with
test-with: # one interpreter of the matrix
	@echo "Testing with $$($(WITH) --version) ..."
	@$(MAKE) --no-print-directory VENV=.venv-$(notdir $(WITH)) PYTHON=$(WITH) .venv-$(notdir $(WITH))/dev .venv-$(notdir $(WITH))/native
	.venv-$(notdir $(WITH))/$(PROGRAMS)/python -m pytest $(TESTS)

.PHONY: check
check: mypy style types ## Check formatting, lint, spelling, types and import layers

.PHONY: style
style: $(VENV)/dev
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/codespell
	$(BIN)/lint-imports

.PHONY: mypy
mypy: $(VENV)/dev
	$(BIN)/mypy

.PHONY: types
types: $(VENV)/dev $(VENV)/native ## Check that the public API is completely typed (part of check)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/basedpyright --verifytypes driftsurf --ignoreexternal

.PHONY: generate
generate: $(VENV)/dev $(VENV)/native ## Write estimators, exports and documentation tables from the registry and the options
	PYTHONPATH=src $(BIN)/python -m tools.generate
	PYTHONPATH=src $(BIN)/python -m driftsurf.cli.reference docs/options.md

.PHONY: format
format: $(VENV)/dev ## Format the code and apply automatic lint fixes
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

.PHONY: bench
bench: $(BENCH_VENV)/ready ## Measure speed against C and other libraries
	$(BENCH_VENV)/$(PROGRAMS)/python -m benchmarks

.PHONY: reproduce
reproduce: $(VENV)/dev $(VENV)/native ## Repeat the paper's evaluation and write a report (real data: DRIFTSURF_DATA)
	@$(BIN)/driftsurf reproduce --out $(REPRODUCTION)

.PHONY: torture
torture: $(VENV)/dev $(VENV)/native ## Test crashes, disk faults, power loss, damaged files and bad values (hours)
	$(BIN)/python -m torture
	@$(MAKE) --no-print-directory torture-spark

.PHONY: torture-spark
torture-spark: ## Kill the driver and workers of a Spark cluster, 20 times each (needs Java 17)
	@if command -v java >/dev/null; then $(MAKE) --no-print-directory run-torture-spark; else \
		echo "Skipped: Spark needs Java 17. Install it (Debian: apt-get install openjdk-17-jre-headless) and run make torture-spark again."; fi

.PHONY: run-torture-spark
run-torture-spark: $(ENGINES_VENV)/ready
	$(ENGINES_VENV)/$(PROGRAMS)/python -m torture spark

.PHONY: torture-full
torture-full: $(VENV)/dev $(VENV)/native ## Run the torture tests at full size (hours; resumes where it stopped)
	$(BIN)/python -m torture --full

.PHONY: release
release: $(RELEASE_VENV)/ready ## Build sdist and wheel, test them in an empty environment, and tag the commit (TAG=no: do not tag; TAG=v1.2.3: it has this tag)
	$(RELEASE_VENV)/$(PROGRAMS)/python -m tools.release $(if $(filter no,$(TAG)),,$(if $(TAG),--tagged '$(TAG)',--tag))

.PHONY: lock
lock: ## Update the lock files (needs uv)
	$(LOCK) pyproject.toml --group build --output-file requirements/core.txt
	$(LOCK) pyproject.toml --group build --group dev --constraint requirements/core.txt --output-file requirements/dev.txt
	$(LOCK) pyproject.toml --extra spark --extra kafka --extra dask --group build --group engines \
		--constraint requirements/core.txt --output-file requirements/engines.txt
	$(LOCK) pyproject.toml --extra service --extra telemetry --constraint requirements/core.txt \
		--output-file requirements/service.txt
	$(LOCK) --group build --constraint requirements/core.txt --output-file requirements/build.txt
	$(LOCK) --group compiler --output-file requirements/compiler.txt
	$(LOCK) pyproject.toml --group build --group docs --constraint requirements/core.txt --constraint requirements/dev.txt \
		--output-file requirements/docs.txt
	$(LOCK) pyproject.toml --group build --group release --output-file requirements/release.txt
	$(LOCK) benchmarks/peers.in --output-file benchmarks/peers.txt
	$(subst --universal,--python-platform x86_64-manylinux_2_28 --only-binary :all: --resolution lowest-direct,$(LOCK)) \
		pyproject.toml --group build --group test --output-file requirements/oldest.txt

.PHONY: clean
clean: ## Remove environments, caches and outputs
	rm -rf .venv .venv-* docs/api docs/developing docs/gallery runs reproduction build dist .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
