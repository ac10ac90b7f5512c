"""What the checks beside this file know of Rust text: enough to leave out comments, strings and tests, no more."""

from __future__ import annotations

import re

# In this order, so that a `//` inside a string is no comment, and a quote inside a comment opens no string. A lifetime
# (`'a`) is told from a character (`'a'`) by the closing quote. Block comments nest in Rust and are cut by hand.
SKIPPED = re.compile(
    r"""
    //[^\n]*                                     # line comments, documentation among them
  | (?P<block>/\*)
  | \b(?:br|cr|r)(?P<hashes>\#+)"                # raw strings with hashes: r#"…"#
  | \b(?:br|cr|r)"[^"]*"                         # raw strings without
  | "(?:\\.|[^"\\])*"                            # strings; the prefix of b"…" and c"…" may stay
  | '(?:\\(?:x[0-9a-fA-F]{2}|u\{[^}]*\}|.)|[^'\\\n])'
    """,
    re.VERBOSE | re.DOTALL,
)
TEST_MODULE = re.compile(r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?mod\s+\w+\s*\{")


def code_only(text: str) -> str:
    """The text with comments and the contents of strings as blanks; every line keeps its number."""
    kept: list[str] = []
    place = 0
    while match := SKIPPED.search(text, place):
        kept.append(text[place : match.start()])
        end = match.end()
        if match["block"]:
            end = block_end(text, match.start())
        elif match["hashes"]:
            close = text.find('"' + match["hashes"], match.end())
            end = len(text) if close < 0 else close + 1 + len(match["hashes"])
        kept.append(blank(text[match.start() : end]))
        place = end
    kept.append(text[place:])
    return "".join(kept)


def without_tests(code: str) -> str:
    """The output of `code_only` with `#[cfg(test)] mod … { … }` cut out, lines and all."""
    while match := TEST_MODULE.search(code):
        code = code[: match.start()] + code[closing_brace(code, match.end() - 1) + 1 :].lstrip("\n")
    return code


def closing_brace(code: str, opening: int) -> int:
    """Where the brace that opens at `opening` closes."""
    depth = 0
    for place in range(opening, len(code)):
        depth += {"{": 1, "}": -1}.get(code[place], 0)
        if depth == 0:
            return place
    return len(code) - 1


def block_end(text: str, start: int) -> int:
    depth = 0
    for match in re.compile(r"/\*|\*/").finditer(text, start):
        depth += 1 if match[0] == "/*" else -1
        if depth == 0:
            return match.end()
    return len(text)


def blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)
