"""The protocol of every member process: requests on its standard input, records in files.

    join NAME...   the members join; the answer "ok" or "error why" comes when all of their join calls have returned
    leave NAME...  the members leave cleanly; the answer comes when they have left
    end of input   the process ends

A record is a line ``monotonic-ns partition offset`` in the folder's file NAME. The same protocol in Java:
``tests/peers/java/legacy/GroupMember.java``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path


class RecordFile:
    """The records of one member, written without a buffer for each batch, so that a kill loses no delivery."""

    def __init__(self, folder: Path, name: str) -> None:
        self._file = (folder / name).open("ab", buffering=0)

    def write(self, records: Iterable[tuple[int, int]]) -> None:
        """Write the (partition, offset) of records that are delivered now."""
        now_ns = time.monotonic_ns()
        self._file.write(b"".join(b"%d %d %d\n" % (now_ns, partition, offset) for partition, offset in records))


def serve(join: Callable[[Sequence[str]], None], leave: Callable[[Sequence[str]], None]) -> None:
    """Answer requests until the input ends."""
    _answer("ok")
    for line in sys.stdin:
        verb, *names = line.split()
        try:
            (join if verb == "join" else leave)(names)
        except Exception as failure:  # the bench prints the answer and stops
            _answer(f"error {type(failure).__name__}: {failure}")
        else:
            _answer("ok")


def _answer(text: str) -> None:
    print(text, flush=True)
