"""The public names: packages export what docs/reference/api.md lists, and pages and examples use no other names."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("kafka_zk", "kafka_zk.testing", "kafka_zk.spark_jobs", "kafka_zk.registry")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))

_PROGRAM = """
import importlib, sys
package = importlib.import_module(sys.argv[1])
for name in package.__all__:
    getattr(package, name)
assert "twisted.internet.reactor" not in sys.modules, "a reactor was installed"
"""


def documented(package: str) -> set[str]:
    """The names in the first column of the package's table."""
    text = (ROOT / "docs" / "reference" / "api.md").read_text()
    section = text.partition(f"## `{package}`\n")[2].partition("\n## ")[0]
    return {name for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}


def public(package: str) -> set[str]:
    return set(importlib.import_module(package).__all__) - {"__version__"}


def imported(text: str) -> set[tuple[str, str]]:
    """The names that a program or a page imports from this project, with the module."""
    blocks = re.findall(r"from (kafka_zk[\w.]*) import (?:\(([^)]*)\)|(.*))", text)
    names = {(module, name) for module, many, few in blocks for name in re.findall(r"\w+", many or few)}
    return names | {(module, "") for module in re.findall(r"^import (kafka_zk[\w.]*)", text, re.MULTILINE)}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_shell_completes_the_names(package: str) -> None:
    program = f"import {package} as package; assert not set(package.__all__) - set(dir(package)), dir(package)"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("package", PACKAGES)
def test_the_page_lists_what_a_package_offers(package: str) -> None:
    assert documented(package) == public(package)


@pytest.mark.parametrize("package", PACKAGES)
def test_each_name_and_member_has_a_docstring(package: str) -> None:
    module = importlib.import_module(package)
    found = {name: getattr(module, name) for name in public(package)}
    members = {
        f"{name}.{member}": getattr(value, member)
        for name, value in found.items()
        if inspect.isclass(value)
        for member, defined in vars(value).items()
        if not member.startswith("_") and (inspect.isfunction(defined) or isinstance(defined, property))
    }
    documented_kinds = {name: value for name, value in found.items() if inspect.isclass(value) or callable(value)}
    assert not [name for name, value in (documented_kinds | members).items() if not inspect.getdoc(value)]


@pytest.mark.parametrize("package", PACKAGES)
def test_the_names_are_there_and_start_no_reactor(package: str) -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM, package], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("package", PACKAGES)
def test_type_checkers_see_the_same_names(package: str) -> None:
    """Names imported for type checkers are those that exist at run time."""
    file = importlib.import_module(package).__file__
    assert file is not None
    [block] = [node for node in ast.parse(Path(file).read_text()).body if isinstance(node, ast.If)]
    of_checkers = {(alias.name, each.module) for each in block.body if isinstance(each, ast.ImportFrom)
                   for alias in each.names}  # fmt: skip
    [table] = [node for node in ast.walk(block) if isinstance(node, ast.Dict)]
    assert of_checkers == set(ast.literal_eval(table).items())


def test_an_unknown_name_is_an_attribute_error() -> None:
    package = importlib.import_module("kafka_zk")
    with pytest.raises(AttributeError, match="module 'kafka_zk' has no attribute 'Nothing'"):
        package.Nothing  # noqa: B018


@pytest.mark.parametrize("path", [*PAGES, *EXAMPLES], ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_and_examples_use_public_names(path: Path) -> None:
    names = {(package, name) for package in PACKAGES for name in public(package)}
    modules = {("kafka_zk", name.rpartition(".")[2]) for name in PACKAGES}
    assert imported(path.read_text()) <= names | modules
