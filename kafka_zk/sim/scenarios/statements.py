"""The grammar of scenarios: a statement matches a phrase with ``{slots}`` for names, numbers and times.

``verbs`` defines the phrases. A line that matches no phrase raises a ``ScenarioError`` with the line's number and the
closest phrase. Pure.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from kafka_zk.base.types import TopicPartition

UNITS_MS = {"ms": 1, "s": 1_000}
_NAME = r"[A-Za-z0-9_][A-Za-z0-9._-]*"


class ScenarioError(ValueError):
    """The scenario cannot be played. ``line``: counted from 1; 0 if the error concerns the whole file."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}" if line else reason)
        self.line = line


def _tp(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


def _duration_ms(text: str) -> int:
    number, unit = text.split()
    return int(number) * UNITS_MS[unit]


class _Slot(NamedTuple):
    pattern: str
    parse: Callable[[str], Any]


_SLOTS = {
    "count": _Slot(r"\d{1,9}", int),
    "offset": _Slot(r"\d{1,9}", int),
    "duration": _Slot(r"\d{1,6} (?:ms|s)", _duration_ms),
    "tp": _Slot(rf"{_NAME}-\d{{1,6}}", _tp),
    "path": _Slot(r"/\S*", str),
    "values": _Slot(r".+", str.split),
    "brokers": _Slot(rf"{_NAME}(?: {_NAME})*?", str.split),
    "configs": _Slot(r"[a-z.]+=\S+(?: [a-z.]+=\S+)*", lambda text: dict(each.split("=", 1) for each in text.split())),
    "data": _Slot(r".+", str),
    "text": _Slot(r".+", str),
    "condition": _Slot(r".+", str),
}
_ANY_NAME = _Slot(_NAME, str)
"""The type of all other slots."""


class Phrase:
    """A phrase such as ``wait {duration}``: literal words, and slots of the types in ``_SLOTS``. ``(s)`` is
    optional.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._slots: list[str] = re.findall(r"{(\w+)}", text)
        pattern = re.escape(text).replace(r"\(s\)", "s?")
        for slot in self._slots:
            pattern = pattern.replace(rf"\{{{slot}\}}", f"({_SLOTS.get(slot, _ANY_NAME).pattern})")
        self._pattern = re.compile(pattern)

    def match(self, text: str) -> dict[str, Any] | None:
        """The values of the slots; None if the statement does not match."""
        found = self._pattern.fullmatch(text)
        if found is None:
            return None
        return {
            slot: _SLOTS.get(slot, _ANY_NAME).parse(part)
            for slot, part in zip(self._slots, found.groups(), strict=True)
        }


def matched(phrases: Mapping[Phrase, Any], text: str, line: int) -> tuple[Phrase, dict[str, Any]]:
    """The first matching phrase and its slots' values. Raises ScenarioError, which suggests the closest phrase."""
    for phrase in phrases:
        slots = phrase.match(text)
        if slots is not None:
            return phrase, slots
    near = nearest(text, (phrase.text for phrase in phrases))
    raise ScenarioError(line, f'"{text}" is not understood' + (f'; did you mean "{near}"?' if near else ""))


def nearest(text: str, known: Iterable[str]) -> str | None:
    """The known phrase with the most words in common; None if there are too few."""
    words = text.split()
    rated = [(difflib.SequenceMatcher(None, words, each.split()).ratio(), each) for each in known]
    best = max(rated, default=(0.0, ""))
    if best[0] > 0.3:
        return best[1]
    close = difflib.get_close_matches(text, [each for _, each in rated], 1, 0.5)
    return close[0] if close else None
