"""Style checks that ruff lacks: sizes, empty ``__init__`` files, and unwanted words."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sources import parse

ROOT = Path(__file__).parents[1]
PACKAGES = ("storage", "registry", "rebalance", "kafka_zk", "spark_jobs", "examples")
MODULE_LINES = 500
FUNCTION_LINES = 70
CONSTRUCTOR_ARGUMENTS = 7
FOLDER_LINES = 6000

# Postponed work belongs in an issue, not in a comment.
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


def lines_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


Trees = dict[Path, ast.Module]


@pytest.fixture(scope="module")
def trees() -> Trees:
    """The parsed modules, kept from the first test that needs them to the last because they are a million objects."""
    return {path: parse(path.read_text()) for path in modules(*PACKAGES)}


def test_no_module_and_no_function_is_too_long(trees: Trees) -> None:
    """The numbers are limits, not targets: a module has one concept."""
    paths = modules(*PACKAGES, "docker", "tests")
    assert not [name_of(path) for path in paths if len(path.read_text().splitlines()) > MODULE_LINES]
    assert not [
        f"{name_of(path)}: {each.name}"
        for path, tree in trees.items()
        for each in functions(tree)
        if lines_of(each) > FUNCTION_LINES
    ]


LONG_CONSTRUCTORS = {
    "BrokerProcess", "ContainerCluster", "EmbeddedCluster", "KafkaZkContainer", "ZooKeeperContainer",
    "ZookeeperConsumer",
}  # fmt: skip
"""Servers and a consumer, whose arguments are options."""


def arguments(definition: ast.ClassDef) -> int:
    """Number of arguments of a class's own constructor; 0 if it has none."""
    constructors = [node for node in definition.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    return sum(len(node.args.posonlyargs + node.args.args + node.args.kwonlyargs) - 1 for node in constructors)


def test_constructors_take_few_arguments(trees: Trees) -> None:
    classes = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    assert {node.name for node in classes if arguments(node) > CONSTRUCTOR_ARGUMENTS} == LONG_CONSTRUCTORS


def test_a_module_says_what_it_is_in_its_docstring(trees: Trees) -> None:
    assert not [name_of(path) for path, tree in trees.items()
                if path.name != "__init__.py" and not ast.get_docstring(tree)]  # fmt: skip


def test_nothing_is_put_off() -> None:
    assert not [name_of(path) for path in modules(*PACKAGES) if BANNED.search(path.read_text())]


def test_the_tests_that_docstrings_name_are_there() -> None:
    paths = modules(*PACKAGES)
    named = [(name_of(path), test) for path in paths for test in re.findall(r"tests/[\w/]+(?:\.py)?", path.read_text())]
    assert named and not [pair for pair in named if not (ROOT / pair[1]).exists()]


PAGES = [ROOT / "README.md"] + [
    page
    for folder in ("docs", "tests", *PACKAGES)
    for page in (ROOT / folder).rglob("*.md")
    if page.parent.name != "decisions"  # a decision is never rewritten
]


def test_the_paths_that_pages_name_are_there() -> None:
    pattern = re.compile(r"`((?:storage|registry|rebalance|kafka_zk|spark_jobs|docker|tests)/[\w/.]*)`")
    named = [(page, path) for page in PAGES for path in pattern.findall(page.read_text())]
    absent = [(page, path) for page, path in named if not (ROOT / path).exists() and not (page.parent / path).exists()]
    assert named and not absent


def test_no_page_contains_the_markers_of_a_merge_conflict() -> None:
    """In a module the markers are a syntax error, but a page would be published with them."""
    assert not [name_of(page) for page in PAGES if re.search("^(<{7}|>{7}) ", page.read_text(), re.MULTILINE)]


def test_the_longest_test_files_are_there() -> None:
    """If a listed file were renamed, it would no longer start first."""
    lines = (ROOT / "tests" / "longest_files.txt").read_text().splitlines()
    named = [word for line in lines for word in line.split() if word.endswith(".py")]
    assert named and not [name for name in named if not (ROOT / "tests" / name).exists()]


def test_a_package_imports_nothing(trees: Trees) -> None:
    """An executor that needs one module would otherwise also load the reactor. Public names are imported on first
    use.
    """
    packages = [tree for path, tree in trees.items() if path.name == "__init__.py"]
    assert packages
    imported = [node for tree in packages for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert {ast.unparse(node) for node in imported} <= {
        "from typing import TYPE_CHECKING",
        "from kafka_zk.base.public_names import lazy",
    }


OUTSIDE_FILES = [path for path in modules("storage") if path.name not in ("files.py", "helper_process.py")]
"""All of storage except the module for file access, and the one that starts processes."""
FILE_MODULES = {"fcntl", "glob", "io", "mmap", "shutil", "stat", "tempfile"}
PURE_OF_OS = {"PathLike", "fspath", "path"}
PURE_OF_PATHS = {"abspath", "basename", "dirname", "join", "split"}
METHODS_OF_PATHS = {
    "chmod", "exists", "glob", "hardlink_to", "is_dir", "is_file", "iterdir", "lstat", "mkdir", "read_bytes",
    "read_text", "rename", "resolve", "rglob", "rmdir", "stat", "symlink_to", "touch", "unlink", "write_bytes",
    "write_text",
}  # fmt: skip


def file_accesses(tree: ast.AST) -> Iterator[str]:
    """Accesses to files that bypass ``storage.files``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in FILE_MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module in FILE_MODULES or node.module in ("os", "os.path")):
            yield node.module
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
            yield "open()"
        elif isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value)
            pure = {"os": PURE_OF_OS, "os.path": PURE_OF_PATHS}.get(owner)
            if (pure is not None and node.attr not in pure) or (owner != "files" and node.attr in METHODS_OF_PATHS):
                yield f"{owner}.{node.attr}"


def test_storage_reaches_files_in_one_way(trees: Trees) -> None:
    """A test or a simulator can thus replace the file system: see ``storage/files/files.py``."""
    assert not [(name_of(path), access) for path in OUTSIDE_FILES for access in file_accesses(trees[path])]


@pytest.mark.parametrize(
    "text",
    ["import shutil", "from os import rename", "open(path)", "os.open(path, 0)", "os.path.exists(path)",
     "Path(path).read_bytes()", "self.directory.unlink()"],
)  # fmt: skip
def test_another_way_to_files_is_seen(text: str) -> None:
    assert list(file_accesses(parse(text)))


def test_no_folder_holds_too_much() -> None:
    """The limit applies to a folder's own modules, without subfolders. A folder that is too large to survey should be
    split in two.
    """
    lines: Counter[Path] = Counter()
    for path in modules(*PACKAGES, "tests"):
        lines[path.parent] += len(path.read_text().splitlines())
    assert not [(name_of(folder), held) for folder, held in lines.items() if held > FOLDER_LINES]


def test_unit_tests_do_not_sleep() -> None:
    """Only integration tests and their helpers may wait for a condition of another process."""
    may_sleep = {"integration", "conformance", "peers", "containers", "bench", "attack", "power"}
    units = [path for path in modules("tests") if path != Path(__file__) and not may_sleep & set(path.parts)]
    texts = {name_of(path): path.read_text() for path in units}
    assert not [name for name, text in texts.items()
                if "time.sleep(" in text and "pytest.mark.integration" not in text]  # fmt: skip


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
"""Functions that only ``kafka_zk/base`` calls, so that a simulated world can replace them: time, randomness,
threads."""
DOORS_OF_BASE = ("clock", "green_threads", "operating_system/launch", "randomness", "threads")
DOOR_MODULES = {f"kafka_zk/base/{name}.py" for name in DOORS_OF_BASE}
OUTSIDE = {"cli", "embedded", "learn", "testing", "web"}
"""Programs around a cluster."""


def door_calls(tree: ast.AST) -> Iterator[str]:
    """Names of DOORS, such as ``time.monotonic``, that a module imports, or reads from a module it has imported."""
    modules = {alias.asname or alias.name: alias.name for node in ast.walk(tree) if isinstance(node, ast.Import)
               for alias in node.names if alias.name in DOORS}  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in DOORS:
            yield from (f"{node.module}.{alias.name}" for alias in node.names if alias.name in DOORS[node.module])
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            module = modules[node.value.id]
            if node.attr in DOORS[module]:
                yield f"{module}.{node.attr}"


def test_time_randomness_and_threads_have_one_door(trees: Trees) -> None:
    paths = modules("storage", "registry", "rebalance", "kafka_zk", "spark_jobs")
    inside = [path for path in paths
              if not OUTSIDE & set(path.relative_to(ROOT).parts) and name_of(path) not in DOOR_MODULES]  # fmt: skip
    assert not [(name_of(path), call) for path in inside for call in door_calls(trees[path])]


def test_the_doors_are_found_however_they_are_imported() -> None:
    imports = "import time\nimport random as r\nfrom os import urandom\nfrom time import gmtime"
    text = f"{imports}\ntime.monotonic()\nr.choice(x)"
    assert sorted(door_calls(parse(text))) == ["os.urandom", "random.choice", "time.monotonic"]



LOGGING = {
    "kafka_zk/broker/process/logs.py",
    "kafka_zk/broker/process/log_file.py",
    "registry/client/kazoo_common.py",
    "spark_jobs/session.py",
}
"""Modules that write log lines, or configure a library (kazoo, py4j) that uses Python's ``logging``."""


def test_one_logger_type() -> None:
    """Twisted's logger is used. ``broker/process/logs.py`` formats its events with their fields as lines."""
    importing = {name_of(path) for path in modules(*PACKAGES)
                 if re.search(r"^ *(import logging|from logging )", path.read_text(), re.MULTILINE)}  # fmt: skip
    assert importing <= LOGGING
