# Two commands do everything: `make demo` and `make test`. Both set up their own environment in .venv first.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
WORKERS ?= 2

.PHONY: demo test test-all lint fast-tests bench schemas clean web-runtimes

# What the journey needs. torch first and alone: with it in place nothing else pulls another build of it in.
$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12)))' || \
	  { echo "unplug needs Python 3.11 or 3.12; run: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(PIP) --editable ".[litert,coreml,onnx,diffusion]"
	touch $@

# What the tests need, Ray among it. MediaPipe goes in without its dependencies: it asks for an OpenCV that wants a desktop's libGL.
$(VENV)/.ready-dev: $(VENV)/.ready
	$(PIP) --editable ".[litert,coreml,onnx,bench,diffusion,cluster,dev]"
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
	npm ci --prefix $(VENV)/web --ignore-scripts --no-audit --no-fund --silent

demo: $(VENV)/.ready
	$(BIN)/unplug demo

lint: $(VENV)/.ready-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint fast-tests

# One thread each: two workers and their children on two cores otherwise wait for each other's threads.
fast-tests: $(VENV)/.ready-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow" -q -n 2 --dist loadfile

test-all: lint
	$(BIN)/python -m pytest -q

bench: $(VENV)/.ready-dev
	$(BIN)/python -m benchmarks.rows
	$(BIN)/python -m benchmarks.fleet --out out/fleet.json
	$(BIN)/python -m benchmarks.plugin_latency --out out/plugin-latency.json
	$(BIN)/python -m benchmarks.overhead --out out/overhead.json

schemas: $(VENV)/.ready
	$(BIN)/python -m unplug.export.schemas
	$(BIN)/python -m unplug.mobile_bench.schemas
	$(BIN)/python -m unplug.sdk.schemas

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
