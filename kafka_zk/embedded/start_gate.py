"""Lets a child process load its modules and then wait until its parent is ready.

    KAFKA_ZK_START_GATE=9        in the child's environment: the descriptor of a pipe's read end

The parent writes one byte to open the gate. If the parent exits first, the child exits too.
"""

import contextlib
import os
import sys

VARIABLE = "KAFKA_ZK_START_GATE"
_OPEN = b"1"


class StartGate:
    """The parent's side. Create one gate for each child, before starting the child."""

    def __init__(self) -> None:
        self.descriptor, self._write_end = os.pipe()  # neither is inherited by default
        self.environ = {VARIABLE: str(self.descriptor)}

    def child_started(self) -> None:
        """Close the parent's copy of ``descriptor``. Call this after starting the child, even if that failed."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def open(self) -> None:
        """Let the child continue. No effect on a child that has exited. Call either this or ``abandon``, once."""
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
    """Wait in the child until the parent opens the gate. Exits if the parent exits or abandons the gate. Returns
    immediately without a gate."""
    descriptor = os.environ.pop(VARIABLE, None)
    if descriptor is None:
        return
    with open(int(descriptor), "rb", buffering=0) as pipe:
        if pipe.read(1) != _OPEN:
            sys.exit("the process that started this one has ended")
