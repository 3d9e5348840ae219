"""Answers that many pages ask for at the same moment are computed once."""

import gzip
import json
from collections.abc import Callable
from typing import NamedTuple

from kafka_zk.recorder.recording.documents import Document
from kafka_zk.recorder.web.api import BadRequest

MOST_BYTES = 20_000_000
_LEVEL = 1
"""gzip's fastest level, which makes the JSON of a view about seven times smaller."""


class Answer(NamedTuple):
    """``packed``: JSON, compressed with gzip. ``size_bytes``: its size without compression."""

    code: int
    packed: bytes
    size_bytes: int


class Answers:
    """The last answers, by query, until they are ``clear``\\ ed. ``most_bytes``: the bound on their size."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._found: dict[str, Answer] = {}  # oldest first
        self._size_bytes = 0

    def of(self, query: str, compute: Callable[[], Document]) -> Answer:
        """The kept answer, else the one that ``compute`` returns. A refused query (BadRequest) has code 400, and is not
        kept.
        """
        kept = self._found.get(query)
        if kept is not None:
            return kept
        try:
            found = _answer(200, compute())
        except BadRequest as error:
            return _answer(400, {"error": str(error)})
        self._found[query] = found
        self._size_bytes += _size(query, found)
        while self._size_bytes > self._most_bytes:
            oldest = next(iter(self._found))
            self._size_bytes -= _size(oldest, self._found.pop(oldest))
        return found

    def clear(self) -> None:
        """Forget all answers, because the recording has changed."""
        self._found.clear()
        self._size_bytes = 0


def _answer(code: int, document: Document) -> Answer:
    plain = json.dumps(document).encode()
    return Answer(code, gzip.compress(plain, _LEVEL, mtime=0), len(plain))


def _size(query: str, found: Answer) -> int:
    return 4 * len(query) + len(found.packed)
