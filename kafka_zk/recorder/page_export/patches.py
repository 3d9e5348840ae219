"""The difference of two JSON documents, as a patch that the page applies. Pure.

``static/replayed.js`` applies them. A patch is one of:

    [value]                                     the document is this value
    [index, count, items]                       a list: these items replace ``count`` items from ``index`` on
    {"removed": [key, …], "changed": {key: patch, …}}    an object without these keys, or a list, with these changes
"""

from collections.abc import Iterable, Iterator
from itertools import takewhile
from operator import eq
from typing import Any

Patch = list[Any] | dict[str, Any]
_NOTHING: dict[str, Any] = {}


def patches(documents: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, Patch]]:
    """The patches for documents, each with the key from which it is valid: first the whole document, then the changes.

    A document must not change after it was passed.
    """
    before: Any = None
    for number, (key, document) in enumerate(documents):
        if number and document is before:
            continue
        patch: Patch = patch_of(before, document) if number else [document]
        before = document
        if patch:
            yield key, patch


def patch_of(before: Any, after: Any) -> Patch:
    """The patch from ``before`` to ``after``; empty if they are equal."""
    if before == after:
        return _NOTHING
    if isinstance(before, dict) and isinstance(after, dict):
        return _of_objects(before, after)
    if isinstance(before, list) and isinstance(after, list):
        return _of_lists(before, after)
    return [after]


def _of_objects(before: dict[str, Any], after: dict[str, Any]) -> Patch:
    kept = [key for key in before if key in after]
    if [*kept, *(key for key in after if key not in before)] != [*after]:
        return [after]  # the page may show the keys in this order, which a patch cannot change
    removed = [key for key in before if key not in after]
    changed = {key: patch_of(before[key], value) if key in before else [value] for key, value in after.items()}
    return _parts(removed, changed)


def _of_lists(before: list[Any], after: list[Any]) -> Patch:
    if len(before) == len(after):
        return _parts([], {str(index): patch_of(*pair) for index, pair in enumerate(zip(before, after, strict=True))})
    most = min(len(before), len(after))
    begin = _same(before, after)
    end = min(_same(reversed(before), reversed(after)), most - begin)
    return [begin, len(before) - begin - end, after[begin : len(after) - end]]


def _parts(removed: list[str], changed: dict[str, Patch]) -> Patch:
    parts = {"removed": removed, "changed": {key: patch for key, patch in changed.items() if patch}}
    return {name: part for name, part in parts.items() if part}


def _same(one: Iterable[Any], other: Iterable[Any]) -> int:
    """The number of equal items at the beginning."""
    return sum(1 for _ in takewhile(bool, map(eq, one, other)))
