"""Loads the native module if it was built from these sources; without it, Python code does the same.

The environment variable KAFKA_ZK_NATIVE chooses: ``0`` never uses it, ``require`` fails instead of falling back, and
``1`` (the default) uses it where it was built. What is native and why: docs/explanation/native.md.
Tests: tests/kafka_zk/native/test_loading.py.
"""

import os
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from kafka_zk.native.sources import fingerprint

VARIABLE = "KAFKA_ZK_NATIVE"
NEVER, WHERE_BUILT, REQUIRE = CHOICES = ("0", "1", "require")
_FOLDER = Path(__file__).parent


class NativeUnusable(Exception):
    """KAFKA_ZK_NATIVE requires the native module, which cannot be used; or the variable has an invalid value."""


class Native(Protocol):
    """The module's functions, which ``module.c`` describes. For offset maps, see ``storage.cleaner.offset_map``."""

    def digest(self, secret: bytes, key: Any, /) -> bytes: ...

    def note_keys(
        self, data: bytes, start: int, count: int, base_offset: int, last_offset_delta: int, start_offset: int,
        secret: bytes, table: Any, size: int, max_size: int, first_offset: int, replaced: bytearray, /,
    ) -> tuple[int, bool, bool]: ...  # fmt: skip

    def check_records(self, data: Any, start: int, count: int, base_timestamp: int, /) -> tuple[int, int, bool]: ...

    def read_produce(self, version: int, body: memoryview, /) -> tuple[Any, ...] | None: ...

    def write_produce(
        self, version: int, correlation_id: int, topics: Any, throttle_time_ms: int, /
    ) -> bytes | None: ...

    def handled(self) -> dict[str, int]: ...

    def choose(
        self, data: bytes, start: int, count: int, base_offset: int, latest_offset: int, keeps_tombstones: bool,
        secret: bytes, table: Any, first_offset: int, replaced: bytearray, /,
    ) -> tuple[int, int, bool, int, bytes]: ...  # fmt: skip

    def plain_commit(
        self, version: int, correlation_id: int, body: memoryview, now_ms: int, committed: type, /
    ) -> Any: ...  # None if the commit is not plain


class Implementation(NamedTuple):
    """What runs: the native module, or Python code if ``native`` is None. ``problem``: why an existing native module is
    not used, for a warning."""

    native: Native | None
    reason: str = ""
    problem: str = ""

    def __str__(self) -> str:
        return "native" if self.native is not None else f"pure Python: {self.reason or self.problem}"


@cache
def implementation() -> Implementation:
    """The implementation that this process runs. Raises: NativeUnusable."""
    return chosen(os.environ.get(VARIABLE) or WHERE_BUILT)


def chosen(choice: str, load: Callable[[], Any] = lambda: import_module("._native", __package__)) -> Implementation:
    """The implementation for a value of KAFKA_ZK_NATIVE. Raises: NativeUnusable."""
    if choice not in CHOICES:
        raise NativeUnusable(f"{VARIABLE} is {choice!r}; it must be one of {', '.join(CHOICES)}")
    if choice == NEVER:
        return Implementation(None, f"{VARIABLE} is {NEVER}")
    found = _loaded(load)
    if found.native is None and choice == REQUIRE:
        raise NativeUnusable(f"{VARIABLE} is {REQUIRE}, but {found.reason or found.problem}")
    return found


def _loaded(load: Callable[[], Any]) -> Implementation:
    try:
        module = load()
    except ModuleNotFoundError:
        return Implementation(None, "the native module is not built")
    except ImportError as error:
        return Implementation(None, problem=f"the native module cannot be loaded: {error}")
    try:
        is_own = fingerprint(_FOLDER) == getattr(module, "SOURCES", None)
    except OSError as error:  # some packagers remove C files
        return Implementation(None, problem=f"the native module's sources cannot be read: {error}")
    if not is_own:
        return Implementation(None, problem="the native module was built from other sources; build it again")
    return Implementation(module)
