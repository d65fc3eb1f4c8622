# make site    the encyclopedia into public/
# make test    every test
# make check   style, types and specs, without loading a model
# make rosetta the names of TransformerLens, checked where it is installed: in .venv-rosetta; `make site` shows it
# make setup   the environment alone, in .venv
# make serve   the site at http://127.0.0.1:8000, rebuilt as files change
# make versions  the tests at both ends of the releases of transformers and nnsight that are supported
# make screenshots  the pictures of the README, of the site as it is
# make bench   how long the library, its peers and the build take here; the site then has a page of it
# make coverage  what drafts make of every model type, measured where anything it depends on has changed
# make clean   what was built (the checkpoints and the environment stay); make distclean: those too
#
# Each sets itself up. PYTHON names the interpreter .venv is made with (3.11 or newer);
# WORKERS says how many units a build runs at once.

.DEFAULT_GOAL := site
.PHONY: site test check rosetta screenshots serve bench coverage clean distclean setup versions
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
ROSETTA := .venv-rosetta
STAMP := $(VENV)/.installed
CANDIDATES := $(if $(PYTHON),$(PYTHON),python3 python3.14 python3.13 python3.12 python3.11 python)
PYTEST_FLAGS ?= -n 2 --dist loadfile
BUILD_FLAGS := $(if $(WORKERS),--workers $(WORKERS))

site: $(STAMP)
	@$(BIN)/nnpedia build --site $(BUILD_FLAGS)

test: $(STAMP)
	@$(BIN)/python -m pytest $(PYTEST_FLAGS)

check: $(STAMP)
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/nnpedia check

# in an environment of its own: the library brings some fifty packages that nothing else wants
rosetta: $(STAMP)
	@if [ ! -x $(ROSETTA)/bin/python ]; then $(BIN)/python -m venv $(ROSETTA); fi
	@$(ROSETTA)/bin/python -m pip install -qq --disable-pip-version-check $$(grep '^torch==' constraints.txt)
	@$(ROSETTA)/bin/python -m pip install -qq --disable-pip-version-check -c constraints.txt hatchling editables
	@$(ROSETTA)/bin/python -m pip install -qq --disable-pip-version-check -c constraints.txt --no-build-isolation \
	  -e '.[rosetta]'
	@$(ROSETTA)/bin/nnpedia rosetta

serve: $(STAMP)
	@$(BIN)/nnpedia build --no-site $(BUILD_FLAGS)
	@$(BIN)/mkdocs serve --dirty --no-strict

screenshots: site
	@$(BIN)/python -m pytest -q -n 0 tests/screenshots.py

versions: $(STAMP)
	@.ci/versions

bench: $(STAMP)
	@$(BIN)/nnpedia build --no-site $(BUILD_FLAGS)
	@$(BIN)/python -m nnpedia.bench

coverage: $(STAMP)
	@$(BIN)/nnpedia draft --measure $(BUILD_FLAGS)

clean:
	@rm -rf public public.new public.old dist .nnpedia/kept .nnpedia/records .nnpedia/rosetta .pytest_cache .mypy_cache .ruff_cache
	@find build tests -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean
	@rm -rf $(VENV) $(ROSETTA) .nnpedia .versions

setup: $(STAMP)

# torch goes in first and by its exact version: asked for through another package,
# a resolver may take a newer release or one built for an accelerator.
$(STAMP): pyproject.toml constraints.txt
	@set -e; python=; for each in $(CANDIDATES); do \
	  if command -v $$each >/dev/null && $$each -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	  then python=$$each; break; fi; done; \
	if [ -z "$$python" ]; then echo "Python 3.11 or newer is needed (transformers 5.24 asks for it);" \
	  "make PYTHON=/path/to/python3.11 names one" >&2; exit 2; fi; \
	if [ ! -x $(BIN)/python ]; then echo "making $(VENV) with $$($$python --version)"; $$python -m venv $(VENV); fi
	@echo "installing the pinned requirements into $(VENV) (a few minutes the first time)"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check $$(grep '^torch==' constraints.txt)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt hatchling editables
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt --no-build-isolation \
	  -e '.[site,weights,cluster,test,dev]'
	@touch $@
