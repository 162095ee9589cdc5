# make build   the `kubist` package and command, in .venv/
# make demo    real droplets: figures of queries, and a picture in demo/
# make test    all tests of Rust and Python
# make crash   20,000 seeds of simulated crashes, or SEEDS=n
# make stress  2,000 rounds of killed processes, and as many seeds of races and trouble; ROUNDS=n
# make bench   what the engine does with 20 million rows on this machine
# make bench-live   many small commits, before and after the optimizer
# make bench-replication   what copies in deeper cubes cost and save
# make bench-lookup   all records of one particle: what a lookup costs and saves
# make structures   the papers' trees side by side: nodes and stored rows
# make clean   all of the above away

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: build demo test bench bench-live bench-replication bench-lookup structures crash stress clean

# One cargo call builds command and module, so that what they share is compiled
# once. The package is used from where it stands: the module goes into it, and a
# path file leads Python there.
build: $(VENV)/.for-build
	cargo build --release --locked --workspace --target-dir target
	install -m 755 target/release/kubist $(BIN)/kubist
	install -m 755 target/release/lib_kubist.so python/kubist/_kubist.abi3.so
	echo '$(CURDIR)/python' > "$$($(BIN)/python -c 'import site; print(site.getsitepackages()[0])')/kubist.pth"

demo: build $(VENV)/.for-demo
	$(BIN)/python examples/airway/demo.py

test: build $(VENV)/.for-test
	$(BIN)/python scripts/run_tests.py

bench:
	cargo run --release --locked --target-dir target -p kubist --example bench

bench-live:
	cargo run --release --locked --target-dir target -p kubist --example bench_live

bench-replication:
	cargo run --release --locked --target-dir target -p kubist --example bench_replication

bench-lookup:
	cargo run --release --locked --target-dir target -p kubist --example bench_lookup

structures:
	cargo run --release --locked --target-dir target -p kubist --example structures

# A long campaign of simulated crashes; SEED=n cargo test ... plays one again.
SEEDS ?= 20000
crash:
	SEEDS=$(SEEDS) cargo test --release --locked --target-dir target -p kubist --test crash acknowledged

# The same as in the tests, for longer; ROUNDS=n for all.
ROUNDS ?= 2000
stress:
	ROUNDS=$(ROUNDS) cargo test --release --locked --target-dir target -p kubist --test processes killed -- --nocapture
	SEEDS=$(ROUNDS) cargo test --release --locked --target-dir target -p kubist --test interleave every
	SEEDS=$(ROUNDS) cargo test --release --locked --target-dir target -p kubist --test trouble -- --nocapture

clean:
	rm -rf target $(VENV) demo python/kubist/*.so
	find python examples scripts -name __pycache__ -prune -exec rm -rf {} +

# A stamp each, so that pip is asked only when its list has changed.
$(VENV)/.for-%: python/requirements-%.txt $(BIN)/python
	$(BIN)/pip install --quiet -r $<
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Kubist needs Python 3.11 or newer, as in: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
