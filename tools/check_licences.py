#!/usr/bin/env python3
"""Checks licences and sources of all dependencies against deny.toml. Needs Python 3.11 and cargo.

    python3 tools/check_licences.py

The quick part of `cargo deny check`, for places where cargo-deny is not installed: every crate in Cargo.lock has a
licence that deny.toml allows and comes from the registry. `make deny` runs the whole of it.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator

from cargo_metadata import ROOT, cargo_metadata

REGISTRY = "registry+https://github.com/rust-lang/crates.io-index"


def main() -> int:
    licences = tomllib.loads((ROOT / "deny.toml").read_text(encoding="utf-8"))["licenses"]
    allowed = set(licences["allow"])
    more = {exception["crate"]: set(exception["allow"]) for exception in licences.get("exceptions", [])}
    metadata = cargo_metadata("--all-features")
    members = set(metadata["workspace_members"])
    dependencies = [package for package in metadata["packages"] if package["id"] not in members]
    problems = [
        problem
        for package in dependencies
        for problem in problems_of(package, allowed | more.get(package["name"], set()))
    ]
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        return 1
    print(
        f"check_licences: {len(dependencies)} dependencies, all with licences and sources that deny.toml allows"
    )
    return 0


def problems_of(package: dict[str, str | None], allowed: set[str]) -> Iterator[str]:
    name = f"{package['name']} {package['version']}"
    if package["source"] != REGISTRY:
        yield f"Cargo.lock: {name} comes from {package['source'] or 'a folder'}; only crates.io is allowed"
    licence = package["license"]
    if not licence:
        yield f"Cargo.lock: {name} states no licence; read its sources and replace it, or ask its authors"
    elif not permits(licence, allowed):
        yield (
            f"Cargo.lock: {name} is under `{licence}`, which deny.toml does not allow; "
            "replace it, or add the licence there if it may be shipped under MIT OR Apache-2.0"
        )


def permits(expression: str, allowed: set[str]) -> bool:
    """Whether a licence expression can be met with allowed licences: `(MIT OR Apache-2.0) AND Unicode-3.0`.

    A slash is how `OR` was written once.
    """
    words = re.findall(r"[()]|[^\s()]+", expression.replace("/", " OR "))

    def either() -> bool:
        found = both()
        while words and words[0] == "OR":
            words.pop(0)
            found = both() or found
        return found

    def both() -> bool:
        found = single()
        while words and words[0] == "AND":
            words.pop(0)
            found = single() and found
        return found

    def single() -> bool:
        word = words.pop(0)
        if word == "(":
            found = either()
            words.pop(0)
            return found
        if words and words[0] == "WITH":
            word = f"{word} {words.pop(0)} {words.pop(0)}"
        return word in allowed

    return either()


if __name__ == "__main__":
    sys.exit(main())
