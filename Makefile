# make demo   set everything up and do the main job on a small image
# make test   set everything up and pass every test
# As root on Debian 12 both bring up the real tools by themselves: see testbed/README.md.
.DEFAULT_GOAL := help
.PHONY: help testbed demo test bench lint golden docs stop

VENV ?= $(or $(SIFMOD_TESTBED),/opt/sifmod-testbed)/venv
PYTEST_ARGS ?=
BENCH_ARGS ?=

help:
	@echo 'make demo      set everything up, then install, load, run, extend and pack a container'
	@echo 'make test      set everything up, then run every test (PYTEST_ARGS="-k name" for some)'
	@echo 'make bench     measure sifmod beside what people use today, into docs/benchmarks (BENCH_ARGS=--help)'
	@echo 'make lint      ruff, mypy and shellcheck'
	@echo 'make golden    write the golden files of the rendered artefacts anew'
	@echo 'make docs      write the generated parts of the reference anew'
	@echo 'make testbed   only set everything up and start the daemons'
	@echo 'make stop      stop the daemons'

testbed:
	testbed/setup
	testbed/daemons start

demo: testbed
	@testbed/as-user bash "$$(testbed/snapshot)/testbed/demo"

test: testbed lint
	@cd "$$(testbed/snapshot)" && exec "$(CURDIR)/testbed/as-user" python -m pytest -n auto --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

bench: testbed
	bench/setup
	@copy=$$(testbed/snapshot) && cd "$$copy" || exit; \
		"$(CURDIR)/testbed/as-user" python -m bench $(BENCH_ARGS); status=$$?; \
		cp docs/benchmarks/results.* "$(CURDIR)/docs/benchmarks/" && exit $$status

lint:
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	shellcheck -x .ci/run src/sifmod/launcher.sh $$(grep -lE -d skip '^(#!/bin/bash|# shellcheck shell=bash)' testbed/* bench/*)
	# what is rendered, and sets their variables, is checked with them by tests/unit/render/test_languages.py
	shellcheck -x -P SCRIPTDIR -e SC1091,SC2154 $$(find wrappers -type f ! -name '*.j2')

golden:
	SIFMOD_UPDATE_GOLDEN=1 PYTHONPATH=src $(VENV)/bin/python -m pytest -q tests/unit/render

docs:
	PYTHONPATH=src $(VENV)/bin/python docs/generate.py

stop:
	testbed/daemons stop
