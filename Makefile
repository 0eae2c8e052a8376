# Each target does everything that it needs from a bare checkout with python3 on Debian 12.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo check test proofs sim bench soak clean

SEEDS ?= 2000
WITHIN_S ?= 1500
MINUTES ?= 120

help:
	@echo 'make demo    install what it takes to run, and watch Longshore at work'
	@echo 'make check   the fast loop: style, types, layers, unit and property tests, simulation'
	@echo 'make test    everything that is tested, with the Debian packages that it takes (as root)'
	@echo 'make proofs  what takes longer: each guard is taken out, and a test must miss it'
	@echo 'make sim     many seeds of the simulation, then chaos: make sim SEEDS=20000 [JOBS=4]'
	@echo 'make bench   run the benchmarks'
	@echo 'make soak    two hours of instances that come and go: does the server grow? [MINUTES=20]'
	@echo 'make clean   delete what these targets made'

demo:
	@tools/setup.sh runtime
	@.venv/bin/longshore demo

check:
	@tools/setup.sh dev
	@.venv/bin/python tools/checks.py check

test:
	@tools/setup.sh packages
	@tools/setup.sh dev
	@.venv/bin/python tools/checks.py test

proofs:
	@tools/setup.sh packages
	@tools/setup.sh dev
	@.venv/bin/python tools/checks.py proofs --within-s $(WITHIN_S)

sim:
	@tools/setup.sh dev
	@.venv/bin/python tools/checks.py sim --seeds $(SEEDS) $(if $(JOBS),--jobs $(JOBS))

bench:
	@tools/setup.sh dev
	@.venv/bin/python tools/checks.py bench

soak:
	@tools/setup.sh dev
	@.venv/bin/python tools/soak.py --minutes $(MINUTES)

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
