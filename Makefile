# Every target makes the virtual environment it needs from the locked, hashed requirements, and
# makes it again only when the locks or pyproject.toml change.
#
#   PYTHON=python3.13 make test     which interpreter builds the environment
#   VENV=/elsewhere/env make test   where the environment stands
#   make test PYTEST_FLAGS='-k grants -x'
#   make serve SERVE_FLAGS='--listen 8701'
#   make lock LOCK_FLAGS=--upgrade

VENV ?= .venv
BENCH_VENV ?= .bench-venv
FORGE_VENV ?= .forge-venv
REFEREES ?= .referees
PYTHON ?=
PYTEST_FLAGS ?=
SERVE_FLAGS ?=
LOCK_FLAGS ?=

RUN := $(VENV)/bin/python
PIP_FLAGS := --disable-pip-version-check --quiet
# The editable install holds the checkout's path, so a checkout that moved is installed again.
HERE := $(shell printf %s '$(CURDIR)' | cksum | cut -d ' ' -f 1)
READY := $(VENV)/.toolcrib-$(HERE)
BENCH_READY := $(BENCH_VENV)/.toolcrib-$(HERE)
FORGE_READY := $(FORGE_VENV)/.toolcrib-$(HERE)
REFEREES_READY := $(REFEREES)/sdk1/.ready $(REFEREES)/sdk2/.ready $(REFEREES)/node/.ready

.DEFAULT_GOAL := help
.PHONY: help serve demo test conformance system check bench docs lock
.DELETE_ON_ERROR:

help: ## show the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST))

serve: $(READY) ## serve the quick start on 127.0.0.1:8700; approvals are asked in this terminal
	@$(RUN) -m toolcrib serve --config examples/quickstart/toolcrib.yaml $(SERVE_FLAGS)

demo: $(READY) ## a scripted round at the quick start: calls, a denial and an approval
	$(RUN) examples/quickstart/demo.py

test: check system ## everything CI runs: the static checks, then all tests
	$(RUN) -m pytest -n auto $(PYTEST_FLAGS)

conformance: $(READY) $(REFEREES_READY) ## MCP judged by others: conformance suites, real servers and clients
	REFEREES=$(abspath $(REFEREES)) $(RUN) -m pytest tests/referees -n 2 --dist loadfile $(PYTEST_FLAGS)

# Programs that some tests need, each with its Debian package. Root gets what is missing; others
# are told, and those tests say that they were skipped.
PROGRAMS := bwrap:bubblewrap catatonit:catatonit git:git initdb:postgresql npm:npm podman:podman runc:runc
system:
	@missing=; \
	for pair in $(PROGRAMS); do \
	  program=$${pair%%:*}; \
	  PATH="$$PATH:/usr/sbin:$$(echo /usr/lib/postgresql/*/bin | tr ' ' ':')" \
	    command -v $$program >/dev/null || missing="$$missing $${pair#*:}"; \
	done; \
	if [ -z "$$missing" ]; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "Installing$$missing …"; \
	  apt-get update -qq; \
	  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $$missing >/dev/null; \
	else echo "Some tests will be skipped. To run them: sudo apt-get install$$missing"; fi

check: $(READY) ## static checks: style, format, types, layers
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(RUN) -m pyright --pythonpath $(RUN)
	$(RUN) -c 'from importlinter.cli import lint_imports_command as lint; lint()' --no-logo --no-cache

bench: $(READY) $(BENCH_READY) $(FORGE_READY) ## measure against floors and peers, and print the table
	BENCH_PEER_PYTHON=$(BENCH_VENV)/bin/python BENCH_FORGE_PYTHON=$(FORGE_VENV)/bin/python \
		$(RUN) bench/run.py

docs: $(READY) ## write the generated reference pages again
	$(RUN) docs/generate.py

COMPILE = $(RUN) -m uv pip compile --quiet --system-certs --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url --custom-compile-command 'make lock' $(LOCK_FLAGS)

lock: $(READY) ## resolve the requirements again and write the locks
	$(COMPILE) pyproject.toml --output-file requirements/base.txt
	$(COMPILE) pyproject.toml --all-extras --group dev --output-file requirements/dev.txt
	$(COMPILE) --group bench --override requirements/bench-overrides.txt \
		--output-file requirements/bench.txt
	$(COMPILE) requirements/forge.in --output-file requirements/forge.txt
	$(COMPILE) requirements/referee-sdk1.in --output-file requirements/referee-sdk1.txt
	$(COMPILE) requirements/referee-sdk2.in --output-file requirements/referee-sdk2.txt
	$(RUN) tests/referees/environments.py lock

$(READY): requirements/dev.txt pyproject.toml
	@$(call make_environment,$(VENV))
	@echo 'Installing the locked requirements into $(VENV) …'
	@$(RUN) -m pip install $(PIP_FLAGS) --require-hashes -r requirements/dev.txt
	@$(RUN) -m pip install $(PIP_FLAGS) --no-deps --no-build-isolation -e .
	@touch $@

# --no-deps: the lock is complete, and one of its pins is an override that pip would refuse.
$(BENCH_READY): requirements/bench.txt
	@$(call make_environment,$(BENCH_VENV))
	@echo 'Installing the locked peer into $(BENCH_VENV) …'
	@$(BENCH_VENV)/bin/python -m pip install $(PIP_FLAGS) --no-deps --require-hashes -r $<
	@touch $@

$(FORGE_READY): requirements/forge.txt
	@$(call make_environment,$(FORGE_VENV))
	@echo 'Installing the other locked peer into $(FORGE_VENV) …'
	@$(FORGE_VENV)/bin/python -m pip install $(PIP_FLAGS) --require-hashes -r $<
	@touch $@

# Each referee has an environment of its own: their versions exclude each other.
$(REFEREES)/%/.ready: requirements/referee-%.txt
	@$(call make_environment,$(REFEREES)/$*)
	@echo 'Installing the locked referee $* into $(REFEREES) …'
	@$(REFEREES)/$*/bin/python -m pip install $(PIP_FLAGS) --require-hashes -r $<
	@touch $@

$(REFEREES)/node/.ready: tests/referees/node/package-lock.json | $(READY)
	@echo 'Installing the locked Node packages into $(REFEREES) …'
	@REFEREES=$(abspath $(REFEREES)) $(RUN) tests/referees/environments.py install
	@touch $@

# An environment that somebody else made is used as it is when its Python is new enough. Debian
# ships Python without ensurepip; root gets the missing package, others get the command.
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
CANDIDATES := $(or $(PYTHON),python3.11 python3.12 python3.13 python3.14 python3)
define make_environment
set -eu; \
if ! $(1)/bin/python -c '$(NEW_ENOUGH)' 2>/dev/null; then \
  if [ -e $(1) ]; then echo '$(1): its Python does not run or is older than 3.11; making it anew.'; fi; \
  python=; \
  for candidate in $(CANDIDATES); do \
    if $$candidate -c '$(NEW_ENOUGH)' 2>/dev/null; then python=$$candidate; break; fi; \
  done; \
  if [ -z "$$python" ]; then \
    echo 'No Python 3.11 or newer among: $(CANDIDATES). Install one, or name it: make PYTHON=/path/to/python3' >&2; \
    exit 1; \
  fi; \
  if ! $$python -c 'import ensurepip, venv' 2>/dev/null; then \
    package=$$($$python -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'); \
    if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
      apt-get update -qq; \
      apt-get install -qq -y --no-install-recommends $$package; \
    else \
      echo "$$python cannot make virtual environments. Cure: sudo apt-get install $$package" >&2; \
      exit 1; \
    fi; \
  fi; \
  $$python -m venv --clear $(1); \
fi; \
if ! $(1)/bin/python -m pip --version >/dev/null 2>&1; then $(1)/bin/python -m ensurepip; fi
endef
