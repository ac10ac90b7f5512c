.DEFAULT_GOAL := help

ifeq ($(OS),Windows_NT)
PYTHON ?= python
BIN := .venv/Scripts
else
PYTHON ?= python3
BIN := .venv/bin
endif
FUZZ_SECONDS ?= 60
# Packages that are not published: the Python extension goes to PyPI, the fuzz targets nowhere.
UNPUBLISHED := --exclude dance-python --exclude dance-fuzz

# What cargo-deny checks of what is here; known holes are asked of the network (make deny).
DENIED := bans licenses sources

.PHONY: help fmt lint lint-rust lint-python lint-page deny test test-rust test-python test-python-wheel test-engines test-page test-api pictures doc bench walk fuzz package package-rust package-python tools

help: ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

fmt: .venv/requirements target/page/package.json ## Format the code
	cargo fmt --all
	$(BIN)/ruff format python tools
	target/page/node_modules/.bin/biome format --write

lint: lint-rust lint-python lint-page ## Check formatting, lints, features, licences and the rules of our own; warnings are errors

lint-rust:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	$(PYTHON) tools/check_features.py
	$(PYTHON) tools/check_msrv.py
	$(PYTHON) tools/check_licences.py
	$(PYTHON) tools/check_rooms.py
	$(PYTHON) tools/check_words.py
	$(PYTHON) tools/test_checks.py
	if cargo deny --version >/dev/null 2>&1; then cargo deny --workspace check $(DENIED); fi

lint-python: .venv/requirements
	$(BIN)/ruff check python tools
	$(BIN)/ruff format --check python tools
	$(BIN)/mypy --config-file python/pyproject.toml python/dance_conformal

# JavaScript of the pages: format and lints, types from JSDoc, and unit tests. Biome and TypeScript come from the npm registry.
lint-page: target/page/package.json ## Check the JavaScript of the pages, and run its unit tests (needs Node.js 20.19 with npm)
	target/page/node_modules/.bin/biome check --error-on-warnings
	target/page/node_modules/.bin/tsc --project jsconfig.json
	node --test crates/dance-serve/tests/page/unit.test.mjs

deny: ## Check licences, sources, versions and known holes of all dependencies (needs cargo-deny: make tools, and the network)
	cargo deny --workspace check

test: test-rust test-python ## Run every test, documentation examples included

# Encoders are run by the ONNX Runtime that pip puts into .venv.
test-rust: .venv/requirements ## Run the tests of the Rust crates
	cargo test --workspace --locked

test-python-wheel: .venv/requirements
	rm -rf target/wheels
	$(BIN)/maturin build --locked --manifest-path python/Cargo.toml --features shared-builds --out target/wheels
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps target/wheels/*.whl

# The wheel is built in the profile of the tests (its numerics are optimised there too), installed and tested as a user
# would have it. Needs Python 3.10 with pip and venv.
test-python: test-python-wheel ## Build the wheel and run the tests of the Python package
	$(BIN)/python -m pytest -c python/pyproject.toml --doctest-modules --pyargs dance_conformal python/tests

# Spark needs a Java runtime, which is the user's. In `make test` the same tests run where the engines are installed.
test-engines: test-python-wheel ## Install Spark and Ray into .venv and run the tests of both
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "pyspark>=3.5" "ray[data]>=2.9" duckdb
	$(BIN)/python -m pytest -c python/pyproject.toml python/tests/test_spark.py python/tests/test_spark_executor.py python/tests/test_ray.py \
	  python/tests/test_engines_agree.py python/tests/test_scale_document.py

# A real browser: Debian's Chromium, or what CHROMIUM names, driven by playwright-core from the npm registry. Pictures of one's own are
# embedded by the ONNX Runtime that pip puts into .venv.
test-page: target/page/chromium .venv/requirements ## Run the tests of pages in a browser, with screenshots in target/page/screenshots
	cargo test --workspace --locked --no-run --quiet
	cd target/page && VIRTUAL_ENV=$(CURDIR)/.venv node ../../crates/dance-serve/tests/page/run.mjs ../debug/dance screenshots
	cd target/page && node ../../crates/dance-serve/tests/page/reports.mjs ../debug/dance screenshots

target/page/chromium: target/page/package.json
	test -n "$$CHROMIUM" || command -v chromium >/dev/null || { apt-get update -q && apt-get install -y -q chromium; }
	touch $@

target/page/package.json: crates/dance-serve/tests/page/package.json
	mkdir -p target/page
	cp $< $@
	cd target/page && npm install --silent --no-fund --no-audit || { rm package.json; false; }

pictures: target/page/chromium ## Draw the README's picture of the demo anew
	cargo test --workspace --locked --no-run --quiet
	cd target/page && node ../../tools/draw_demo.mjs ../debug/dance ../../docs/demo.svg

test-api: target/api/requirements ## Check the server against its OpenAPI description, with clients of others and with Arrow
	cargo test --workspace --locked --no-run --quiet
	target/api/$(notdir $(BIN))/python crates/dance-serve/tests/api/run.py target/debug/dance

target/api/requirements: crates/dance-serve/tests/api/requirements.txt
	$(PYTHON) -m venv target/api
	target/api/$(notdir $(BIN))/python -m pip install --quiet --disable-pip-version-check --requirement $<
	touch $@

.venv/requirements: python/tests/requirements.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement $<
	touch $@

doc: ## Build the documentation; warnings are errors
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --locked

bench: ## Measure the engine against the matrix product of the same run
	cargo bench -p dance-bench

walk: ## Count the files of crates/dance that one fit and one query pass through (needs gdb)
	$(PYTHON) tools/walk.py

# libFuzzer needs compiler flags that only a nightly compiler takes, or a stable one that is told to; thin LTO would compile
# everything once for each target. What it finds on the way goes to fuzz/found, what fails to fuzz/artifacts.
fuzz: ## Run every fuzz target under libFuzzer, FUZZ_SECONDS (60) each (needs cargo-fuzz: make tools)
	for target in $$(cargo fuzz list); do \
	  mkdir -p fuzz/found/$$target && \
	  RUSTC_BOOTSTRAP=1 CARGO_PROFILE_RELEASE_LTO=off cargo fuzz run --features libfuzzer $$target \
	    fuzz/found/$$target fuzz/corpus/$$target -- -max_total_time=$(FUZZ_SECONDS) -timeout=10 || exit 1; \
	done

package: package-rust package-python ## Build what would be published, from what would be published

package-rust:
	cargo package --workspace $(UNPUBLISHED) --locked

# The source distribution must build where nothing of the repository is: in a new environment, with its own lock file.
package-python: .venv/requirements
	rm -rf target/sdist
	$(BIN)/maturin sdist --manifest-path python/Cargo.toml --out target/sdist
	$(PYTHON) -m venv target/sdist/venv
	$(subst .venv,target/sdist/venv,$(BIN))/python -m pip install --quiet --disable-pip-version-check target/sdist/*.tar.gz
	$(subst .venv,target/sdist/venv,$(BIN))/python tools/try_package.py

tools: ## Install cargo-deny and cargo-fuzz where they are missing (several minutes)
	cargo deny --version || cargo install cargo-deny --locked
	cargo fuzz --version || cargo install cargo-fuzz --locked
