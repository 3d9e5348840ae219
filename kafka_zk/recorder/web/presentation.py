"""What the presenter's page shows, for the viewers' pages, which follow it.

The presenter's page sends its state whenever it changes: the moment, the view, what is chosen, the step of a lesson and
of slow motion. Only the last state is kept. A page that comes late, or that was asleep, therefore needs nothing but
this state.
"""

from collections.abc import Callable
from typing import Any

from kafka_zk.recorder.recording.documents import Document

MOST_INTEGER = 2**53 - 1
"""The largest integer that JavaScript represents exactly."""
MOST_CHARACTERS = 4_000
MOST_FOLDS = 100
VIEWS = ("cluster", "tree", "lag", "strategies", "help")


class BadPresentation(Exception):
    """``str()`` names the invalid field."""


class Presentation:
    """The presenter's last state.

    ``shown``: the state, None until a presenter has sent one. ``number`` counts the states that differ from the one
    before, so that a viewer's page knows whether it shows this one.
    """

    def __init__(self) -> None:
        self.number = 0
        self.shown: Document | None = None

    def present(self, told: Any) -> bool:
        """Take a state that a page has sent; returns True if it differs from the last one. Raises: BadPresentation, and
        keeps the last state.
        """
        shown = _object(_FIELDS)("the state", told)
        if shown == self.shown:
            return False
        self.shown = shown
        self.number += 1
        return True

    def document(self) -> Document | None:
        """The state for viewers' pages."""
        return None if self.shown is None else {"number": self.number, "shown": self.shown}


_Check = Callable[[str, Any], Any]
"""Returns the checked value of the field with this name. Raises: BadPresentation."""


def _refuse(name: str, expected: str) -> BadPresentation:
    return BadPresentation(f"{name} must be {expected}")


def _integer(least: int) -> _Check:
    def check(name: str, value: Any) -> int:
        if type(value) is not int or not least <= value <= MOST_INTEGER:
            raise _refuse(name, f"an integer from {least}")
        return value

    return check


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) > MOST_CHARACTERS:
        raise _refuse(name, f"a string of at most {MOST_CHARACTERS} characters")
    return value


def _truth(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _refuse(name, "true or false")
    return value


def _view(name: str, value: Any) -> str:
    if value not in VIEWS:
        raise _refuse(name, f"one of {', '.join(VIEWS)}")
    return str(value)


def _texts(name: str, value: Any) -> list[str]:
    if not isinstance(value, list) or len(value) > MOST_FOLDS:
        raise _refuse(name, f"a list of at most {MOST_FOLDS} strings")
    return [_text(name, each) for each in value]


def _or_null(check: _Check) -> _Check:
    return lambda name, value: None if value is None else check(name, value)


def _object(fields: dict[str, _Check]) -> _Check:
    def check(name: str, value: Any) -> Document:
        if not isinstance(value, dict) or value.keys() != fields.keys():
            raise _refuse(name, f"an object with {', '.join(fields)}")
        return {each: inner(each, value[each]) for each, inner in fields.items()}

    return check


_NUMBER = _integer(0)
_FIELDS: dict[str, _Check] = {
    "seq": _or_null(_NUMBER),  # the shown entry; null: live
    "at": _or_null(_NUMBER),  # the slider's time in milliseconds, if it is after that entry
    "view": _view,
    "chosen": _or_null(_NUMBER),  # the chosen entry
    "znode": _or_null(_text),  # the path of the chosen znode
    "below": _text,  # the path whose children the tree shows
    "filter": _text,
    "window_s": _NUMBER,  # the shown time; 0: all
    "every": _truth,
    "folds": _object({"opened": _texts, "closed": _texts}),
    "episode": _or_null(_object({"seq": _NUMBER, "subject": _text})),  # the chosen line of what happened
    "slowly": _or_null(_object({"step": _NUMBER, "until_ms": _or_null(_NUMBER)})),  # slow motion of that episode
    "lesson": _or_null(
        _object({"step": _integer(-1), "asks": _truth, "answer": _or_null(_text), "is_skipped": _truth})
    ),
}
