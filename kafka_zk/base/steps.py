"""Work in steps, as generators, so that a caller may do other work between two steps."""

from collections.abc import Generator
from typing import Any, TypeVar

T = TypeVar("T")


def run_to_end(steps: Generator[Any, Any, T]) -> T:
    """Run all steps now, and return the generator's value."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
