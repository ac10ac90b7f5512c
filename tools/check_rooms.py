#!/usr/bin/env python3
"""Checks the order of the library's rooms and the length of source files.

    python3 tools/check_rooms.py

The library tells one story in one direction: a room uses only itself, the rooms before it and the files beside the
story; those use only each other. Paths count wherever they are written (`use crate::…`, `crate::…` in code,
`super::super::…`, `$crate::…` in macros), in tests too; comments do not. A name that `lib.rs` re-exports counts as the
room it comes from.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from rust_text import closing_brace, code_only, without_tests

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = ROOT / "crates" / "dance" / "src"

# Files beside the story: anyone may use them.
BESIDE = ["context", "error", "kernel", "method", "setters", "whole_file"]
# The rooms, each before those that may use it.
ROOMS = [
    "numeric",
    "device",
    "data",
    "machine",
    "neighbors",
    "scores",
    "evaluation",
    "stream",
    "posterior",
    "conformal",
    "model",
]

MOST_LINES = 450
# Files that may be longer, and why: "crates/…/file.rs": "reason".
LONGER: dict[str, str] = {}

PATH = re.compile(r"\bcrate\s*::\s*|(?<![\w:])(?:self\s*::\s*)?(?P<supers>(?:super\s*::\s*)+)")
MODULE = re.compile(r"\bmod\s+(\w+)\s*\{")
REEXPORT = re.compile(r"\bpub\s+use\s+(?:crate\s*::\s*|self\s*::\s*)?(\w+)\s*::\s*([^;]+);")


def main() -> int:
    problems = [*room_problems(), *length_problems()]
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print(f"check_rooms: {len(problems)} problem(s)", file=sys.stderr)
        return 1
    print("check_rooms: every room uses only what stands before it; no source file is too long")
    return 0


def room_problems() -> Iterator[str]:
    known = {*BESIDE, *ROOMS}
    found = {path.stem for path in LIBRARY.iterdir() if path.is_dir() or path.suffix == ".rs"} - {"lib"}
    for name in sorted(found - known):
        yield (
            f"crates/dance/src/{name}: is neither a room nor beside the story; "
            "put it into a room, or add it to ROOMS or BESIDE in tools/check_rooms.py and to ARCHITECTURE.md"
        )
    for name in sorted(known - found):
        yield f"crates/dance/src/{name}: is gone; take it out of ROOMS or BESIDE in tools/check_rooms.py"
    origins = reexports((LIBRARY / "lib.rs").read_text(encoding="utf-8"))
    for path in sorted(LIBRARY.rglob("*.rs")):
        module = module_of(path)
        if not module or module[0] not in known:
            continue
        name = path.relative_to(ROOT).as_posix()
        for line, written in uses(path.read_text(encoding="utf-8"), module):
            used = origins.get(written, written)
            if not allowed(module[0], used):
                yield f"{name}:{line}: {complaint(module[0], used, written)}"


def allowed(user: str, used: str) -> bool:
    if used in BESIDE or used == user:
        return True
    if user in BESIDE or used not in ROOMS:
        return False
    return ROOMS.index(used) < ROOMS.index(user)


def complaint(user: str, used: str, written: str) -> str:
    name = f"crate::{used}" if used == written else f"crate::{written} (of crate::{used})"
    if used not in ROOMS:
        return f"uses {name}, which is neither a room nor beside the story; name the room it lives in"
    if user in BESIDE:
        return (
            f"`{user}` stands beside the story and may not use {name}; "
            "pass in what it needs, or move this code into a room"
        )
    return (
        f"the room `{user}` uses {name}, which comes after it ({' < '.join(ROOMS)}); "
        f"pass in what it needs, or move the shared part to `{user}`, an earlier room or beside the story"
    )


def module_of(path: Path) -> list[str]:
    """`conformal/exact/mod.rs` is the module `conformal::exact`; `lib.rs` is the root."""
    parts = list(path.relative_to(LIBRARY).with_suffix("").parts)
    if parts[-1] in ("mod", "lib"):
        parts.pop()
    return parts


def reexports(text: str) -> dict[str, str]:
    """Which room or file each name that `lib.rs` re-exports comes from."""
    origins = {}
    for module, names in REEXPORT.findall(code_only(text)):
        for name in re.findall(r"(?:\w+\s+as\s+)?(\w+)\s*(?=[,}]|$)", names):
            origins[name] = module
    return origins


def uses(text: str, module: list[str]) -> Iterator[tuple[int, str]]:
    """Lines and first names of all paths that start at the crate's root."""
    code = code_only(text)
    inline = [(match.start(), closing_brace(code, match.end() - 1)) for match in MODULE.finditer(code)]
    for match in PATH.finditer(code):
        if supers := match["supers"]:
            depth = len(module) + sum(start < match.start() < end for start, end in inline)
            if depth != supers.count("super"):
                continue  # stays inside the room
        line = code.count("\n", 0, match.start()) + 1
        if code.startswith("{", match.end()):
            for name, place in first_names(code, match.end()):
                yield code.count("\n", 0, place) + 1, name
        elif name := re.compile(r"\w+").match(code, match.end()):
            yield line, name[0]


def first_names(code: str, opening: int) -> Iterator[tuple[str, int]]:
    """`{a::b, c::{d, e}}` begins with `a` and `c`."""
    place, depth, first = opening, 0, False
    end = closing_brace(code, opening)
    while place <= end:
        sign = code[place]
        if sign == "{":
            depth += 1
            first = depth == 1
        elif sign == "}":
            depth -= 1
        elif sign == "," and depth == 1:
            first = True
        elif first and (name := re.compile(r"\w+").match(code, place)):
            yield name[0], place
            first = False
        place += 1


def length_problems() -> Iterator[str]:
    for path in sorted([*ROOT.glob("crates/*/src/**/*.rs"), *ROOT.glob("python/src/**/*.rs")]):
        name = path.relative_to(ROOT).as_posix()
        lines = len(without_tests(code_only(path.read_text(encoding="utf-8"))).splitlines())
        if lines > MOST_LINES and name not in LONGER:
            yield (
                f"{name}:{MOST_LINES + 1}: has {lines} lines beside its tests, more than {MOST_LINES}; "
                "cut it where its subjects part, or give the reason in LONGER in tools/check_rooms.py"
            )
        if lines <= MOST_LINES and name in LONGER:
            yield f"{name}: has {lines} lines now; take it out of LONGER in tools/check_rooms.py"
    for name in LONGER:
        if not (ROOT / name).exists():
            yield f"{name}: is gone; take it out of LONGER in tools/check_rooms.py"


if __name__ == "__main__":
    sys.exit(main())
