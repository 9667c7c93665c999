# Every recurring command of lasthop. `make help` lists them; continuous integration calls these and nothing else.
# Needed beforehand: Python >= 3.11, Rust >= 1.88 and make. The rest goes into .venv, target and out, all in this folder.

# The first Python that is new enough; `make PYTHON=/path/to/python3` chooses another.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
    $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)

VENV := .venv
BIN := $(VENV)/bin
# The bridge is built against the environment's Python, however cargo is called, so that no build undoes another.
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python

# Real stacks need a later Rust than the rest: an older one leaves them out.
STACKS := crates/lasthop-stacks/Cargo.toml
RUSTS = $(shell (sed -n 's/^rust-version = "\(.*\)"/\1/p' $(STACKS); rustc --version | cut -d' ' -f2) | sort -V)
LATER = $(if $(filter $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' $(STACKS)),$(firstword $(RUSTS))),,--exclude lasthop-stacks)

ENVIRONMENT := $(VENV)/.environment-ready
NATIVE := $(VENV)/.native-ready$(addprefix -,$(FEATURES))
RUST_SOURCES := Cargo.toml Cargo.lock $(shell find crates -name '*.rs' -o -name '*.toml' -o -name '*.bpf.o')
# The bridge is tested from Python: a Rust test binary of it would need the development files of libpython.
CORE = --workspace --exclude lasthop-py $(LATER)

# Properties draw the same inputs every time, so that a red test is red for everyone. To search further:
# make test-properties PROPTEST_RNG_SEED=7 PROPTEST_CASES=10000
export PROPTEST_RNG_SEED ?= 1

# Tests of the front run on every core, the tests of a file one after the other.
PARALLEL ?= --numprocesses=auto --dist=loadfile

SEEDS ?= 1-10

# `make build FEATURES=stacks` has real transport stacks (QUIC) beside; without it a scenario that names one is refused.
WITH := $(if $(FEATURES),--features "pyo3/extension-module pyo3/abi3-py311 $(FEATURES)")

# No rule but those here: make's own would compile a `.bpf.c` that is newer than its object, for the wrong machine.
MAKEFLAGS += --no-builtin-rules

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help build demo test test-rust test-properties test-python test-live test-scenarios test-differential \
    kernel-guest pins pins-check steer-object compiled compiled-tests compiled-page clippy lint format reproduce \
    paper-report bench bench-cost bench-live validate validate-media validate-kernel docs site lock wheel new-sender \
    new-device new-queue new-error-model new-traffic msrv pythons miri fuzz-inputs audit licences clean page test-page \
    bench-page pictures

help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: $(NATIVE) ## Create .venv and build the engine into it; afterwards .venv/bin/lasthop works

$(ENVIRONMENT): requirements.lock
	@test -n "$(PYTHON)" || { echo "lasthop needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3"; exit 1; }
	@command -v cargo >/dev/null || { echo "lasthop needs Rust 1.88 or newer; see https://rustup.rs"; exit 1; }
	$(PYTHON) -m venv $(VENV) || { echo "on Debian and Ubuntu, venv comes in the package python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes \
	    --requirement requirements.lock
	@touch $@

$(NATIVE): $(ENVIRONMENT) pyproject.toml $(RUST_SOURCES)
	MAKEFLAGS= VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --release --locked $(WITH)
	@rm -f $(VENV)/.native-ready* && touch $@

demo: build ## Race five TCP senders over a lossy last hop: a table, plots and what to try next
	$(BIN)/lasthop demo --out out/demo --seeds $(SEEDS) --force
	@echo "docs/tutorial/first-run.md goes on from here; in this folder the command is .venv/bin/lasthop."

test: test-rust test-python test-live test-scenarios test-differential ## Run every test

comma := ,
# Says what a long recipe is at, and when it began.
define AT
	@echo "==> $$(date +%H:%M:%S) $@: $(1)"
endef
# What took longest stands at the end of each part.
SLOWEST := --durations=10 --durations-min=1

test-rust: ## Every Rust test: units, vectors, properties, examples in the documentation
	$(call AT,Rust: units$(comma) vectors$(comma) properties$(comma) examples)
	cargo test --locked $(CORE)

test-properties: ## Search further: the properties of test-rust, fully optimised, with every assertion on
	cargo test --locked --profile checked --package lasthop-cc --test conformance
	cargo test --locked --profile checked --package lasthop-sim --test runs -- properties:: scenario_fuzz::

# The blocks of README and docs that call sudo.
REAL_PACKETS_OF_PAGES := tests/python/test_documentation.py::test_a_block_with_real_packets

test-python: build ## Tests of the front, with the examples in its docstrings
	$(call AT,the command and the package)
	$(BIN)/python -m pytest $(PARALLEL) $(SLOWEST) --ignore-glob='tests/python/test_live*.py' \
	    --ignore=tests/python/test_steer.py --ignore=tests/python/test_intruders.py \
	    --deselect $(REAL_PACKETS_OF_PAGES) python tests/python

# They wait for real time more than for processors: each has namespaces of its own, and several run side by side.
LIVE_PARALLEL ?= --numprocesses=6 --dist=worksteal
LIVE := $(wildcard tests/python/test_live*.py) tests/python/test_steer.py tests/python/test_intruders.py $(REAL_PACKETS_OF_PAGES)

test-live: build ## Tests with real packets; says so where the machine does not let them
	$(call AT,real packets$(comma) side by side)
	$(BIN)/python -m pytest -rs $(LIVE_PARALLEL) $(SLOWEST) -m 'not alone' $(LIVE)
	$(call AT,real packets$(comma) one after the other)
	$(BIN)/python -m pytest -rs $(SLOWEST) -m alone $(LIVE)

test-scenarios: build ## Run every ready scenario once, and the ready study with one seed
	$(call AT,ready scenarios and a study)
	@for scenario in scenarios/*.toml; do \
	    echo "$$scenario"; $(BIN)/lasthop run "$$scenario" --json - >/dev/null || exit 1; done
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && echo studies/per-sweep.toml && \
	    $(BIN)/lasthop study run studies/per-sweep.toml --seeds 1 --out "$$folder/per-sweep"

test-differential: build ## Compare with ns-2, packet for packet; needs the command ns (Debian package ns2)
	$(call AT,packet for packet with ns-2)
	@command -v ns >/dev/null || echo "ns-2 is not installed (Debian package ns2): the differential tests will be skipped"
	$(BIN)/python -m pytest $(PARALLEL) $(SLOWEST) -rs tests/differential

kernel-guest: build ## Build the virtual machine whose kernel `--virtual` asks (Debian packages, QEMU) into out/kernel
	cargo rustc --quiet --locked --release --package lasthop-guest -- -C target-feature=+crt-static
	$(BIN)/python tools/kernel_guest.py $(IF_POSSIBLE)

pins: build ## Pin anew what ready scenarios, studies and papers do; a changed fingerprint needs a reason
	$(BIN)/python tools/pins.py

pins-check: build ## Compare every pinned run, those of a paper's quick look included (minutes)
	$(BIN)/python tools/pins.py --check

# A compiler that links, or has one crate left, leaves a core idle: what has a folder of its own below target goes on.
compiled: ## Compile what the gate needs side by side: the engine, the tests with clippy before them, the page
	$(call AT,the engine$(comma) the tests and the page are compiled side by side)
	@$(MAKE) --jobs=3 build compiled-tests compiled-page

compiled-tests: clippy
	cargo test --locked $(CORE) --no-run

compiled-page:
	tools/build_page.sh --if-possible || [ $$? -eq 3 ]

clippy: $(ENVIRONMENT) ## Every warning of clippy is an error
	cargo clippy --locked --workspace $(LATER) --all-targets -- -D warnings

lint: build clippy ## Formatting, clippy, ruff, mypy, tidiness and subjects of commits; every warning is an error
	$(call AT,formats$(comma) warnings$(comma) types$(comma) tidiness$(comma) subjects of commits)
	$(BIN)/python tools/commits.py
	$(BIN)/python -m pytest -q $(SLOWEST) tests/python/test_tidy.py
	cargo fmt --all --check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict python/lasthop docs/generate.py examples

PAPER ?= 004
OPTIONS ?=

reproduce: build ## Run a paper's figures and judge its claims: make reproduce PAPER=004 (or all) [OPTIONS=--quick]
	$(BIN)/lasthop reproduce $(PAPER) --out out/papers$(if $(filter all,$(PAPER)),,/$(PAPER)) $(OPTIONS)

# With out/papers/PAPER/papers.html to look at before it is committed.
paper-report: OPTIONS += --html
paper-report: reproduce ## Put the report of a paper into docs/papers, where it is committed
	for paper in $(if $(filter all,$(PAPER)),000 001 002 003 004,$(PAPER)); do \
	  rm -rf docs/papers/$$paper && mkdir -p docs/papers/$$paper && \
	  (cd out/papers/$$paper && cp -r report.md verdicts.csv readings.csv series.parquet figures $(CURDIR)/docs/papers/$$paper) \
	  || exit 1; done
	$(BIN)/python tools/papers_page.py

bench: build ## Speed and memory beside ns-2 (and ns-3, if installed), cost of each sender; writes bench/RESULTS.md
	$(BIN)/python bench/run.py
	$(BIN)/python bench/cost.py

bench-cost: build ## Instructions, branches and cache lines per packet-hop by part (callgrind); writes bench/COST.md and cost.toml
	$(BIN)/python bench/cost.py

bench-live: build ## Real packets: rates, lateness, parity with the kernel's TCP; writes bench/LIVE.md and STEER.md (root, 30 minutes)
	$(BIN)/python bench/live.py
	$(BIN)/python -m bench.steer
	$(BIN)/python -m validation.parity

validate: build ## Compare with ns-2, ns-3, Linux and packets at length; writes validation-*.md, kernel-scripts.md, classifiers.md, media.md, senders-today.md
	$(BIN)/python -m validation.senders --full
	$(BIN)/python -m validation.statistics --full
	$(BIN)/python -m validation.red --full
	$(BIN)/python -m validation.snoop --full
	$(BIN)/python -m validation.classifiers
	$(BIN)/python -m validation.wlan
	$(BIN)/python -m validation.two_cells
	$(BIN)/python -m validation.saturation
	$(BIN)/python -m validation.wifi
	$(BIN)/python -m validation.wifi_cells
	$(MAKE) validate-media
	$(BIN)/python -m validation.today
	$(BIN)/python -m validation.bursts
	$(BIN)/python -m validation.queues
	$(BIN)/python -m validation.second_look
	$(BIN)/python -m validation.kernel_scripts
	LASTHOP_ALL_BITS=1 $(BIN)/python -m pytest --numprocesses=auto --dist=worksteal tests/python/test_seals.py -k flipped
	LASTHOP_FAULTS=all LASTHOP_KILLS=100 $(BIN)/python -m pytest tests/python/test_faults.py
	LASTHOP_DAMAGED=4000 $(BIN)/python -m pytest tests/python/test_bundle_damage.py

CELLREPLAY ?=
PION ?=
SCREAM ?=

validate-media: build ## Calls, the cell beside ns-3's LTE, and (CELLREPLAY=CHECKOUT) two loads beside their authors' program, (PION=, SCREAM=CHECKOUT) GCC beside pion's, SCReAM beside its authors'; writes media.md, validation-cellular.md, -gcc.md, -scream.md
	$(BIN)/python -m validation.media
	$(BIN)/python -m validation.cellular
	$(if $(CELLREPLAY),$(BIN)/python -m validation.two_loads $(CELLREPLAY),@echo "two loads were not compared: name a checkout of github.com/williamsentosa95/cellreplay with CELLREPLAY")
	$(if $(PION),$(BIN)/python -m validation.gcc_beside_pion $(PION),@echo "GCC was not compared: name a checkout of github.com/pion/interceptor with PION")
	$(if $(SCREAM),$(BIN)/python -m validation.scream_beside_authors $(SCREAM),@echo "SCReAM was not compared: name a checkout of github.com/EricssonResearch/scream with SCREAM")

validate-kernel: build kernel-guest ## Compare with Linux 6.1 in virtual time; writes kernel-parity.md, validation-linux-queues.md (half an hour of two cores)
	$(BIN)/python -m validation.kernel
	$(BIN)/python -m validation.kernel_queues

page: ## Build the page of `lasthop view` into python/lasthop/page, a static folder; needs Node and npm
	tools/build_page.sh

test-page: build ## Test the page under Node and in Chromium (Debian package chromium); says so where it cannot
	$(call AT,the page under Node and in Chromium)
	@tools/test_page.sh

pictures: build page ## Take the pictures of the page in docs/images anew, in Chromium
	cd web && PICTURES=$(CURDIR)/docs/images node --test tests/pictures.test.mjs

bench-page: build page ## How fast the page is, in Chromium; writes bench/PAGE.md
	cd web && node tools/bench.mjs

wheel: build ## Build a wheel for every Python from 3.11 on into out/wheels, and try it in an empty environment
	$(call AT,a wheel in an empty environment)
	rm -rf out/wheels
	@tools/build_page.sh --if-possible || { [ $$? -eq 3 ] && echo "the wheel carries no page: lasthop view will say so"; }
	$(BIN)/python tools/licences.py
	$(BIN)/maturin build --release --locked --out out/wheels
	PYTHON="$(PYTHON)" tools/check_wheel.sh out/wheels/*.whl

pythons: build ## Try a wheel with every Python that is promised and here (PATH, uv, pyenv), and say which are missing
	$(BIN)/maturin build --release --locked --out out/wheels-of-pythons
	tools/check_pythons.sh out/wheels-of-pythons/*.whl

new-sender: ## Start a congestion controller in Rust: make new-sender NAME=x
	@$(PYTHON) tools/new_sender.py "$(NAME)"

new-device: ## Start a middlebox in Rust: make new-device NAME=x
	@$(PYTHON) tools/new_device.py "$(NAME)"

new-queue: ## Start a queue discipline in Rust: make new-queue NAME=x
	@$(PYTHON) tools/new_queue.py "$(NAME)"

new-error-model: ## Start an error model in Rust: make new-error-model NAME=x
	@$(PYTHON) tools/new_error_model.py "$(NAME)"

new-traffic: ## Start a traffic source in Rust: make new-traffic NAME=x
	@$(PYTHON) tools/new_traffic.py "$(NAME)"

BPF := crates/lasthop-live/bpf

steer-object: ## Compile what runs in the kernel for `lasthop steer` anew; needs clang, llvm and libbpf-dev
	cd $(BPF) && for name in steer twins; do clang -O2 -g -Wall -Wextra -Wno-unused-parameter -Werror -target bpf \
	    -mcpu=v3 -ffile-prefix-map=$$PWD=. -I/usr/include/$$(uname -m)-linux-gnu -c $$name.bpf.c -o $$name.bpf.o && \
	    llvm-strip -g $$name.bpf.o || exit 1; done
	cd $(BPF) && sha256sum steer.bpf.c steer.bpf.o laws.h twins.bpf.c twins.bpf.o > steer.sha256

format: $(ENVIRONMENT) ## Format Rust and Python, and apply the safe fixes
	cargo fmt --all
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: ## Renew requirements.lock with the newest versions that pyproject.toml allows
	$(PYTHON) -m venv out/lock
	out/lock/bin/python -m pip install --quiet --disable-pip-version-check uv
	@echo "# What make installs into .venv, to the exact version and the hash of each file; written by: make lock" \
	    > out/requirements.lock
	out/lock/bin/uv pip compile --quiet --universal --upgrade --python-version 3.11 --extra dev --no-header --no-annotate \
	    --no-emit-index-url --generate-hashes pyproject.toml >> out/requirements.lock
	mv out/requirements.lock requirements.lock

# The oldest Rust that README promises.
MSRV := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

msrv: $(ENVIRONMENT) ## Compile with the oldest Rust that README promises; rustup installs it if need be
	@command -v rustup >/dev/null || { echo "msrv needs rustup, which installs Rust $(MSRV)"; exit 1; }
	rustup toolchain install $(MSRV) --profile minimal --no-self-update
	cargo +$(MSRV) check --locked --workspace --exclude lasthop-stacks --all-targets --target-dir target/msrv

# What has no system call, no thread and no file of its own: the units of time and order, and the controllers. Of libm the
# portable half: Miri does not interpret the instructions that the other is written in.
MIRI := --package lasthop-core --package lasthop-cc --features libm/force-soft-floats
MIRI_TOOLCHAIN ?= nightly

miri: ## Interpret the tests of what is pure, and look for undefined behaviour (minutes; TESTS=name for some of them)
	@command -v rustup >/dev/null || { echo "miri needs rustup, which installs Rust's nightly"; exit 1; }
	rustup toolchain install $(MIRI_TOOLCHAIN) --profile minimal --component miri,rust-src --no-self-update
	MIRIFLAGS=-Zmiri-disable-isolation PROPTEST_CASES=4 cargo +$(MIRI_TOOLCHAIN) miri test --locked $(MIRI) --lib \
	    --target-dir target/miri -- $(TESTS)

fuzz-inputs: build ## Search for inputs that end in a panic, guided by the branches they reach (TIME seconds for each reader; 60)
	@tools/fuzz_inputs.sh $(TIME)

audit: ## Advisories, licences and sources of what is compiled in and installed; says what is out of reach
	@tools/audit.sh

licences: $(ENVIRONMENT) ## Collect the licence texts of what the wheel carries into python/lasthop/licences.txt
	$(BIN)/python tools/licences.py

docs: build ## Write the generated pages of docs/reference, the site, and the reference of the crates into target/doc
	$(BIN)/python docs/generate.py
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps
	$(MAKE) site

site: build ## Build the documentation with the Python API into out/site; a broken link is an error
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --builder html docs out/site
	@echo "out/site/index.html"

clean: ## Remove everything that was built
	rm -rf $(VENV) target out python/lasthop/page python/lasthop/licences.txt web/engine web/node_modules
	find python -name '*.so' -delete
