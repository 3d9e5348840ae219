"""The places of unit tests: the tests of ``storage/log/log.py`` are in ``tests/storage/log/test_log*.py``, and so on.

A test of several modules has another name, and is in the folder of the smallest package that contains them.
"""

from pathlib import Path

import pytest

from tests.import_graph import AT_THE_TOP, ROOT, imports, module_of, modules_below

MIRRORED = ("docker", "kafka_zk", *AT_THE_TOP)
SUITES = {"attack", "bench", "conformance", "containers", "corpus", "fuzz", "integration", "mutants", "peers", "power",
          "release", "scenarios", "sim", "soak", "wheels"}  # fmt: skip
"""Folders of tests across packages."""
EXCEPTIONS: dict[str, str] = {}
"""A test file in another place -> the reason."""

VOCABULARY = ("kafka_zk.base", "kafka_zk.protocol", "kafka_zk.registry.client.errors", "kafka_zk.storage.files.errors")
"""Modules that any test may import without being a test of them."""


def within(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def misplaced(test: str, imported: set[str], modules: set[str]) -> str | None:
    """Why a module such as ``tests.storage.log.test_log_files`` is in the wrong place; None if the place is right."""
    folder, _, name = test.removeprefix("tests.").rpartition(".test_")
    package = f"kafka_zk.{folder}" if within(folder, *AT_THE_TOP) else folder
    if package not in modules:
        return f"there is no {package}"
    words = name.split("_")
    beside = {f"{package}.{'_'.join(words[:count])}" for count in range(1, len(words) + 1)}
    if beside & modules or package.endswith(f".{name}"):
        return None
    namesakes = sorted(module for module in modules if module.endswith(f".{name}"))
    return f"has the name of {namesakes[0]}" if namesakes else misplaced_by_imports(folder, package, imported)


def misplaced_by_imports(folder: str, package: str, imported: set[str]) -> str | None:
    """Like ``misplaced``, for a test that is not named after a module. A helper in its folder or above may import the
    package for it.
    """
    subjects = {module for module in imported if within(module, "kafka_zk")
                and (within(module, package) or not within(module, *VOCABULARY))}  # fmt: skip
    inside = {module for module in subjects if within(module, package)}
    homes = {module.rpartition(".")[0] for module in imported if within(module, "tests")} - {"tests"}
    helped = any(within(f"tests.{folder}", home) for home in homes)
    if not helped and len(subjects) == 1:
        return f"is about {subjects.pop()} alone"
    if not helped and subjects and not inside:
        return f"imports nothing of {package}"
    parts = {module.removeprefix(f"{package}.").partition(".")[0] for module in inside}
    if len(parts) == 1 and f"{package}.{min(parts)}" not in inside:
        return f"is about {package}.{min(parts)}"
    return None


def unit_tests() -> list[Path]:
    """All test files in folders that are not suites."""
    paths = [path.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("test_*.py")]
    return sorted(ROOT / "tests" / path for path in paths if len(path.parts) > 1 and path.parts[0] not in SUITES)


def test_each_unit_test_lies_beside_what_it_tests() -> None:
    modules = set(modules_below(*MIRRORED)) | {"docker"}
    found = {}
    for path in unit_tests():
        if problem := misplaced(module_of(path), set(imports(path.read_text(), modules)), modules):
            found[str(path.relative_to(ROOT))] = problem
    assert {test: problem for test, problem in found.items() if test not in EXCEPTIONS} == {}
    assert not EXCEPTIONS.keys() - found.keys(), "these need no exception any more"


MODULES = {
    "kafka_zk.storage", "kafka_zk.storage.log", "kafka_zk.storage.log.log", "kafka_zk.storage.log.verification_state",
    "kafka_zk.storage.records", "kafka_zk.storage.records.varint", "kafka_zk.storage.records.compression",
}  # fmt: skip


@pytest.mark.parametrize(
    ("test", "imported", "problem"),
    [
        ("storage.log.test_log", set(), None),
        ("storage.log.test_log_files", set(), None),
        ("storage.log.test_verification_state", set(), None),
        ("storage.records.test_records", set(), None),
        ("storage.log.test_power_loss", {"kafka_zk.storage.log.log", "kafka_zk.storage.log.verification_state"}, None),
        ("storage.test_power_loss", {"kafka_zk.storage.log.log", "kafka_zk.storage.records.varint"}, None),
        ("storage.test_power_loss", {"tests.storage.helpers"}, None),
        ("logs.test_log", set(), "there is no logs"),
        ("storage.test_verification_state", set(), "has the name of kafka_zk.storage.log.verification_state"),
        ("storage.test_files", {"kafka_zk.storage.log.log"}, "is about kafka_zk.storage.log.log alone"),
        ("storage.records.test_files", {"kafka_zk.storage.log.log", "kafka_zk.storage.log.verification_state"},
         "imports nothing of kafka_zk.storage.records"),
        ("storage.test_files", {"kafka_zk.storage.records.varint", "kafka_zk.storage.records.compression"},
         "is about kafka_zk.storage.records"),
    ],
)  # fmt: skip
def test_what_is_misplaced_is_seen(test: str, imported: set[str], problem: str | None) -> None:
    assert misplaced(f"tests.{test}", imported, MODULES) == problem
