#!/usr/bin/env python3
"""Checks that `rust-version` in Cargo.toml is the oldest compiler that builds the workspace, as far as can be known.

    python3 tools/check_msrv.py

It must reach what the dependencies in Cargo.lock declare, the edition, and the newer parts of the language and the
standard library that the sources use (FEATURES below); and it may not be higher than all of these. Clippy's
`incompatible_msrv`, which is on, refuses standard functions that are newer; it knows more functions than the list
below, but nothing of the language, and nothing of a `rust-version` that could be lower.
"""

from __future__ import annotations

import re
import sys

from cargo_metadata import ROOT, cargo_metadata
from rust_text import code_only

EDITIONS = {"2018": "1.31", "2021": "1.56", "2024": "1.85"}
# What our sources use, or may soon, that is newer than the edition: the compiler that brought it, and how to see it.
# Only names that cannot be a method of somebody else.
FEATURES = [
    ("1.87", "is_multiple_of", r"\.is_multiple_of\("),
    ("1.88", "let chains", r"&&\s*let\s|\b(?:if|while)\s+let\s(?:[^{};()]|\((?:[^()]|\([^()]*\))*\))*&&"),
    ("1.88", "as_chunks", r"\.as_chunks(?:_mut)?\s*(?:::|\()"),
    ("1.88", "HashMap::extract_if", r"\.extract_if\("),
    ("1.89", "locks on files", r"file(?:\(\))?\.(?:try_)?lock(?:_shared)?\("),
    ("1.91", "Path::file_prefix", r"\.file_prefix\("),
    ("1.94", "array_windows", r"\.array_windows\s*(?:::|\()"),
    ("1.95", "if let guards", r"^[^={};\n]*[^={};\n\s][ ]+if\s+let\s[^{};]*=>"),
    ("1.95", "cfg_select", r"\bcfg_select!"),
]

Version = tuple[int, int, int]


def main() -> int:
    metadata = cargo_metadata("--all-features")
    members = set(metadata["workspace_members"])
    ours = {package["name"]: package for package in metadata["packages"] if package["id"] in members}
    stated = {package["rust_version"] for package in ours.values()}
    if len(stated) != 1 or None in stated:
        print(
            f"Cargo.toml: every crate needs `rust-version.workspace = true`; found {stated}", file=sys.stderr
        )
        return 1
    msrv = stated.pop()

    problems = []
    needs: list[tuple[Version, str]] = []
    for package in metadata["packages"]:
        if package["id"] in members or not package["rust_version"]:
            continue
        name = f"{package['name']} {package['version']}"
        needs.append((version(package["rust_version"]), f"the dependency {name}"))
        if version(package["rust_version"]) > version(msrv):
            problems.append(
                f"Cargo.lock: {name} needs Rust {package['rust_version']}, Cargo.toml promises {msrv}; "
                f"take an older {package['name']} (cargo update -p {package['name']} --precise …), "
                "or raise rust-version and say so in CHANGELOG.md"
            )
    for package in ours.values():
        needs.append((version(EDITIONS[package["edition"]]), f"edition {package['edition']}"))
    for path, line, since, what in features():
        needs.append((version(since), f"{what} ({path}:{line})"))
        if version(since) > version(msrv):
            problems.append(
                f"{path}:{line}: {what} came with Rust {since}, Cargo.toml promises {msrv}; "
                "write it without, or raise rust-version and say so in CHANGELOG.md"
            )

    highest, why = max(needs)
    if version(msrv) > highest:
        problems.append(
            f"Cargo.toml: rust-version = {msrv}, but nothing known needs more than {text(highest)} ({why}); "
            "lower it, or add what needs it to FEATURES in tools/check_msrv.py"
        )
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        return 1
    print(f"check_msrv: Rust {msrv} is needed by {why}, and by nothing more")
    return 0


def features() -> list[tuple[str, int, str, str]]:
    """File, line, version and name of each newer part of the language or library; the first place of each in a file."""
    found = []
    for path in sorted([*ROOT.glob("crates/**/*.rs"), *ROOT.glob("python/src/**/*.rs")]):
        code = code_only(path.read_text(encoding="utf-8"))
        for since, what, pattern in FEATURES:
            if match := re.search(pattern, code, re.MULTILINE):
                name = path.relative_to(ROOT).as_posix()
                found.append((name, code.count("\n", 0, match.end()) + 1, since, what))
    return found


def version(words: str) -> Version:
    first, second, third = [*map(int, words.split(".")[:3]), 0, 0][:3]
    return first, second, third


def text(of: Version) -> str:
    return ".".join(map(str, of if of[2] else of[:2]))


if __name__ == "__main__":
    sys.exit(main())
