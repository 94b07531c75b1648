# Everything a person needs; each target works alone on a fresh clone with Python 3.11+, make, git and a compiler.
PYTHON ?= python3
OUT ?= out/demo

# make PYTHON=python3.13 with a .venv of another version: an environment of its own beside it, .venv-3.13.
VENV := .venv
ifneq ($(origin PYTHON),file)
ifneq ($(wildcard .venv/bin/python),)
version = $(shell $(1) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
GIVEN := $(call version,$(PYTHON))
ifneq ($(GIVEN),$(call version,.venv/bin/python))
VENV := .venv-$(GIVEN)
endif
endif
endif
BIN := $(VENV)/bin

.PHONY: setup demo check test lint types fast tests explore trust fuzz docs bench bench-storm clean

setup: $(VENV)/installed

$(VENV)/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("conrl needs Python 3.11 or newer: make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all,dev,bench]'
	@touch $@
	@echo "Now: . $(BIN)/activate"

demo: setup
	$(BIN)/conrl reproduce figure1 --quick --out $(OUT)
	$(BIN)/conrl report $(OUT)
	@echo "The figure is $(OUT)/figure1.png, the report $(OUT)/report.html"

check: lint types fast

test: lint types tests

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

fast: setup
	$(BIN)/pytest -q -n 2 -m 'not slow'

tests: setup
	$(BIN)/pytest -n 2 --durations=10

explore: setup
	HYPOTHESIS_PROFILE=explore $(BIN)/pytest -n 2 -m hypothesis

trust: setup
	$(BIN)/python tests/adversary.py --models 10000 --workers 2
	$(BIN)/python tests/adversary.py --wider --models 3000 --workers 2
	$(BIN)/python tests/adversary.py --prices --models 2000 --workers 2

fuzz: setup
	$(BIN)/python tests/fuzz.py --cases 30000

docs: setup
	$(BIN)/sphinx-build --quiet --fail-on-warning --conf-dir docs --doctree-dir out/doctrees . site
	@echo "The first page is site/index.html"

bench: setup
	$(BIN)/python benchmarks/planning.py

# Storm is under the GPL: in an environment of its own, for this comparison only.
bench-storm: setup .venv-storm/installed
	$(BIN)/python benchmarks/storm.py --storm .venv-storm/bin/python

.venv-storm/installed:
	test -x .venv-storm/bin/python || $(PYTHON) -m venv .venv-storm
	.venv-storm/bin/python -m pip install --quiet --disable-pip-version-check 'stormpy==2.0.*'
	@touch $@

clean:
	rm -rf .venv .venv-* out site
