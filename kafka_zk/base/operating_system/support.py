"""Checks whether kafka-zk runs on this operating system."""

import sys


def unsupported() -> str | None:
    """One sentence for a system without POSIX; None for all others."""
    if sys.platform == "win32":
        return "kafka-zk does not run on Windows: use Linux, for example in the Windows Subsystem for Linux (WSL)"
    return None
