"""Compiled modules are kept, for the tests and the benchmarks and the processes that they start."""

import os
import sys

VARIABLE = "PYTHONDONTWRITEBYTECODE"


def keep_bytecode() -> None:
    """Unset PYTHONDONTWRITEBYTECODE, which many images set. Otherwise, each of hundreds of processes would compile all
    modules again, and pytest would rewrite all assertions in each run."""
    sys.dont_write_bytecode = False
    os.environ.pop(VARIABLE, None)
