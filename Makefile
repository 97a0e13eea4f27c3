# Each target calls a script of the same name, which does as well where make is missing: scripts/test, scripts/demo, ...
SHELL := /bin/bash
.PHONY: help setup demo test test-all mutants lint format bench docs release lock clean

help:
	@echo "make demo    set up and run a week of daily upserts on Airflow and Spark"
	@echo "make test    set up everything, then the fast tests"
	@echo "make test-all  the same with every case of every test"
	@echo "make mutants   small changes of the code that the fast tests are to notice (SAMPLE=200)"
	@echo "make setup   set up everything    make lint    style, types, import contracts"
	@echo "make bench   benchmarks, JSON out (ARGS=... for options)"
	@echo "make docs    the site of the pages in docs/, into build/site (ARGS=serve shows it)"
	@echo "make release  wheel, sdist, site, SBOM into dist/ (ARGS=--rehearse where no tag is)"
	@echo "make format  ruff fixes and formats    make lock  write requirements/*.lock anew (ARGS=--upgrade)"
	@echo "make clean   remove what the other targets made"

setup:
	@scripts/setup $(ARGS)

demo:
	@scripts/demo $(ARGS)

test:
	@scripts/test $(ARGS)

test-all:
	@scripts/test --all $(ARGS)

mutants:
	@scripts/mutants --sample $(or $(SAMPLE),200) $(ARGS)

lint:
	@scripts/lint

format:
	.venv/bin/ruff check --fix-only --quiet .
	.venv/bin/ruff format .

bench:
	@scripts/bench $(ARGS)

docs:
	@scripts/docs $(ARGS)

release:
	@scripts/release $(ARGS)

lock:
	@scripts/lock $(ARGS)

clean:
	rm -rf .venv .venv-hudi .venv-airflow-* .venv-dataproc .venv-docs .venv-release .venv-mutants .uv .cache .demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache \
	    build dist spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
