"""A finalizer that parses does not break the parse of a source."""

import ast
import gc
from pathlib import Path

from tests.sources import parse


class Parsing:
    """Parses when it is collected; only the garbage collector collects it, because it refers to itself."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        ast.parse("f(x, y=[z])")


def test_a_finalizer_does_not_break_a_parse() -> None:
    source = Path(__file__).read_text()
    thresholds = gc.get_threshold()
    gc.set_threshold(50, 2, 2)
    try:
        for _ in range(20):
            Parsing()
            assert parse(source).body
        assert gc.isenabled()
    finally:
        gc.set_threshold(*thresholds)
