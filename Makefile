# Both `make run` and `make test` set up everything they need in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet install

.PHONY: run test test-slow fuzz lint bench reproduce reproduce-ppo year validate tune clean

run: $(VENV)/core
	$(BIN)/iopea reproduce --quick

test: $(VENV)/dev lint
	$(BIN)/python -m pytest -n auto -m 'not slow'

# What takes long: kills, clusters, whole studies.
test-slow: $(VENV)/dev
	$(BIN)/python -m pytest -n auto -m slow

# Odd values in every place, and many more damaged files than in the tests: some 30,000 cases, a minute or two.
fuzz: $(VENV)/dev
	$(BIN)/python -m pytest -n auto tests/fuzz tests/tables tests/test_altered_states.py --cases 4000

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: $(VENV)/core
	$(BIN)/iopea bench

# Every table and figure of the paper, 20 runs each, without PPO; about 45 minutes on two cores. Goes on where it was
# stopped.
reproduce: $(VENV)/core
	$(BIN)/iopea reproduce paper --full --without ppo --document docs/reproduction.md

# What the first year costs alone, 40 runs from each start; about half an hour.
year: $(VENV)/core
	$(BIN)/iopea reproduce year --full --without ppo --document docs/year.md

# The same with PPO; about four hours.
reproduce-ppo: $(VENV)/dev
	$(BIN)/iopea reproduce paper --full

# Every promise of the library, measured; about an hour and a half on two cores. Goes on where it was stopped.
validate: $(VENV)/core
	$(BIN)/iopea validate --full --document docs/guarantees.md

# Choose the learners' hyperparameters anew, on seeds that no comparison uses; about an hour.
tune: $(VENV)/dev
	$(BIN)/python benchmarks/tune.py

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "iopea needs Python 3.11 or later; set PYTHON=python3.x")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/core: pyproject.toml | $(VENV)/bin/python
	$(PIP) --editable .
	touch $@

# This build of torch needs no GPU packages; Stable-Baselines3 would take the newest.
$(VENV)/dev: pyproject.toml | $(VENV)/core
	$(PIP) torch==2.13.0
	$(PIP) --editable '.[test,ppo,cluster]'
	touch $@

clean:
	rm -rf $(VENV) out .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
