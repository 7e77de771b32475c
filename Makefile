# Short commands for everything. The only things needed: Python 3.11 or newer, make, git.
# Each target installs no more than it needs into .venv, once: `make demo` never waits for the test libraries.

PYTHON ?= python3
VENV ?= .venv
# Handed to every installation, for example: make test PIP_FLAGS="--extra-index-url https://download.pytorch.org/whl/cpu"
PIP_FLAGS ?=
# Processes that run the tests.
# One more than there are processors: tests wait for kernels, servers and clocks.
JOBS ?= $(shell expr `getconf _NPROCESSORS_ONLN` + 1)

BIN := $(VENV)/bin
RUN := $(BIN)/python
OLDEST := $(VENV)-oldest
INTEGRATIONS := $(VENV)-integrations
# What the tests of the JavaScript need, where npm is: without it they are left out, and say so.
NODE_MODULES := widgets/node_modules/.made
NODE_TESTS := $(if $(shell command -v npm),$(NODE_MODULES))
NODE_TYPES := $(if $(NODE_TESTS),tsc)
PIP := $(RUN) .ci/install.py $(PIP_FLAGS)
# What an editable install copies instead of linking: change it, and the next target installs again.
COPIED := pyproject.toml hatch_build.py $(wildcard jupyter-config/*/* jupyter-config/*/*/* widgets/*.py widgets/*/*.js widgets/*/*.css)

# The tests start hundreds of processes: without the package's bytecode each of them compiles it again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
# Targets install into one environment, so none runs beside another; `check` has installed all of it before.
ifndef INSTALLED
.NOTPARALLEL:
endif
.DELETE_ON_ERROR:
.PHONY: help demo lab test bytecode widgets e2e test-slow test-oldest test-integrations test-matrix lint format types mypy pyright tsc docs bench check clean

help:  ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

demo: $(VENV)/.demo  ## run the tour notebook end to end and print the history that it made
	$(RUN) notebooks/run_tour.py

lab: $(VENV)/.lab  ## open the tour in JupyterLab
	$(BIN)/jupyter lab notebooks/tour.ipynb

test: $(VENV)/.test $(NODE_TESTS)  ## the tests (slow ones and those in a browser left out), doctests and the examples in the docs
	$(RUN) -m pytest -n $(JOBS) --ignore=tests/e2e

bytecode: $(VENV)/.test
	@found=$$($(RUN) -m pytest --collect-only -qq --ignore=tests/e2e) || { echo "$$found"; exit 1; }

widgets: $(VENV)/.test tsc  ## only the tests of the panels' JavaScript and its types, in node
	$(RUN) -m pytest tests/widgets

e2e: $(VENV)/.test $(VENV)/.e2e  ## the tests in a real browser: JupyterLab in Chromium, and Notebook 7 where it differs
	$(RUN) -m pytest -n 2 tests/e2e

test-slow: $(VENV)/.test $(VENV)/.e2e  ## the slow tests: kills, wheels, fresh environments, all cases of large matrices, all of Notebook 7
	$(RUN) -m pytest -n $(JOBS) -m slow

# Old releases use what newer ones of their own dependencies call deprecated.
test-oldest: $(OLDEST)/.made  ## the tests with the oldest dependencies that pyproject.toml allows
	$(OLDEST)/bin/python -m pytest -n $(JOBS) -W default::DeprecationWarning \
	  tests/storage tests/repository tests/session tests/values

# Their suites run as they were released: the packages from wheels, their tests from the source distributions. Those of agno and
# AgentScope are in neither; they run where their repositories are (tests/integrations/test_agno.py and test_agentscope.py say how).
SDISTS := $(INTEGRATIONS)/sdists
FOREIGN := kvgit==0.4.3 langgraph-checkpoint==4.3.2 openai-agents==0.24.0

test-integrations: $(INTEGRATIONS)/.made  ## the suites of agno, LangGraph, the OpenAI Agents SDK and others, with our classes in the place of theirs
	AGENT_KERNEL_SDISTS=$(abspath $(SDISTS)) $(INTEGRATIONS)/bin/python -m pytest -p no:asyncio -n $(JOBS) tests/integrations \
	  tests/packaging/test_examples.py -k 'integrations or coming-from or agex-tasks'

$(INTEGRATIONS)/.made: pyproject.toml Makefile
	$(PYTHON) -m venv $(INTEGRATIONS)
	$(INTEGRATIONS)/bin/python .ci/install.py $(PIP_FLAGS) --editable '.[integrations]'
	$(INTEGRATIONS)/bin/python -m pip download --quiet --disable-pip-version-check $(PIP_FLAGS) \
	  --no-deps --no-binary :all: --dest $(SDISTS) $(FOREIGN)
	for archive in $(SDISTS)/*.tar.gz; do tar --extract --file $$archive --directory $(SDISTS) || exit 1; done
	@touch $@

# JupyterLab and Notebook, each with every ipykernel; 4 and 7 are the newest.
MATRIX := $(foreach kernel,6.31 7.3 7.4,4.2-7.2-$(kernel) 4-7-$(kernel))

test-matrix: $(MATRIX:%=matrix-%)  ## the tests in a browser with old and new JupyterLab, Notebook and ipykernel (slow)

matrix-%: $(VENV)-matrix-%/.made
	$(VENV)-matrix-$*/bin/python -m pytest -n 2 -m "" tests/e2e

lint: $(VENV)/.lint  ## ruff check, ruff format, the layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-logo

format: $(VENV)/.lint  ## let ruff mend what it can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

types: mypy pyright $(NODE_TYPES)  ## mypy and pyright, strict, on package and tests, and the types of the JavaScript

tsc: $(NODE_MODULES)
	node widgets/node_modules/typescript/bin/tsc -p widgets

mypy pyright: $(VENV)/.lint $(VENV)/.test $(VENV)/.e2e
	$(BIN)/$@ $(if $(filter pyright,$@),--pythonpath $(RUN))

docs: $(VENV)/.docs  ## build the docs into site/, strictly
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(VENV)/.demo $(VENV)/.test $(VENV)/.e2e  ## the benchmarks, with the machine recorded beside the results
	$(RUN) -m benchmarks

# Tests in a browser wait half of their time, so others run beside them, and the bytecode of all tests is made once: each process
# that runs them would make it. The tests come last, so that their summary is the last thing to read.
check: $(VENV)/.check $(NODE_TESTS)  ## all of the above but lab, bench and the slow tests; CI runs exactly this
	$(MAKE) -j 2 --output-sync=target INSTALLED=1 lint types docs demo
	$(MAKE) -j 3 --output-sync=target INSTALLED=1 test-integrations e2e bytecode
	$(MAKE) INSTALLED=1 test

clean:  ## remove .venv and everything that was built
	rm -rf $(VENV) $(OLDEST) $(INTEGRATIONS) $(VENV)-matrix-* widgets/node_modules build dist site .pytest_cache .ruff_cache .mypy_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "agent-kernel needs Python 3.11 or newer, and '$(PYTHON)' is" \
	    "$$($(PYTHON) --version 2>&1 || true). Name another one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { \
	  echo "'$(PYTHON)' cannot make virtual environments (on Debian and Ubuntu: apt install python3-venv)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(OLDEST)/.made: pyproject.toml
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python .ci/install.py --resolution lowest-direct --editable '.[test]'
	@touch $@

.PRECIOUS: $(VENV)-matrix-%/.made
$(VENV)-matrix-%/.made: pyproject.toml
	$(PYTHON) -m venv $(@D)
	set -- $(subst -, ,$*); $(@D)/bin/python .ci/install.py --editable '.[e2e]' \
	  hatchling pandas pytest pytest-timeout pytest-xdist "jupyterlab==$$1.*" "notebook==$$2.*" "ipykernel==$$3.*"
	@touch $@

$(NODE_MODULES): widgets/package.json widgets/package-lock.json
	cd widgets && npm ci --ignore-scripts --no-audit --no-fund --loglevel error
	@touch $@

$(VENV)/.demo $(VENV)/.lab $(VENV)/.test $(VENV)/.e2e $(VENV)/.lint $(VENV)/.docs: $(VENV)/.%: $(VENV)/.made $(COPIED)
	$(PIP) --editable '.[$*]'
	@touch $@

# All of them at once: resolved and built once.
$(VENV)/.check: $(VENV)/.made $(COPIED)
	$(PIP) --editable '.[demo,docs,e2e,lint,test]'
	@touch $(addprefix $(VENV)/.,demo docs e2e lint test) $@
