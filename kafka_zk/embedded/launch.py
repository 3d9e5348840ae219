"""Replace this process by a command that dies with its parent: ``python launch.py PARENT_PID COMMAND…``.

``process.py`` runs this script. In a program with threads, only exec is safe after a fork, so a separate process makes
the Linux call that ties a child to its parent, and then becomes the command. On other systems the command runs
unchanged.

The kernel sends the signal when the *thread* that started the child ends; ``starter.py`` has a permanent thread.
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
        if os.getppid() != parent_pid:  # the parent died before the call above
            sys.exit(1)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"cannot run {command[0]}: {error.strerror}")


if __name__ == "__main__":
    main()
