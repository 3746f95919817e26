# make demo       set everything up and do the main job on a small image
# make test       set everything up; lint, every unit test, and each promise once on the real tools
# make test-all   set everything up; lint and every test
# As root on Debian 12 both bring up the real tools by themselves: see testbed/README.md.
.DEFAULT_GOAL := help
.PHONY: help testbed testbed-all demo test test-rest test-all bench lint golden docs picture shots site site-tools sbom lock stop

VENV ?= $(or $(SIFMOD_TESTBED),/opt/sifmod-testbed)/venv
PYTEST_ARGS ?=
BENCH_ARGS ?=

help:
	@echo 'make demo      set everything up, then install, load, run, extend and pack a container'
	@echo 'make test      set everything up, then lint, every unit test, each promise once (PYTEST_ARGS="-k name" for some)'
	@echo 'make test-all  the same and the rest: every fault, long state machines, PyTorch, other Pythons'
	@echo 'make test-rest only the tests of test-all that test leaves out'
	@echo 'make bench     compare sifmod with other ways to use containers, into docs/benchmarks (BENCH_ARGS=--help)'
	@echo 'make lint      ruff, mypy, shellcheck and luacheck'
	@echo 'make golden    regenerate the golden files of the rendered artefacts'
	@echo 'make docs      regenerate the generated parts of the reference'
	@echo 'make picture   regenerate the picture of a terminal in the README'
	@echo 'make shots     take the pictures of the catalogue anew, in a browser'
	@echo 'make site      build the documentation as a site into site/'
	@echo 'make sbom      write the software bill of materials of sifmod into dist/'
	@echo 'make lock      regenerate testbed/requirements*.txt with the newest versions: needs uv'
	@echo 'make testbed   only set everything up and start the daemons'
	@echo 'make stop      stop the daemons'

testbed:
	testbed/setup
	testbed/daemons start

testbed-all:
	testbed/setup --all
	testbed/daemons start

demo:
	@tests/run --demo

test:
	@tests/run --quick $(PYTEST_ARGS)

test-rest:
	@tests/run --rest $(PYTEST_ARGS)

test-all:
	@tests/run --all $(PYTEST_ARGS)

bench: testbed
	bench/setup
	@copy=$$(testbed/snapshot) && cd "$$copy" || exit; \
		"$(CURDIR)/testbed/as-user" python -m bench $(BENCH_ARGS); status=$$?; \
		cp docs/benchmarks/results.* "$(CURDIR)/docs/benchmarks/" && exit $$status

lint:
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	if command -v shellcheck >/dev/null; then shellcheck -x .ci/run src/sifmod/launcher.sh src/sifmod/inside/commands.sh $$(grep -lE -d skip '^(#!/bin/bash|# shellcheck shell=bash)' testbed/* tests/* bench/* docs/*); fi
	# those of wrappers, with what is rendered and sets their variables, are read by tests/unit/render/test_languages.py
	if command -v luacheck >/dev/null; then luacheck --quiet modulefiles/*.lua; fi

golden:
	SIFMOD_UPDATE_GOLDEN=1 PYTHONPATH=src $(VENV)/bin/python -m pytest -q tests/unit/render tests/unit/test_borders.py

docs:
	PYTHONPATH=src $(VENV)/bin/python docs/generate.py

picture: testbed
	@copy=$$(testbed/snapshot) && cd "$$copy" && SIFMOD_MAKE_PICTURE=1 "$(CURDIR)/testbed/as-user" \
		python -m pytest -q tests/integration/test_docs.py -k picture && \
		cp docs/pictures/terminal.* "$(CURDIR)/docs/pictures/"

shots:
	testbed/setup --all
	@copy=$$(testbed/snapshot) && cd "$$copy" && folder=$$(mktemp -d) && chmod 777 "$$folder" && \
		"$(CURDIR)/testbed/as-user" env PYTHONPATH=. python docs/pictures.py "$$folder" && \
		cp "$$folder"/*.png "$(CURDIR)/docs/pictures/"; status=$$?; rm -rf "$$folder"; exit $$status

site-tools: testbed
	docs/setup

site: site-tools
	@copy=$$(testbed/snapshot) && cd "$$copy" && "$(CURDIR)/testbed/as-user" env NO_MKDOCS_2_WARNING=1 \
		"$(dir $(VENV))site/bin/mkdocs" build --strict && \
		rm -rf "$(CURDIR)/site" && cp -r site "$(CURDIR)/site"

sbom:
	@testbed/sbom

LOCK = uv pip compile --quiet --upgrade --universal --python-version 3.9 --generate-hashes --custom-compile-command 'make lock'
lock:
	$(LOCK) testbed/requirements-build.in --output-file testbed/requirements-build.txt
	$(LOCK) --extra dev pyproject.toml testbed/requirements.in --output-file testbed/requirements.txt
	$(LOCK) --extra docs pyproject.toml --output-file docs/requirements.txt
	$(LOCK) bench/requirements-shpc.in --output-file bench/requirements-shpc.txt

stop:
	testbed/daemons stop
