# The only door to this repository: every command a person or the CI needs. `make help` lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DISTRIBUTIONS := $(sort $(patsubst %/pyproject.toml,%,$(wildcard core/pyproject.toml wire/pyproject.toml plugins/*/pyproject.toml emulator/pyproject.toml agent/pyproject.toml cli/pyproject.toml)))
SOURCES := $(addsuffix /src,$(DISTRIBUTIONS))
STAMP := $(VENV)/.installed
WORKERS ?= auto

.PHONY: help install demo test lint fmt type cov check dist docs bench clean

help:  ## List the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

install: $(STAMP)  ## Create .venv with every distribution of this repository, editable

$(STAMP): pyproject.toml $(addsuffix /pyproject.toml,$(DISTRIBUTIONS))
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; try: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --group dev $(addprefix -e ./,$(DISTRIBUTIONS))
	@touch $@

demo: install  ## Run a real project's tests inside a local sandbox: no account, no key
	$(BIN)/python examples/run_project_tests.py

test: install  ## Run all tests
	$(BIN)/python -m pytest -n $(WORKERS)

lint: install  ## Check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

fmt: install  ## Format the code and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

type: install  ## Check the types, strictly
	$(BIN)/mypy $(SOURCES) examples bench

cov: install  ## Run all tests and report coverage
	$(BIN)/python -m pytest -n $(WORKERS) --cov --cov-report=term-missing:skip-covered

dist: install  ## Build every wheel, install each alone in a fresh environment and use it
	$(BIN)/python tests/packaging/install_each.py $(DISTRIBUTIONS)

check: lint type test dist  ## Everything the CI runs

docs: install  ## Write the generated parts of the documentation (settings tables)
	$(BIN)/python docs/generate.py

bench: install  ## Measure against plain subprocess and the official SDKs, as ratios in the same run
	$(BIN)/python -m pip install --quiet --group bench
	$(BIN)/python bench/run.py

clean:  ## Remove everything that was made
	rm -rf $(VENV) dist build out .pytest_cache .mypy_cache .ruff_cache .coverage htmlcov
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
