# Every target sets up .venv by itself when it is missing or older than the dependency files.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

# Kernels whose code only some processors can run: elsewhere no test can.
NEED_PAIRS := answer_kernels convolution_code fused_network lesson_kernels stem_code tower_kernels
HAS_PAIRS = from keisei.core.llvm_code import has_pair_products as has; raise SystemExit(not has())
OMIT = $(shell $(BIN)/python -c '$(HAS_PAIRS)' || \
	echo $(NEED_PAIRS:%=keisei/core/%.py) | sed 's/ /,/g; s/^/--omit=/')

.PHONY: train test lint bench clean
.DELETE_ON_ERROR:

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) -e '.[dev]'
	touch $@

.venv/peers-ready: .venv/ready
	$(INSTALL) -e '.[dev,peers]'
	touch $@

train: .venv/ready  ## self-play shogi with the laptop config; ARGS="seed=2 ..." changes settings
	$(BIN)/keisei train $(ARGS)

test: lint  ## lint, all tests, then the rules once more uncompiled for their coverage
	$(BIN)/coverage erase
	$(BIN)/coverage run --parallel-mode -m pytest -n 2 --dist loadfile --no-loadscope-reorder
	NUMBA_DISABLE_JIT=1 $(BIN)/coverage run --parallel-mode -m pytest -n 2 -m uncompiled
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --include='keisei/shogi/*' --fail-under=95
	$(BIN)/coverage report --include='keisei/core/*,keisei/training/*' $(OMIT) --fail-under=92
	$(BIN)/coverage report --include='keisei/training/parallel/*' --fail-under=92
	$(BIN)/coverage report --include='keisei/gridworld/*' --fail-under=92

lint: .venv/ready  ## style, types, and which package may import which
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/peers-ready  ## our engine against the others that can be installed here
	$(BIN)/keisei bench engine

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage*
