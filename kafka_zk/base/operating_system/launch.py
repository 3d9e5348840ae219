"""Replace this process with a command that dies with its parent: ``python launch.py PARENT_PID COMMAND…``.

``embedded/process.py`` runs this script. In a program with threads, only exec is safe after a fork, so a separate
process asks the kernel to tie it to its parent, and then becomes the command. The kernel sends the signal when the
*thread* that started the child ends; ``embedded/starter.py`` has a permanent thread.

Without Linux's prctl, a second process checks every 100 ms whether the parent still runs, and ends with the command.
"""

import os
import signal
import sys
import time

PR_SET_PDEATHSIG = 1  # linux/prctl.h
INTERVAL_S = 0.1
MOST_DESCRIPTORS = 65_536


def main() -> None:
    parent_pid, command = int(sys.argv[1]), sys.argv[2:]
    command_pid = os.getpid()
    if not _tied_by_kernel() and os.fork() == 0:
        _end_with(parent_pid, command_pid)
    if os.getppid() != parent_pid:  # the parent died before the call above
        sys.exit(1)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"cannot run {command[0]}: {error.strerror}")


def _tied_by_kernel() -> bool:
    import ctypes

    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    return prctl is not None and prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) == 0


def _end_with(parent_pid: int, command_pid: int) -> None:
    """Kill the command, this process's parent, when ``parent_pid`` has ended."""
    os.closerange(0, MOST_DESCRIPTORS)  # pipes must close when the command ends
    while os.getppid() == command_pid:
        if not _exists(parent_pid):
            os.kill(command_pid, signal.SIGKILL)
        time.sleep(INTERVAL_S)
    os._exit(0)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # the process belongs to another user
        return True
    return True


if __name__ == "__main__":
    main()
