"""Suggests the nearest known name."""

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """``; did you mean greetings?``, or "" if no name is similar."""
    by_lower = {each.lower(): each for each in names}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return f"; did you mean {by_lower[found[0]]}?" if found else ""


def missing(kind: str, name: str, names: Iterable[str]) -> str:
    """``no topic greetigns; did you mean greetings?``"""
    return f"no {kind} {name}{did_you_mean(name, names)}"
