# Each target first creates the environment it needs from lock files with hashes, and compiles the native core.
# `make demo` and `make test` need only Python 3.11 or newer: where there is no C compiler, ziglang is installed, which has one.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SECONDEXPANSION:
.PHONY: $(shell sed -nE 's/^([a-z-]+):.*/\1/p' $(MAKEFILE_LIST))

VENV := .venv
PROGRAMS := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
BIN := $(VENV)/$(PROGRAMS)
# What the native core is compiled from, and with.
NATIVE := hatch_build.py $(wildcard src/driftsurf/native/*.pyx src/driftsurf/native/*.pxd src/driftsurf/native/c/*)
# A worker takes neighbouring tests, which share fixtures, and at the end some of those that the other has left.
PYTEST := python -m pytest -q -n 2 --dist worksteal
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

find_python = $(firstword $(foreach p,$(PYTHON) $(if $(filter .venv-oldest,$(@D)),python3.11) python3 python3.13 python3.12 python3.11 python,\
	$(shell $(p) -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $(p))))
# The lock file of an environment: .venv-docs has the packages of requirements/docs.txt.
lock_file = $(if $(filter bench,$(1)),benchmarks/peers,requirements/$(1)).txt
# Lock files name every package, so nothing is resolved: pip 23 would look for newer releases of packages with extras.
pip = $(@D)/$(PROGRAMS)/python -m pip --disable-pip-version-check --quiet install --no-deps
locked = $(pip) --require-hashes --requirement $(call lock_file,$(1))
# Make a target, or say what is missing: program, what it is for, Debian package, target.
if_installed = @if command -v $(1) >/dev/null; then $(MAKE) --no-print-directory $(4); else \
	echo "Skipped: $(2). Install it (Debian: apt-get install $(3)) and run make $@ again."; fi

# An environment in the folder of the target, with the packages of a lock file and this one.
define environment
	@test -n "$(find_python)" || { echo "No Python 3.11 or newer found; set one with make PYTHON=/path/to/python" >&2; exit 1; }
	@echo "Setting up $(@D) with $$($(find_python) --version) ..."
	@test -x $(@D)/$(PROGRAMS)/python || $(find_python) -m venv $(@D)
	@$(call locked,$(1))
	@$(@D)/$(PROGRAMS)/python hatch_build.py --find-compiler >/dev/null 2>&1 || { \
		echo "Found no C compiler; installing ziglang, which has one ..."; $(call locked,compiler); }
	@echo "Compiling the native core ..."
	@$(pip) --no-build-isolation --editable .
	@touch $@
endef

.venv-%/ready: $$(call lock_file,$$*) requirements/compiler.txt pyproject.toml $(NATIVE)
	$(call environment,$*)

$(VENV)/core: requirements/core.txt requirements/compiler.txt pyproject.toml
	$(call environment,core)

$(VENV)/native: $(VENV)/core $(NATIVE)
	@$(BIN)/python hatch_build.py
	@touch $@

$(VENV)/dev: requirements/dev.txt $(VENV)/core
	@echo "Installing the development tools ..."
	@$(call locked,dev)
	@touch $@

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 15
core: $(VENV)/native ## Compile what has changed in the native core (every target below does this first)
demo: $(VENV)/native ## Run DriftSurf on a built-in stream with drift and write report.html
	@# Files in DRIFTSURF_DATA would take the place of the built-in stream.
	@env -u DRIFTSURF_DATA $(BIN)/driftsurf run mixed --out $(OUT) --overwrite
reproduce: $(VENV)/dev $(VENV)/native ## Repeat the paper's evaluation and write a report (real data: DRIFTSURF_DATA)
	@$(BIN)/driftsurf reproduce --out $(REPRODUCTION)
bench: .venv-bench/ready ## Measure speed against C and other libraries
	$(<D)/$(PROGRAMS)/python -m benchmarks

docs: .venv-docs/ready ## Build the documentation site in build/site and check its links (five minutes the first time)
	@env -u DRIFTSURF_DATA $(<D)/$(PROGRAMS)/python -m sphinx --builder html --fail-on-warning --keep-going --nitpicky --quiet \
		--doctree-dir build/doctrees docs build/site
	@$(<D)/$(PROGRAMS)/python -m tools.check_site build/site
docs-check: ## Check ten pages of the site for accessibility and take screenshots (needs Node.js and Chromium)
	@test -d build/node/node_modules/axe-core || npm install --silent --prefix build/node axe-core puppeteer-core
	@CHROMIUM="$$(command -v $(CHROMIUM))" node tools/check_access.mjs
picture: demo ## Redraw the picture of the README from the report of the demo (needs Chromium)
	$(CHROMIUM) --headless --no-sandbox --hide-scrollbars --force-color-profile=srgb --window-size=1180,930 \
		--virtual-time-budget=3000 --screenshot=docs/images/report.png $(OUT)/report.html 2>/dev/null
terminal: $(VENV)/dev $(VENV)/native ## Redraw the animated terminal of the README from what its commands print
	$(BIN)/python -m tools.terminal docs/images/terminal.svg

test: $(VENV)/dev $(VENV)/native ## Run the checks and all tests (about 8 minutes on two cores, the first time)
	@$(MAKE) --no-print-directory --jobs=2 check
	$(BIN)/$(PYTEST)
test-portable: $(VENV)/dev $(VENV)/native ## Run the tests that start no processes and send no signals (for Windows)
	$(BIN)/python -m pytest -q -n 2 $(wildcard $(addprefix tests/,core detectors estimators evaluation explanation native learners strategies streams))
test-bits: $(VENV)/dev $(VENV)/native ## Compare results to the bit between compilers, flags and processors (BUILDS="gcc-O0 zig": only these)
	@$(BIN)/python -m pip --disable-pip-version-check --quiet install --no-deps --require-hashes --requirement requirements/compiler.txt
	$(BIN)/python -m tools.same_bits $(BUILDS)

# Another copy of the package, whose core checks memory and arithmetic. The sanitizer has to be loaded before Python;
# memory that Python keeps until it ends is no leak.
SANITIZED := $(CURDIR)/build/sanitized
STATES ?= 1
SANITIZER := LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libstdc++.so)" PYTHONMALLOC=malloc \
	ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=4096 PYTHONPATH=$(SANITIZED)/src
test-sanitized: $(VENV)/dev ## Run the tests of the core and 100,000 hostile states with sanitizers, for gcc (STATES=0.1: a tenth)
	$(call if_installed,gcc,the sanitizers are those of gcc,gcc,run-sanitized)
run-sanitized:
	rm -rf $(SANITIZED)/src && mkdir -p $(SANITIZED) && cp -a src $(SANITIZED)/src
	rm -f $(SANITIZED)/src/driftsurf/native/*.so
	CC=gcc $(BIN)/python hatch_build.py --out $(SANITIZED)/src/driftsurf/native --objects $(SANITIZED)/objects -- -O1 -g \
		-fno-omit-frame-pointer -fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all
	$(SANITIZER) $(BIN)/python -m pytest -q -p no:cacheprovider tests/native
	$(SANITIZER) $(BIN)/python -m tests.reliability states --scale $(STATES)

coverage: $(VENV)/dev ## Run all tests and require that they execute 98 % of the Python code, and of the native core (needs gcc)
	@rm -rf build/coverage $(VENV)/native # a core that counts takes the place of the usual one until the end
	CC=gcc $(BIN)/python hatch_build.py --objects build/coverage -- -O0 --coverage
	$(BIN)/python -m coverage erase
	$(BIN)/$(PYTEST) --cov --cov-report=
	@$(MAKE) --no-print-directory core
	$(BIN)/python -m tools.core_coverage build/coverage --fail-under 98
	$(BIN)/python -m coverage report --fail-under=98
test-services: $(VENV)/dev $(VENV)/native ## Run the tests with brokers and databases that run on this machine (others are skipped)
	timeout 3600 $(BIN)/python -m pytest -q -rs -p no:cacheprovider --confcutdir tests/integration tests/integration/services
test-engines: ## Run the tests on Spark, Kafka and Dask (needs Java 17; five minutes, and an hour at most)
	$(call if_installed,java,Spark needs Java 17,openjdk-17-jre-headless,run-engine-tests)
run-engine-tests: .venv-engines/ready
	timeout 3600 $(<D)/$(PROGRAMS)/python -m pytest -q -p no:cacheprovider --confcutdir tests/integration tests/integration/engines
test-oldest: .venv-oldest/ready ## Run all tests with the oldest supported version of every dependency
	@# Old versions use parts of newer indirect dependencies that are deprecated since.
	$(<D)/$(PROGRAMS)/python -m pytest $(TESTS) -W ignore::DeprecationWarning
# An interpreter counts if it starts: shims of pyenv exist for versions that are not chosen.
test-matrix: ## Run all tests with every Python from 3.11 on that is installed
	@found=""; for python in $(INTERPRETERS); do \
		$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 || { echo "$$python: not installed"; continue; }; \
		found=yes; $(MAKE) --no-print-directory VENV=.venv-$$(basename $$python) PYTHON=$$python test-with; \
	done; test -n "$$found" || { echo "none of $(INTERPRETERS) is installed" >&2; exit 1; }
test-with: $(VENV)/dev $(VENV)/native # one interpreter of the matrix
	$(BIN)/python -m pytest $(TESTS)
test-reliability: $(VENV)/dev $(VENV)/native ## Test crashes, disk faults, power loss, damaged files and bad values (hours)
	$(BIN)/python -m tests.reliability
	@$(MAKE) --no-print-directory test-reliability-spark
test-reliability-spark: ## Kill the driver and workers of a Spark cluster, 20 times each (needs Java 17)
	$(call if_installed,java,Spark needs Java 17,openjdk-17-jre-headless,run-reliability-spark)
run-reliability-spark: .venv-engines/ready
	$(<D)/$(PROGRAMS)/python -m tests.reliability spark
test-reliability-full: $(VENV)/dev $(VENV)/native ## Run the tests of reliability at full size (hours; resumes where it stopped)
	$(BIN)/python -m tests.reliability --full

check: mypy style types structure ## Check formatting, lint, spelling, types, import layers and the ceilings of the structure
style: $(VENV)/dev
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/codespell
	$(BIN)/lint-imports
mypy: $(VENV)/dev
	$(BIN)/mypy
types: $(VENV)/dev $(VENV)/native ## Check that the public API is completely typed (part of check)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/basedpyright --verifytypes driftsurf --ignoreexternal
structure: $(VENV)/dev $(VENV)/native
	$(BIN)/python -m tools.structure --check
format: $(VENV)/dev ## Format the code and apply automatic lint fixes
	$(BIN)/ruff format
	$(BIN)/ruff check --fix
generate: $(VENV)/dev $(VENV)/native ## Write estimators, exports, documentation tables and the counts of ARCHITECTURE.md
	PYTHONPATH=src $(BIN)/python -m tools.generate
	$(BIN)/python -m tools.structure --write
release: .venv-release/ready ## Build sdist and wheel, test them in an empty environment, and tag the commit (TAG=no: do not tag; TAG=v1.2.3: it has this tag)
	$(<D)/$(PROGRAMS)/python -m pip --disable-pip-version-check --quiet install --no-deps --require-hashes --requirement requirements/compiler.txt
	$(<D)/$(PROGRAMS)/python -m tools.release $(if $(filter no,$(TAG)),,$(if $(TAG),--tagged '$(TAG)',--tag))
lock: ## Update the lock files (needs uv)
	$(LOCK) pyproject.toml --group build --output-file requirements/core.txt
	$(LOCK) pyproject.toml --group build --group dev --constraint requirements/core.txt --output-file requirements/dev.txt
	$(LOCK) pyproject.toml --extra spark --extra dask --group build --group engines \
		--constraint requirements/core.txt --output-file requirements/engines.txt
	$(LOCK) pyproject.toml --extra service --constraint requirements/core.txt \
		--output-file requirements/service.txt
	$(LOCK) --group build --constraint requirements/core.txt --output-file requirements/build.txt
	$(LOCK) --group compiler --output-file requirements/compiler.txt
	$(LOCK) pyproject.toml --group build --group docs --constraint requirements/core.txt --constraint requirements/dev.txt \
		--output-file requirements/docs.txt
	$(LOCK) pyproject.toml --group build --group release --output-file requirements/release.txt
	$(LOCK) benchmarks/peers.in --output-file benchmarks/peers.txt
	$(subst --universal,--python-platform x86_64-manylinux_2_28 --only-binary :all: --resolution lowest-direct,$(LOCK)) \
		pyproject.toml --group build --group test --output-file requirements/oldest.txt
clean: ## Remove environments, caches and outputs
	rm -rf .venv .venv-* docs/api docs/developing docs/gallery runs reproduction build dist .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
