# Needs Python 3.11 or newer, git and make. `make help` lists what there is.
.DEFAULT_GOAL := help
.PHONY: help up test check fmt lint types imports bench contracts clean

is_new_enough := -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
PYTHON ?= $(shell for name in python3.13 python3.12 python3.11 python3; do \
	$$name $(is_new_enough) && command -v $$name && break; done)
UV ?= $(or $(shell command -v uv),.uv/bin/uv)
READY := .venv/.ready
BIN := .venv/bin

# $(call fail,SENTENCE): say what failed and what to do, and stop.
fail = { echo "make $@: $(1)" >&2; exit 1; }

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /  \1|/p' Makefile | awk -F'|' '{ printf "%-12s%s\n", $$1, $$2 }'

up: $(READY) ## start Headrace on this machine; Ctrl-C stops it
	@$(BIN)/headrace up || $(call fail,Headrace did not start or did not stop well; the reason is above and in .headrace/logs.)

test: $(READY) ## run the whole test suite; ARGS='-k name' narrows it
	@$(BIN)/pytest -n 2 -q $(ARGS) || $(call fail,tests failed; run one again with: make test ARGS='-n 0 PATH::NAME'.)

check: lint types imports ## everything that is checked without running it
	@$(BIN)/python -m headrace.local.contracts --check || $(call fail,the message contracts changed; run: make contracts; and review the diff.)

fmt: $(READY) ## format the code and fix what can be fixed
	@$(BIN)/ruff format -q . && $(BIN)/ruff check -q --fix . || $(call fail,ruff cannot fix the findings above; edit those lines.)

lint: $(READY) ## style and format
	@$(BIN)/ruff check -q . || $(call fail,ruff found the lines above; run: make fmt; and edit what it leaves.)
	@$(BIN)/ruff format -q --check . || $(call fail,files are not formatted; run: make fmt.)

types: $(READY) ## types
	@$(BIN)/mypy libs services deploy bench tests || $(call fail,mypy found the type errors above; fix them.)

imports: $(READY) ## who may import whom
	@$(BIN)/lint-imports || $(call fail,an import crosses a boundary; see tool.importlinter in pyproject.toml.)

bench: $(READY) ## measure; NAME=overhead
	@test -n "$(NAME)" || $(call fail,name a bench: make bench NAME=overhead.)
	@$(BIN)/python -m headrace.bench $(NAME) $(ARGS) || $(call fail,the bench $(NAME) failed or missed an aim; the table above says which.)

contracts: $(READY) ## write the snapshot of the message contracts
	@$(BIN)/python -m headrace.local.contracts || $(call fail,the contracts cannot be written; the error is above.)

clean: ## remove environments and caches, not the data in .headrace
	@rm -rf .venv .uv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml uv.lock $(wildcard */pyproject.toml */*/pyproject.toml) | $(UV)
	@test -n "$(PYTHON)" || $(call fail,no Python 3.11 or newer was found; install one or say where: make PYTHON=/path/to/python3.)
	@$(UV) sync --quiet --frozen --all-packages --python $(PYTHON) \
		|| $(call fail,the environment cannot be made; check the network and the disk and run make again.)
	@touch $@

.uv/bin/uv:
	@test -n "$(PYTHON)" || $(call fail,no Python 3.11 or newer was found; install one or say where: make PYTHON=/path/to/python3.)
	@$(PYTHON) -m pip install -q --target .uv 'uv>=0.9,<1' 2>/dev/null \
		|| { $(PYTHON) -m venv .uv && .uv/bin/pip install -q 'uv>=0.9,<1'; } \
		|| $(call fail,uv cannot be installed; check the network; on Debian and Ubuntu: apt install python3-venv.)
