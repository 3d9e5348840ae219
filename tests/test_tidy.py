"""Style that a machine can check and ruff does not: sizes, empty ``__init__`` files, words that do not belong here."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("storage", "registry", "rebalance", "kafka_zk", "spark_jobs", "examples")
MODULE_LINES = 600
FUNCTION_LINES = 70
TEST_MODULE_LINES = 600

# No "later": a thing is done, or an issue says that it is not.
BANNED = re.compile(
    r"\b(TODO|FIXME|XXX|HACK)\b|except Exception: *pass|^\s*print\(.*# *debug", re.IGNORECASE | re.MULTILINE
)


def modules(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", modules(*PACKAGES), ids=name_of)
def test_a_module_is_one_concept(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    assert len(text.splitlines()) <= MODULE_LINES
    too_long = [f"{each.name} ({each.end_lineno - each.lineno + 1} lines)" for each in functions(tree)
                if each.end_lineno and each.end_lineno - each.lineno + 1 > FUNCTION_LINES]  # fmt: skip
    assert not too_long
    assert not BANNED.search(text)
    assert path.name == "__init__.py" or ast.get_docstring(tree), "a module says what it is in its docstring"


def test_the_tests_that_docstrings_name_are_there() -> None:
    paths = modules(*PACKAGES)
    named = [(name_of(path), test) for path in paths for test in re.findall(r"tests/[\w/]+\.py", path.read_text())]
    assert named and not [pair for pair in named if not (ROOT / pair[1]).exists()]


def test_the_paths_that_architecture_names_are_there() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    named = re.findall(r"`((?:storage|registry|rebalance|kafka_zk|spark_jobs|docker|tests)/[\w/.]*)`", text)
    assert named and not [path for path in named if not (ROOT / path).exists()]


@pytest.mark.parametrize("path", [path for path in modules(*PACKAGES) if path.name == "__init__.py"], ids=name_of)
def test_a_package_imports_nothing(path: Path) -> None:
    """Or an executor that needs one module would drag in the reactor."""
    imports = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert not imports


@pytest.mark.parametrize("path", modules("tests"), ids=name_of)
def test_a_test_module_is_readable(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= TEST_MODULE_LINES


@pytest.mark.parametrize("path", modules("tests"), ids=name_of)
def test_unit_tests_do_not_sleep(path: Path) -> None:
    """Waiting for a condition of another process is for integration tests and their helpers."""
    if path == Path(__file__) or {"integration", "peers", "containers", "bench", "attack"} & set(path.parts):
        return
    text = path.read_text()
    assert "time.sleep(" not in text or "pytest.mark.integration" in text


# fmt: off
DOORS = {
    "time": {
        "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "clock_gettime", "sleep",
    },
    "uuid": {"uuid1", "uuid4"},
    "os": {"urandom"},
    "random": {
        "SystemRandom", "choice", "getrandbits", "randint", "random", "randrange", "sample", "shuffle", "uniform",
    },
    "secrets": {"token_bytes", "token_hex", "token_urlsafe", "randbelow", "choice"},
    "twisted.internet.threads": {"deferToThread", "deferToThreadPool", "callMultipleInThread"},
    "concurrent.futures": {"ThreadPoolExecutor", "ProcessPoolExecutor"},
}
# fmt: on
"""What only ``kafka_zk/system`` calls, so that a simulated world can have its own: time, randomness, other threads."""
OUTSIDE = {"system", "cli", "demo", "embedded", "lesson", "testing"}
"""The doors themselves, and programs around a cluster."""


def door_calls(tree: ast.AST) -> Iterator[str]:
    """``time.monotonic`` for each such name that a module imports or reads from a module that it has imported."""
    modules = {alias.asname or alias.name: alias.name for node in ast.walk(tree) if isinstance(node, ast.Import)
               for alias in node.names if alias.name in DOORS}  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in DOORS:
            yield from (f"{node.module}.{alias.name}" for alias in node.names if alias.name in DOORS[node.module])
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            module = modules[node.value.id]
            if node.attr in DOORS[module]:
                yield f"{module}.{node.attr}"


@pytest.mark.parametrize("path", modules("registry", "rebalance", "kafka_zk"), ids=name_of)
def test_time_randomness_and_threads_have_one_door(path: Path) -> None:
    if not OUTSIDE & set(path.relative_to(ROOT).parts):
        assert not list(door_calls(ast.parse(path.read_text())))


def test_the_doors_are_found_however_they_are_imported() -> None:
    imports = "import time\nimport random as r\nfrom os import urandom\nfrom time import gmtime"
    text = f"{imports}\ntime.monotonic()\nr.choice(x)"
    assert sorted(door_calls(ast.parse(text))) == ["os.urandom", "random.choice", "time.monotonic"]



LOGGING = {
    "kafka_zk/broker/logs.py",
    "kafka_zk/broker/log_file.py",
    "registry/kazoo_common.py",
    "spark_jobs/session.py",
}
"""Where lines are written, and where a library (kazoo, py4j) logs with Python's ``logging``."""


def test_one_logger_type() -> None:
    """Twisted's: ``broker/logs.py`` makes lines of what it says, with fields."""
    importing = {name_of(path) for path in modules(*PACKAGES)
                 if re.search(r"^ *(import logging|from logging )", path.read_text(), re.MULTILINE)}  # fmt: skip
    assert importing <= LOGGING
