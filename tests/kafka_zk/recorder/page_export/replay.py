"""Applies patches, as the page's ``replayed.js`` does."""

from collections.abc import Iterable
from typing import Any


def replayed(patches: Iterable[tuple[int, Any]], key: int) -> Any:
    """The document at a key; None before the first one."""
    document = None
    for valid_from, patch in patches:
        if valid_from <= key:
            document = _patched(document, patch)
    return document


def _patched(document: Any, patch: Any) -> Any:
    if isinstance(patch, list):
        if len(patch) == 1:
            return patch[0]
        index, count, items = patch
        return [*document[:index], *items, *document[index + count :]]
    removed, changed = patch.get("removed", []), patch.get("changed", {})
    if isinstance(document, list):
        return [_patched(each, changed[str(at)]) if str(at) in changed else each for at, each in enumerate(document)]
    kept = {name: each for name, each in document.items() if name not in removed}
    return kept | {name: _patched(document.get(name), each) for name, each in changed.items()}
