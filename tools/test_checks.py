#!/usr/bin/env python3
"""The checks can fail: what each must find, in small.

python3 tools/test_checks.py
"""

from __future__ import annotations

import re
import unittest

import check_licences
import check_msrv
import check_rooms
from rust_text import code_only, without_tests


class RustText(unittest.TestCase):
    def test_comments_and_strings_are_blank_and_lines_stay(self) -> None:
        text = 'a /* x /* y */\n z */ b // c\n"d\\"e" f r#"g"h"# i \'"\' j\'k /// l\nm'
        code = code_only(text)
        self.assertEqual(code.count("\n"), text.count("\n"))
        self.assertEqual(code.split(), ["a", "b", "f", "i", "j'k", "m"])

    def test_lifetimes_are_no_characters(self) -> None:
        self.assertEqual(code_only("fn f<'a>(x: &'a str) {} // 'b'").rstrip(), "fn f<'a>(x: &'a str) {}")

    def test_tests_are_cut_out(self) -> None:
        text = "fn f() {}\n\n#[cfg(test)]\n#[allow(x)]\nmod tests {\n  fn g() { if x { y } }\n}\nfn h() {}\n"
        self.assertEqual(without_tests(text), "fn f() {}\n\nfn h() {}\n")


class Rooms(unittest.TestCase):
    def used(self, text: str, module: str = "data::io::csv") -> list[tuple[int, str]]:
        return list(check_rooms.uses(text, module.split("::")))

    def test_paths_from_the_root(self) -> None:
        self.assertEqual(
            self.used("use crate::error::Error;\nlet x = crate::model::f();"), [(1, "error"), (2, "model")]
        )
        self.assertEqual(self.used("macro_rules! m { () => { $crate::model::x } }"), [(1, "model")])

    def test_groups(self) -> None:
        text = "use crate::{\n  data::{Table, io},\n  model::Dance,\n};"
        self.assertEqual(self.used(text), [(2, "data"), (3, "model")])

    def test_super_counts_where_it_reaches_the_root(self) -> None:
        self.assertEqual(self.used("use super::super::Table;"), [])
        self.assertEqual(self.used("use super::super::super::model::Dance;"), [(1, "model")])
        self.assertEqual(
            self.used("mod tests {\n use super::super::super::super::model::Dance;\n}"), [(2, "model")]
        )
        self.assertEqual(self.used("use super::model::Dance;", "data"), [(1, "model")])

    def test_comments_do_not_count(self) -> None:
        self.assertEqual(self.used('//! [x](crate::model)\nlet x = "crate::model";'), [])

    def test_the_order(self) -> None:
        self.assertTrue(check_rooms.allowed("model", "data"))
        self.assertTrue(check_rooms.allowed("data", "device"))
        self.assertTrue(check_rooms.allowed("data", "error"))
        self.assertTrue(check_rooms.allowed("context", "error"))
        self.assertFalse(check_rooms.allowed("data", "model"))
        self.assertFalse(check_rooms.allowed("error", "data"))
        self.assertFalse(check_rooms.allowed("data", "nobody"))

    def test_names_of_the_root_count_as_their_room(self) -> None:
        origins = check_rooms.reexports("pub use data::{Dataset, Table as T};\npub use error::Error;")
        self.assertEqual(origins, {"Dataset": "data", "T": "data", "Error": "error"})


class Msrv(unittest.TestCase):
    def found(self, code: str) -> set[str]:
        return {what for _, what, pattern in check_msrv.FEATURES if re.search(pattern, code, re.MULTILINE)}

    def test_features_are_seen(self) -> None:
        self.assertEqual(self.found("if a && let Some(x) = b {"), {"let chains"})
        self.assertEqual(self.found("if let Some(x) = b && x > 1 {"), {"let chains"})
        self.assertEqual(self.found("if let Some(x) = f(a && b) { c && d }"), set())
        self.assertEqual(self.found("Some(x) if let Ok(y) = x => y,"), {"if let guards"})
        self.assertEqual(self.found("let y = x;\n        if let Ok(y) = x { match z { a => b } }"), set())
        self.assertEqual(self.found("file.try_lock()?; x.as_chunks::<4>();"), {"locks on files", "as_chunks"})

    def test_versions(self) -> None:
        self.assertLess(check_msrv.version("1.88"), check_msrv.version("1.88.1"))
        self.assertLess(check_msrv.version("1.9"), check_msrv.version("1.10"))
        self.assertEqual(check_msrv.text(check_msrv.version("1.88.0")), "1.88")


class Licences(unittest.TestCase):
    def test_expressions(self) -> None:
        def permits(text: str) -> bool:
            return check_licences.permits(text, {"MIT", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"})

        self.assertTrue(permits("MIT"))
        self.assertTrue(permits("GPL-3.0 OR MIT"))
        self.assertTrue(permits("Apache-2.0/MIT"))
        self.assertTrue(permits("(MIT OR Apache-2.0) AND Unicode-3.0"))
        self.assertTrue(permits("Apache-2.0 WITH LLVM-exception"))
        self.assertFalse(permits("Apache-2.0"))
        self.assertFalse(permits("MIT AND GPL-3.0"))
        self.assertFalse(permits("(MIT OR Apache-2.0) AND GPL-3.0"))


if __name__ == "__main__":
    unittest.main(verbosity=0)
