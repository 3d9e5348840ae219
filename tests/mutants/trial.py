"""Tries mutants, one after another, in a copy of the tree: do the unit tests of the changed module notice?"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.mutations import Mutant

ROOT = Path(__file__).parents[2]
BUILD_FILES = ("setup.cfg", "setup.py", "pyproject.toml")
PARTS = ("kafka_zk", "rebalance", "registry", "spark_jobs", "storage", "tests", "docs", *BUILD_FILES)
SLOW = ("slow", "integration", "peers", "soak", "containers", "attack", "power", "spark", "long")
FAST = " and ".join(f"not {marker}" for marker in SLOW)
PYTEST = ("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:tests.file_order", "--hypothesis-seed=0")
MEMORY_BYTES = 4 << 30
"""Memory limit of the tests, because a mutant's endless loop may fill a collection."""
LEAST_LIMIT_S = 20
SLOWER_AT_MOST = 4
"""A mutant counts as endless if its tests take this many times as long as those of the unchanged module."""
PASSED, FAILED, NO_TESTS = 0, 1, 5


class UntestedError(Exception):
    """The tests fail before anything is changed, or there are none."""


@dataclass(frozen=True)
class Target:
    """A module to change, as a path from the tree's root without links, and the only line, if there is one."""

    module: Path
    line: int | None = None


def targets(name: str) -> list[Target]:
    """The modules of a path, as ``rebalance``, ``kafka_zk/storage/log``, ``storage/log/log.py`` or with ``:LINE``.

    Raises: UntestedError if there is no module.
    """
    path, _, line = name.partition(":")
    whole = (ROOT / path).resolve()
    modules: list[Path] = []
    if whole.is_relative_to(ROOT):
        modules = [whole] if whole.is_file() else sorted(whole.rglob("*.py"))
    if not modules:
        raise UntestedError(f"{path} has no modules; name a file or folder from the root, as storage/log/log.py")
    return [Target(module.relative_to(ROOT), int(line) if line else None) for module in modules]


def unit_tests(module: Path) -> list[str]:
    """The test files of a module, its own first, then those of its package; paths from the root."""
    folder = Path("tests") / module.parent
    files = sorted(path.relative_to(ROOT) for path in (ROOT / folder).glob("test_*.py"))
    return [str(path) for path in sorted(files, key=lambda path: not path.match(f"test_{module.stem}*.py"))]


class Copy:
    """A copy of the tree, in which one module at a time is changed; the checkout stays as it is."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._limits_s: dict[Path, float] = {}
        self._changes = 0

    def check(self, module: Path) -> None:
        """Check once per package that the tests of the unchanged module pass, and set their time limit.

        Raises: UntestedError.
        """
        if module.parent in self._limits_s:
            return
        started = time.monotonic()
        outcome, output = self._run(module, limit_s=None) if unit_tests(module) else (NO_TESTS, "")
        if outcome == NO_TESTS:
            raise UntestedError(f"{module} has no fast tests in tests/{module.parent}")
        if outcome != PASSED:
            raise UntestedError(f"the tests of {module} fail before it is changed:\n{output}")
        self._limits_s[module.parent] = max(LEAST_LIMIT_S, SLOWER_AT_MOST * (time.monotonic() - started))

    def is_killed(self, module: Path, mutant: Mutant) -> bool:
        """Whether a test fails, or does not end, with a mutant in the place of its module."""
        path = self._root / module
        before, status = path.read_bytes(), path.stat()
        try:
            path.write_text(mutant.source)
            self._changes += 1
            os.utime(path, (self._changes, self._changes))  # bytecode is known by its source's second and size
            outcome, _ = self._run(module, self._limits_s[module.parent])
        finally:
            path.write_bytes(before)
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        return outcome != PASSED

    def _run(self, module: Path, limit_s: float | None) -> tuple[int, str]:
        """The exit code of the tests, and the end of their output. Tests that exceed the limit have failed."""
        with tempfile.TemporaryFile("w+") as output:  # a pipe stays open as long as a process that a test left behind
            process = subprocess.Popen(
                [sys.executable, *PYTEST, "-m", FAST, *unit_tests(module)],
                cwd=self._root,
                env={**os.environ, "PYTHONPATH": str(self._root)},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_limit_memory,
            )
            try:
                outcome = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                outcome = FAILED
            finally:
                _kill_group(process.pid)
                process.wait()
            output.seek(0)
            return outcome, output.read()[-2000:]


@contextmanager
def copied() -> Iterator[Copy]:
    """A copy that is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        root = Path(folder).resolve()
        for part in map(ROOT.joinpath, PARTS):
            if part.is_dir():
                shutil.copytree(part, root / part.name, symlinks=True)
            else:
                shutil.copy2(part, root)
        yield Copy(root)


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def _kill_group(pid: int) -> None:
    """Kill the process, and those that its tests have started."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
