"""Findings: reports about files that storage could not use, for the logs' owner.

Whenever storage discards, moves or removes a file because of its content, it reports a finding.
"""

from collections.abc import Callable
from typing import NamedTuple

from kafka_zk.storage.files.files import is_taken, rename

DAMAGED_SUFFIX = ".damaged"


class Finding(NamedTuple):
    """Reads as the sentence ``path problem: meaning``."""

    path: str
    problem: str
    meaning: str  # what was done, and the consequence for the records
    kept_as: str | None = None  # where the file is now; None if it was not moved


Observe = Callable[[Finding], None]


def ignore(finding: Finding) -> None:
    """An observer that ignores every finding."""


def discard(path: str, error: Exception | str, meaning: str) -> Finding:
    """Rename an unreadable file, or a directory that has the name of a file.

    Raises: OSError.
    """
    kept_as = free_path(path, DAMAGED_SUFFIX)
    rename(path, kept_as)
    problem = str(error).removeprefix(f"{path}: ") if isinstance(error, Exception) else error
    return Finding(path, f"is damaged ({problem})", meaning, kept_as)


def free_path(path: str, suffix: str) -> str:
    """``<path><suffix>``, with a number in between if that name exists. It is never the name of a partition's
    directory."""
    found, number = path + suffix, 1
    while is_taken(found):
        number += 1
        found = f"{path}.{number}{suffix}"
    return found
