.DEFAULT_GOAL := help

PYTHON ?= python3

.PHONY: help fmt lint test test-rust test-python doc bench

help: ## Show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-6s %s\n", $$1, $$2}'

fmt: ## Format the code
	cargo fmt --all

lint: ## Check formatting and lints; warnings are errors
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

test: test-rust test-python ## Run every test, documentation examples included

test-rust:
	cargo test --workspace

# The wheel is built in the profile of the tests (its numerics are optimised there too), installed and tested as a user
# would have it. Needs Python 3.10 with pip and venv.
test-python: .venv/requirements
	rm -rf target/wheels
	.venv/bin/maturin build --manifest-path python/Cargo.toml --features parquet --out target/wheels
	.venv/bin/python -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps target/wheels/*.whl
	.venv/bin/python -m pytest -c python/pyproject.toml --doctest-modules --pyargs dance_conformal python/tests

.venv/requirements: python/tests/requirements.txt
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	touch $@

doc: ## Build the documentation; warnings are errors
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items

bench: ## Measure the engine against the matrix product of the same run
	cargo bench -p dance-conformal
