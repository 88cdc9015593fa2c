# Two commands for users: `make demo` and `make test`. Both set up .venv on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test lint bench fidelity clean

demo: $(STAMP)
	$(BIN)/maxkernel optimize examples/rmsnorm.py --target v6e

test: lint
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

lint: $(STAMP)
	$(BIN)/ruff format --check src tests examples benchmarks
	$(BIN)/ruff check src tests examples benchmarks
	$(BIN)/pyright

bench: $(STAMP)
	$(BIN)/python -m benchmarks.judge_overhead
	$(BIN)/python -m benchmarks.main_job
	$(BIN)/python -m benchmarks.loop
	$(BIN)/python -m benchmarks.prompts

# Simulated against published times; benchmarks/fidelity/README.md says how CACHE is filled.
fidelity: $(STAMP)
	$(BIN)/python -m benchmarks.fidelity.table $(or $(CACHE),$(error set CACHE to the folder that benchmarks/fidelity/compile_rows.py filled))

# uv when present, pip otherwise; constraints.txt pins every version, the compiler's included.
$(STAMP): pyproject.toml constraints.txt
	@if command -v uv >/dev/null 2>&1; then \
	  uv venv --quiet --allow-existing $(VENV) && \
	  uv pip install --quiet --python $(BIN)/python -c constraints.txt --group dev -e . ; \
	else \
	  $(PYTHON) -m venv $(VENV) && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check pip==25.3 -c constraints.txt && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --group dev -e . ; \
	fi
	@touch $(STAMP)

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis
