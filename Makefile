# make demo | make test: each sets up what it needs in .venv, and may be run again at any time.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
INPUTS := pyproject.toml constraints.txt
MINUTES ?= 15
SEED ?= 0

.PHONY: help demo test test-browser test-slow hammer check golden docs bench clean
.DELETE_ON_ERROR:

help:
	@echo "make demo          inspect, score and fill the example data (writes cdsa-demo/)"
	@echo "make test          the test suite"
	@echo "make test-browser  the page in Chromium, which it installs if there is none"
	@echo "make test-slow     checks that take minutes"
	@echo "make hammer        random damage to tables, fills and models (MINUTES=15 SEED=0)"
	@echo "make check         style, types and import layers"
	@echo "make golden        after a change of commands, REST API or methods: what tests compare with"
	@echo "make docs          the documentation as a site (writes site/)"
	@echo "make bench         time and memory; adds to results/"
	@echo "make clean         remove .venv and caches"

demo: $(VENV)/.ready-demo
	$(BIN)/cdsa demo

test: $(VENV)/.ready-dev
	$(BIN)/python -m pytest -n auto -rs

test-browser: $(VENV)/.ready-dev
	@sh scripts/browser.sh $(BIN)
	CDSA_BROWSER=need $(BIN)/python -m pytest -n 2 -m browser tests/test_page.py tests/test_report.py

test-slow: $(VENV)/.ready-dev
	$(BIN)/python -m pytest -m slow

hammer: $(VENV)/.ready-dev
	PYTHONPATH=tests $(BIN)/python -m hammer --minutes $(MINUTES) --seed $(SEED)

check: $(VENV)/.ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_imports.py

golden: $(VENV)/.ready-dev
	$(BIN)/python tests/golden_cases.py --write --only new --only weights --only surfaces
	$(BIN)/python scripts/render_pages.py

docs: $(VENV)/.ready-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(VENV)/.ready-dev
	$(BIN)/python benchmarks/spine.py --record results/spine.jsonl

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis

# A stamp is written only after its install went through, so a broken one is made again.
$(VENV)/.ready-demo: $(INPUTS)
	@sh scripts/install.sh "$(PYTHON)" $(VENV) baselines,io,plot,web
	@touch $@

$(VENV)/.ready-dev: $(INPUTS)
	@sh scripts/install.sh "$(PYTHON)" $(VENV) dev
	@touch $@ $(VENV)/.ready-demo
