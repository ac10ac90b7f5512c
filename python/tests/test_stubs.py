"""The type stubs name what the native module has, no more and no less."""

import ast
from importlib.resources import files

from dance_conformal import _native


def public(names):
    return {name for name in names if not name.startswith("_")}


def test_stubs_match_the_native_module():
    tree = ast.parse(files("dance_conformal").joinpath("_native.pyi").read_text())
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert public({*classes, *functions}) == public(dir(_native))
    for name, node in classes.items():
        if not issubclass(getattr(_native, name), Exception):
            stubs = {member.name for member in node.body if isinstance(member, ast.FunctionDef)}
            assert public(stubs) == public(dir(getattr(_native, name))), name


def test_the_package_is_marked_as_typed():
    assert files("dance_conformal").joinpath("py.typed").is_file()
