# Everything a person needs; each target works alone on a fresh clone with Python 3.11+, make, git and a compiler.
PYTHON ?= python3
BIN := .venv/bin
OUT ?= out/demo

.PHONY: setup demo test lint types tests explore trust fuzz docs bench clean

setup: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("conrl needs Python 3.11 or newer: make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all,dev,bench]'
	@touch $@

demo: setup
	$(BIN)/conrl reproduce figure1 --quick --out $(OUT)
	$(BIN)/conrl report $(OUT)
	@echo "The figure is $(OUT)/figure1.png, the report $(OUT)/report.html"

test: lint types tests

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

tests: setup
	$(BIN)/pytest -n 2 --durations=10

explore: setup
	HYPOTHESIS_PROFILE=explore $(BIN)/pytest -n 2 -m hypothesis

trust: setup
	$(BIN)/python tests/adversary.py --models 10000 --workers 2

fuzz: setup
	$(BIN)/python tests/fuzz.py --cases 20000

docs: setup
	$(BIN)/python docs/build.py site

bench: setup
	$(BIN)/python benchmarks/planning.py

clean:
	rm -rf .venv out site
