"""What every member process speaks: requests on its standard input, records into files.

    join NAME...   the members take part; "ok" or "error why" when all of them have called what joins
    leave NAME...  they leave cleanly, and answer when they have
    end of input   the process ends

A record is a line ``monotonic-ns partition offset`` in the folder's file NAME. The same in Java:
``tests/peers/java/legacy/GroupMember.java``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path


class RecordFile:
    """The records of one member, written through at every batch, so that a kill loses nothing that was delivered."""

    def __init__(self, folder: Path, name: str) -> None:
        self._file = (folder / name).open("ab", buffering=0)

    def write(self, records: Iterable[tuple[int, int]]) -> None:
        """(partition, offset) of records delivered now."""
        now_ns = time.monotonic_ns()
        self._file.write(b"".join(b"%d %d %d\n" % (now_ns, partition, offset) for partition, offset in records))


def serve(join: Callable[[Sequence[str]], None], leave: Callable[[Sequence[str]], None]) -> None:
    """Answer requests until the input ends."""
    _answer("ok")
    for line in sys.stdin:
        verb, *names = line.split()
        try:
            (join if verb == "join" else leave)(names)
        except Exception as failure:  # the bench shows it and stops
            _answer(f"error {type(failure).__name__}: {failure}")
        else:
            _answer("ok")


def _answer(text: str) -> None:
    print(text, flush=True)
