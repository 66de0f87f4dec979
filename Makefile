# Every target works on a fresh Debian or Ubuntu machine with cargo: what is missing is installed first.

.DEFAULT_GOAL := help
.PHONY: help demo build deb test suites faults clients cases fuzz parity bench clean deps

CARGO ?= cargo
LOXO  := $(or $(CARGO_TARGET_DIR),target)/release/loxo
# Seconds that `make fuzz` runs; the shell's own SECONDS does not reach make.
SECONDS ?= 60
# Seeds that `make faults` tries.
ROUNDS ?= 3

help: ## this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 18

deps: ## install what is missing: PostgreSQL, a C compiler, libclang
	@scripts/install-deps.sh

build: deps ## build the release binary
	$(CARGO) build --release --locked -p loxo

# Without debug symbols: with them it is three times as large.
deb: build ## a Debian package in target/debian
	rm -f $(dir $(LOXO))../debian/loxo_*.deb
	deb=$$(scripts/install-deps.sh --cargo-deb) && $$deb --package loxo --no-build --strip --locked

demo: build ## a cluster of 4 datanodes, loaded with TPC-H lineitem (SF=1)
	$(LOXO) demo $(if $(SF),--sf $(SF))

test: ## format, lints, documentation, every test but the long suites; half of the case files, others each time (15 minutes)
	@scripts/install-deps.sh --tests
	@scripts/test.sh short

suites: ## what `make test` does, with the long suites and all case files (45 minutes)
	@scripts/install-deps.sh --tests
	@scripts/test.sh

faults: deps ## kill everything everywhere: 20 rounds a control point, 30 of growing and shrinking, then ROUNDS=3 of random chaos
	$(CARGO) build --locked -p loxo --features control-points
	LOXO_FAULTS_ROUNDS=20 $(CARGO) test --locked -p faults --test control_points -- --nocapture
	LOXO_FAULTS_ROUNDS=30 $(CARGO) test --locked -p faults --test growing -- --nocapture
	for seed in $$(seq $(ROUNDS)); do LOXO_FAULTS_SEED=$$seed LOXO_FAULTS_SECONDS=60 \
	    $(CARGO) test --locked -p faults --test workloads -- --nocapture --test-threads=1 || exit 1; done

clients: build ## psql, pgbench; drivers and frameworks of eight languages on one server and on a cluster (ONLY=name…)
	@scripts/install-deps.sh --tests
	$(CARGO) test --release --locked -p e2e --test clients -- --nocapture
	$(CARGO) build --release --locked -p e2e --bin clients
	scripts/install-clients.sh >$(dir $(LOXO))clients.list
	$(dir $(LOXO))clients $(dir $(LOXO))clients.list $(ONLY)

cases: deps ## every case file in every layout and by both protocols against a stock server
	$(CARGO) build --locked -p loxo
	LOXO_E2E_ALL=1 $(CARGO) test --locked -p e2e --test differential --test interleaved --test no_temp -- --nocapture

fuzz: build ## random COPYs, statements and messages, new ones each time, against a stock server, for SECONDS=60 each
	export LOXO_FUZZ_SECONDS=$(SECONDS) LOXO_FUZZ_SEED=$${LOXO_FUZZ_SEED:-$$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}; \
	echo "LOXO_FUZZ_SEED=$$LOXO_FUZZ_SEED"; \
	$(CARGO) test --release --locked -p e2e --test copy_fuzz -- --nocapture && \
	$(CARGO) test --release --locked -p e2e --test query_fuzz -- --nocapture && \
	$(CARGO) test --release --locked -p e2e --test protocol_fuzz -- --nocapture

parity: build ## PostgreSQL's own regression files: the share of statements that a cluster answers the same
	$(CARGO) build --release --locked -p e2e --bin parity
	regress=$$(scripts/postgresql-source.sh) && $(dir $(LOXO))parity "$$regress"

bench: build ## load through the coordinators against stock servers, in one run
	$(LOXO) bench load

clean: ## remove what was built; clusters stay (loxo down --wipe removes them)
	$(CARGO) clean
