"""Parses Python sources for the tests that read the whole tree."""

import ast
import gc


def parse(source: str) -> ast.Module:
    """Like ``ast.parse``, without garbage collection in between.

    On Python 3.11, a finalizer that parses breaks the parse that it interrupts: "SystemError: AST constructor recursion
    depth mismatch". pytest's report of a warning in a finalizer is such a case, because tracebacks parse their lines.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        if was_enabled:
            gc.enable()
