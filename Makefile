.DEFAULT_GOAL := help

.PHONY: help fmt lint test doc bench

help: ## Show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-6s %s\n", $$1, $$2}'

fmt: ## Format the code
	cargo fmt --all

lint: ## Check formatting and lints; warnings are errors
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

test: ## Run every test, documentation examples included
	cargo test --workspace

doc: ## Build the documentation; warnings are errors
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items

bench: ## Measure the engine against the matrix product of the same run
	cargo bench -p dance-conformal
