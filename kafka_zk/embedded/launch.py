"""Replace this process by a command that dies with its parent: ``python launch.py PARENT_PID COMMAND…``.

Run as a script by ``process.py``, never imported: between fork and exec of a program with threads nothing but exec is
safe, so the Linux call that ties a child to its parent is made here, in a process of its own, which then becomes the
command. Elsewhere than on Linux the command is run as it is.

The kernel sends the signal when the *thread* that started the child ends; ``starter.py`` has one that lives on.
"""

import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main() -> None:
    parent_pid, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent_pid:  # it died before the call above
            sys.exit(1)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"cannot run {command[0]}: {error.strerror}")


if __name__ == "__main__":
    main()
