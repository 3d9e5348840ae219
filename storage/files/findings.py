"""What storage tells about files that it could not take as they were. It observes; whoever owns the logs logs it.

No file is discarded, moved or removed against its word without a finding. Tests: tests/storage/files/test_findings.py.
"""

from collections.abc import Callable
from typing import NamedTuple

from kafka_zk.storage.files.files import is_taken, rename

DAMAGED_SUFFIX = ".damaged"


class Finding(NamedTuple):
    """One sentence reads ``path problem: meaning``."""

    path: str
    problem: str
    meaning: str  # what was done, and what that means for the records
    kept_as: str | None = None  # where it lies now, for whoever wants to look at it


Observe = Callable[[Finding], None]


def ignore(finding: Finding) -> None:
    """Nobody wants to know."""


def discard(path: str, error: Exception | str, meaning: str) -> Finding:
    """Put a file that cannot be read, or a directory in its place, out of the way. Nothing of it is lost.

    Raises: OSError.
    """
    kept_as = free_path(path, DAMAGED_SUFFIX)
    rename(path, kept_as)
    problem = str(error).removeprefix(f"{path}: ") if isinstance(error, Exception) else error
    return Finding(path, f"is damaged ({problem})", meaning, kept_as)


def free_path(path: str, suffix: str) -> str:
    """``<path><suffix>``, or with a number if that exists. Never a name that a partition's directory could have."""
    found, number = path + suffix, 1
    while is_taken(found):
        number += 1
        found = f"{path}.{number}{suffix}"
    return found
