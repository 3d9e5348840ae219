"""Which changes are made of a line, and which lines are left alone."""

import ast
import textwrap

import pytest

from tests.mutants.mutations import mutants_of
from tests.mutants.trial import PARTS, ROOT


def changes(source: str) -> list[str]:
    return [f"{mutant.before} -> {mutant.after}" for mutant in mutants_of(textwrap.dedent(source))]


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("x = a < b", "x = (a <= b)"),
        ("x = a in b", "x = (a not in b)"),
        ("x = a <= b == c", "x = (a < b == c)"),
        ("x = a <= b == c", "x = (a <= b != c)"),
        ("x = a and b", "x = (a or b)"),
        ("x = not a", "x = a"),
        ("x = a - b", "x = (a + b)"),
        ("x = y[3]", "x = y[4]"),
        ("x = y[3]", "x = y[2]"),
        ("x = True", "x = False"),
        ("x = min(a, b)", "x = max(a, b)"),
        ("x = a if b else c", "x = a if (not b) else c"),
        ("x = [a for a in b if a]", "x = [a for a in b if (not a)]"),
        ("x.y = a", "pass"),
        ("x += a", "pass"),
        ("x()", "pass"),
        ("raise X", "pass"),
    ],
)
def test_a_decision_is_turned_round(line: str, after: str) -> None:
    assert f"{line} -> {after}" in changes(line)


@pytest.mark.parametrize("word", ["return a", "return", "continue", "break"])
def test_a_way_out_is_left_out(word: str) -> None:
    source = f"def f():\n    for a in b:\n        {word}\n"
    assert f"{word} -> pass" in changes(source)


def test_a_table_loses_each_of_its_elements_once() -> None:
    assert changes("TABLE = {A: (B, C), D: E}") == [
        "A: (B, C) -> (removed)",
        "D: E -> (removed)",
        "B -> (removed)",
        "C -> (removed)",
    ]
    assert "B -> (removed)" in changes("x = a in (B, C)")
    assert "B -> (removed)" in changes("TABLE = frozenset({B, C})")


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring of 3 words."""',
        "x: Literal[1]",
        "Pair = dict[str, int | None]",
        "def f(x: Literal[1]) -> Literal[2]: ...",
        "@dataclass(frozen=True)\nclass A: ...",
        "assert x > 0",
        "x = f'{y + 1}'",
        "_log.info('x', y=y + 1)",
        "if TYPE_CHECKING:\n    x = 1",
        "__slots__ = ('a', 'b')",
        "def __repr__(self):\n    return 'a'",
        "x = 60_000",
        "x = y",
        "return_value = f(a, b)",
    ],
)
def test_what_decides_nothing_stays(source: str) -> None:
    assert changes(source) == []


def test_arguments_of_an_error_are_for_people() -> None:
    assert changes("raise X(1 + 2)") == ["raise X(1 + 2) -> pass"]


def test_a_negated_equality_is_one_mutant() -> None:
    assert changes("if a == b: x = c") == ["if a == b: x = c -> if (a != b): x = c"]


def test_only_one_place_is_changed() -> None:
    """The place is right even after letters of more than one byte, and in expressions of several lines."""
    source = "x = {'é': a < b}, [\n    c,\n    d < e,\n]  # Ω\ny = 1\n"
    compared = [mutant for mutant in mutants_of(source) if "<=" in mutant.source]
    assert [mutant.line for mutant in compared] == [1, 3]
    assert compared[0].source == source.replace("a < b", "(a <= b)")
    assert compared[1].source == source.replace("d < e", "(d <= e)")


def test_mutants_of_our_modules_differ_from_them_and_from_each_other() -> None:
    module = (ROOT / "rebalance" / "leadership.py").read_text()
    trees = [ast.dump(ast.parse(mutant.source)) for mutant in mutants_of(module)]
    assert len(trees) > 20
    assert ast.dump(ast.parse(module)) not in trees
    assert len(set(trees)) == len(trees)


def test_all_of_the_product_is_copied() -> None:
    assert all((ROOT / part).exists() for part in PARTS)
