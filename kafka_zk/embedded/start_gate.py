"""Holds a process that is being started until its parent is ready: meanwhile it loads its modules.

    KAFKA_ZK_START_GATE=9        the read end of a pipe, in the child's environment

The parent writes one byte to open the gate. If the parent ends instead, so does the child.
"""

import contextlib
import os
import sys

VARIABLE = "KAFKA_ZK_START_GATE"
_OPEN = b"1"


class StartGate:
    """The parent's side, from before the start of one child."""

    def __init__(self) -> None:
        self.descriptor, self._write_end = os.pipe()  # neither is inherited by default
        self.environ = {VARIABLE: str(self.descriptor)}

    def child_started(self) -> None:
        """Call this when the child has inherited ``descriptor``."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def open(self) -> None:
        """Without effect on a child that has ended. Call this or ``abandon``, once."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._write_end, _OPEN)
        self.abandon()

    def abandon(self) -> None:
        """End the child at its gate, if it was started at all."""
        self.child_started()
        os.close(self._write_end)


def is_held() -> bool:
    return VARIABLE in os.environ


def wait() -> None:
    """In the child: return when the parent opens the gate; exits if it never will. Without a gate, returns at once."""
    descriptor = os.environ.pop(VARIABLE, None)
    if descriptor is None:
        return
    with open(int(descriptor), "rb", buffering=0) as pipe:
        if pipe.read(1) != _OPEN:
            sys.exit("the process that started this one has ended")
