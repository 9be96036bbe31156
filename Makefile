# Two commands do everything: `make demo` and `make test`. Both set up their own environment in .venv first.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
WORKERS ?= 2

# One thread each: two workers and their children on two cores otherwise wait for each other's threads.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile
# One file a package, for `make quick`.
QUICK = tests/test_layout.py tests/core/test_files.py tests/plugins/test_blocks.py tests/export/test_tensors.py \
	tests/mobile_bench/test_statistics.py tests/sdk/learning/data/test_split.py tests/sdk/learning/training/test_recipe.py \
	tests/sdk/forgetting/unlearning/test_budget.py tests/sdk/evidence/auditing/test_privacy.py tests/sdk/evidence/statistics/test_stats.py \
	tests/sdk/evidence/fleet/test_results.py tests/sdk/drawing/diffusion/test_noise.py tests/sdk/report/test_pareto.py \
	tests/sdk/trust/bundle/test_bundle.py tests/sdk/cli/test_cli.py

# Those that need nothing but what the base install brings.
BASE = tests/core/test_cache.py tests/core/test_errors.py tests/core/test_files.py tests/core/test_iospec.py tests/core/test_locks.py \
	tests/core/test_names.py tests/core/test_registry.py tests/core/test_regular.py tests/core/test_results.py tests/core/test_stand_ins.py \
	tests/core/test_store.py tests/sdk/trust/bundle/test_fuzz.py tests/sdk/trust/bundle/test_vectors.py tests/sdk/trust/ledger/test_merkle.py

.PHONY: demo quick test base studies nightly lint fast-tests long-tests bench sbom site schemas clean web-runtimes

# What the demo needs: three converters, no diffusion. torch first and alone: with it in place nothing else pulls another build of it in.
$(VENV)/.ready: pyproject.toml sdk/weights/pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12), (3, 13)))' || \
	  { echo "unplug needs Python 3.11, 3.12 or 3.13; run: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(PIP) --editable ./sdk/weights --editable ".[demo]"
	touch $@

# What the tests need, Ray among it. MediaPipe goes in without its dependencies: it asks for an OpenCV that wants a desktop's libGL.
$(VENV)/.ready-dev: $(VENV)/.ready
	$(PIP) --editable ".[phone,forget,cluster,executorch,coreai,dev]"
	$(PIP) absl-py flatbuffers sounddevice
	$(PIP) --no-deps mediapipe
	touch $@

# Half a gigabyte for one test: TensorFlow's interpreter beside LiteRT. CI has it.
$(VENV)/.ready-tensorflow: $(VENV)/.ready-dev
	$(PIP) --editable ".[tensorflow]"
	touch $@

# The packages that web apps load, for parity in a headless browser: UNPLUG_WEB_MODULES=$(VENV)/web/node_modules.
web-runtimes: $(VENV)/.ready
	mkdir -p $(VENV)/web
	cp export/unplug/export/runtime/web/package*.json $(VENV)/web/
	npm ci --prefix $(VENV)/web --ignore-scripts --no-audit --no-fund --loglevel error

demo: $(VENV)/.ready
	$(BIN)/unplug demo

lint: $(VENV)/.ready-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint fast-tests

fast-tests: $(VENV)/.ready-dev
	$(PYTEST) -m "not long and not nightly and not study"

# What `make test` leaves out and CI runs behind it; crash walks, floods, browsers and the whole export matrix are left to `make nightly`.
long-tests: $(VENV)/.ready-dev
	$(PYTEST) -m "long and not nightly and not study" --durations 40

# An auditor's environment, of any Python: make base PYTHON=python3.14. The tests' conftest loads torch.
WHEEL ?= .
base:
	$(PYTHON) -m venv --clear $(VENV)-base
	$(VENV)-base/bin/python -m pip install --quiet --disable-pip-version-check $(WHEEL) pytest hypothesis
	$(VENV)-base/bin/python -m pytest -q --noconftest -m "not long and not nightly" $(BASE)

# Leaderboards, controls compared, canaries: what no request needs.
studies: $(VENV)/.ready-dev
	$(PYTEST) -m "not nightly" tests/studies benchmarks/studies

nightly: lint
	$(PYTEST)

# Before a commit.
quick: lint
	$(PYTEST) -m "not long and not nightly" $(QUICK)

bench: $(VENV)/.ready-dev
	$(BIN)/python -m benchmarks.rows
	$(BIN)/python -m benchmarks.fleet --out out/fleet.json
	$(BIN)/python -m benchmarks.plugin_latency --out out/plugin-latency.json
	$(BIN)/python -m benchmarks.overhead --out out/overhead.json

# A bill of materials (CycloneDX) of what is installed here: out/sbom.cdx.json. pip-audit looks at the same environment.
sbom: $(VENV)/.ready-dev
	mkdir -p out
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --output-file out/sbom.cdx.json $(BIN)/python

# README and docs as pages to search, with a reference made from the sources: out/site/html. It needs no torch.
$(VENV)-site/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear $(VENV)-site
	$(PIP) --editable ".[site]"
	touch $@

site: BIN = $(VENV)-site/bin
site: $(VENV)-site/.ready
	$(BIN)/python -m benchmarks.site

schemas: $(VENV)/.ready
	$(BIN)/python -m unplug.export.schemas
	$(BIN)/python -m unplug.mobile_bench.schemas
	$(BIN)/python -m unplug.sdk.schemas
	$(BIN)/python -m benchmarks.studies.schemas

clean:
	rm -rf $(VENV) $(VENV)-base $(VENV)-site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
