"""Dotted names of modules in strings (``-m tests.bench.groups``, ``patch.setattr("kafka_zk...")``) name existing
objects."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.import_graph import AT_THE_TOP, modules_below
from tests.sources import parse

NAME = re.compile(r"(?<![\w./-])(?:kafka_zk|tests)(?:\.\w+){2,}")
PART = re.compile(r"(?:kafka_zk|tests)(?:\.\w+)+\.$")
MODULES = modules_below("docker", "examples", "kafka_zk", "tests", *AT_THE_TOP)


def names(source: str) -> Iterator[str]:
    for node in ast.walk(parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from NAME.findall(node.value)


def names_in_parts(source: str) -> Iterator[str]:
    """Places where an f-string inserts a part of a module's name, so that no check sees the whole name."""
    for node in ast.walk(parse(source)):
        if isinstance(node, ast.JoinedStr):
            texts = [part.value for part in node.values[:-1] if isinstance(part, ast.Constant)]
            yield from (str(text) for text in texts if PART.search(str(text)))


@cache
def attributes(path: Path) -> set[str]:
    tree = parse(path.read_text())
    imported = {alias.asname or alias.name for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)
                for alias in node.names}  # fmt: skip
    assigned = {node.id for statement in tree.body for node in ast.walk(statement)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}  # fmt: skip
    definitions = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    defined = {node.name for node in tree.body if isinstance(node, definitions)}
    return imported | assigned | defined


def exists(name: str) -> bool:
    """True for a module, or a name that a module defines or imports."""
    parts = name.split(".")
    module = next((".".join(parts[:end]) for end in range(len(parts), 1, -1) if ".".join(parts[:end]) in MODULES), None)
    if module is None:
        return False
    rest = name.removeprefix(module).strip(".")
    return not rest or rest.split(".")[0] in attributes(MODULES[module])


def test_the_names_that_strings_hold_are_there() -> None:
    found = [(module, name) for module, path in MODULES.items() for name in names(path.read_text())]
    assert found and not [(module, name) for module, name in found if not exists(name)]


def test_tests_spell_modules_out() -> None:
    paths = {module: path for module, path in MODULES.items() if module.startswith("tests.")}
    assert not [(module, part) for module, path in paths.items() for part in names_in_parts(path.read_text())]


def test_what_is_absent_is_seen() -> None:
    package = "kafka_zk.storage"
    assert exists(package) and exists("kafka_zk.storage.log.log") and exists("kafka_zk.storage.log.log.Log.append")
    assert not any(exists(".".join((package, *rest))) for rest in (["logs"], ["log", "logs"], ["log", "log", "Logs"]))
    assert list(names_in_parts("f'kafka_zk.storage.{module}.sync_file'")) == ["kafka_zk.storage."]
