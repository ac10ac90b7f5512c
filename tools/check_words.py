#!/usr/bin/env python3
"""Checks how the Rust sources read: doc comments, comments in long functions, lines, and flags in the library.

    python3 tools/check_words.py              # the checks of `make lint`
    python3 tools/check_words.py sample SEED  # 130 doc comments, drawn by the seed, for a reader without the code

A doc comment begins with its subject: no opening clause stands in for a noun. A function of more than 40 lines has a
full-line comment for every 40 of them. No line is longer than 120 characters. The library names no option of the binary.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from rust_text import closing_brace, code_only

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = ROOT / "crates" / "dance" / "src"
SAMPLE = 130
MOST_COLUMNS = 120
LINES_PER_COMMENT = 40

# Openings that put a clause, or the item before this one, in place of a subject.
OPENING = re.compile(
    r"(What|Whatever|Where|Wherever|How|Whether|Who|Whose|Whoever|Which|Whichever|That which|Of|"
    r"The same|As above|Likewise|Ditto)\b"
)
DOC = re.compile(r"\s*//[/!] ?(.*)")
FUNCTION = re.compile(r"\bfn\s+(\w+)")
STRING = re.compile(r'"(?:\\.|[^"\\])*"')
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


def main() -> int:
    if sys.argv[1:2] == ["sample"]:
        return sample(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    problems = [problem for path in sources() for problem in of_file(path)]
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print(f"check_words: {len(problems)} problem(s)", file=sys.stderr)
        return 1
    print("check_words: doc comments have subjects, long functions have comments, lines fit")
    return 0


def sources() -> list[Path]:
    return sorted([*ROOT.glob("crates/*/src/**/*.rs"), *ROOT.glob("python/src/**/*.rs")])


def of_file(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    name = path.relative_to(ROOT).as_posix()
    for line, doc in first_lines(text):
        if match := OPENING.match(doc):
            yield f"{name}:{line}: the doc comment begins with `{match[0]}`; begin with its subject"
    for line, function, length, comments in long_functions(text):
        if comments * LINES_PER_COMMENT < length - LINES_PER_COMMENT or comments == 0:
            yield (
                f"{name}:{line}: `{function}` has {length} lines and {comments} comment(s); "
                "say at each turn what comes, or cut it"
            )
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > MOST_COLUMNS and "http" not in line:
            yield f"{name}:{number}: has {len(line)} characters, more than {MOST_COLUMNS}"
        if path.is_relative_to(LIBRARY) and not line.lstrip().startswith("//"):
            for string in STRING.findall(line):
                if flag := FLAG.search(string):
                    yield f"{name}:{number}: the library names the option {flag[0]}; carry the setting's name"


def first_lines(text: str) -> Iterator[tuple[int, str]]:
    """Every doc comment's first line, with its number."""
    before = False
    for number, line in enumerate(text.splitlines(), 1):
        match = DOC.fullmatch(line)
        if match and not before:
            yield number, match[1]
        before = match is not None


def long_functions(text: str) -> Iterator[tuple[int, str, int, int]]:
    """Functions of more than 40 lines: line, name, lines, and how many of them are comments alone."""
    code = code_only(text)
    lines = text.splitlines()
    for match in FUNCTION.finditer(code):
        opening = re.compile(r"[;{]").search(code, match.end())
        if opening is None or opening[0] == ";":
            continue
        first = code.count("\n", 0, match.start())
        last = code.count("\n", 0, closing_brace(code, opening.start()))
        length = last - first + 1
        if length > LINES_PER_COMMENT:
            body = lines[first + 1 : last]
            comments = [line for line in body if re.match(r"\s*//(?!/)", line)]
            yield first + 1, match[1], length, len(comments)


def sample(seed: int) -> int:
    """Prints doc comments of the library's items, each with the line that it documents."""
    found = []
    for path in sorted(LIBRARY.rglob("*.rs")):
        lines = path.read_text(encoding="utf-8").splitlines()
        place = 0
        while place < len(lines):
            start = place
            while place < len(lines) and DOC.fullmatch(lines[place]):
                place += 1
            if place > start:
                item = next((line.strip() for line in lines[place:] if not line.strip().startswith("#[")), "")
                found.append((path, start + 1, [DOC.fullmatch(line)[1] for line in lines[start:place]], item))
            place += 1
    drawn = sorted(random.Random(seed).sample(range(len(found)), min(SAMPLE, len(found))))
    print(f"{len(drawn)} of {len(found)} doc comments, seed {seed}")
    for number, place in enumerate(drawn, 1):
        path, line, doc, item = found[place]
        print(f"\n[{number}] {path.relative_to(LIBRARY)}:{line}\n    {item}")
        print("\n".join(f"    | {text}" for text in doc))
    return 0


if __name__ == "__main__":
    sys.exit(main())
