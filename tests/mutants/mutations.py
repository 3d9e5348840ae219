"""Small faults that could be in a module's decisions, each a change of one expression or statement.

Code that decides nothing is left alone: annotations, decorators, asserts, texts, log calls, imports for type checkers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

LARGEST_COUNT = 100
"""Larger integers are quantities such as timeouts and sizes, for which a difference of one does not matter."""

COMPARISONS: dict[type[ast.cmpop], ast.cmpop] = {
    ast.Lt: ast.LtE(), ast.LtE: ast.Lt(), ast.Gt: ast.GtE(), ast.GtE: ast.Gt(), ast.Eq: ast.NotEq(),
    ast.NotEq: ast.Eq(), ast.Is: ast.IsNot(), ast.IsNot: ast.Is(), ast.In: ast.NotIn(), ast.NotIn: ast.In(),
}  # fmt: skip
OPPOSITES = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
"""Comparisons whose mutant is their negation."""
EXTREMES = {"min": "max", "max": "min"}
UNDECIDING = {ast.AnnAssign: "annotation", ast.arg: "annotation", ast.FunctionDef: "returns", ast.Subscript: "slice"}
Display: TypeAlias = ast.Tuple | ast.List | ast.Set | ast.Dict


@dataclass(frozen=True)
class Mutant:
    """A module with one change.

    line: the number of the changed line, from 1.
    before, after: the changed line, stripped; for a table, the removed element.
    source: the whole module with the change.
    """

    line: int
    before: str
    after: str
    source: str


def mutants_of(source: str) -> list[Mutant]:
    """All mutants of a module that compile, from its first line to its last."""
    found = [mutant for make in _changes(source, ast.parse(source)) if _compiles((mutant := make()).source)]
    return sorted(found, key=lambda mutant: mutant.line)


def _changes(source: str, tree: ast.Module) -> Iterator[partial[Mutant]]:
    for node in _decisions(tree):
        for old, new in _variants(node):
            yield partial(_mutant, source, old, new)
    for table in _tables(tree):
        yield from (partial(_without_element, source, table, index) for index in range(len(_elements(table))))


def _decisions(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below ``node`` that decide something."""
    for field, value in ast.iter_fields(node):
        if field == "decorator_list" or (UNDECIDING.get(type(node)) == field and not _is_index(value)):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.Assert | ast.JoinedStr) or _is_told(child):
                continue
            yield child
            if not isinstance(child, ast.Raise):  # the arguments of an error are for people
                yield from _decisions(child)


def _is_index(node: object) -> bool:
    """True for the index in ``queue[0]``, which decides something; False for that in ``dict[str, int]``."""
    return isinstance(node, ast.Slice | ast.Constant | ast.UnaryOp | ast.BinOp)


def _is_told(node: ast.AST) -> bool:
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="_log" | "log")))):
            return True
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name.startswith("__")
        case ast.FunctionDef(name=name):
            return name in ("__repr__", "__str__")
    return False


def _variants(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Pairs of a node and its replacement."""
    match node:
        case ast.Compare(left=left, ops=operators, comparators=comparators):
            for index, operator in enumerate(operators):
                changed = [*operators[:index], COMPARISONS[type(operator)], *operators[index + 1 :]]
                yield node, ast.Compare(left, changed, comparators)
        case ast.BoolOp(op=boolean, values=values):
            yield node, ast.BoolOp(ast.Or() if isinstance(boolean, ast.And) else ast.And(), values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, operand
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield node, ast.BinOp(left, ast.Sub(), right)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            yield node, ast.BinOp(left, ast.Add(), right)
        case ast.Constant(value=bool() as truth):
            yield node, ast.Constant(not truth)
        case ast.Constant(value=int() as number) if number <= LARGEST_COUNT:
            yield from ((node, ast.Constant(number + step)) for step in (1, -1))
        case ast.Call(func=ast.Name(id="min" | "max" as name) as function):
            yield function, ast.Name(EXTREMES[name])
    yield from _negations(node)
    if _can_be_dropped(node):
        yield node, ast.Pass()


def _negations(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            tests = [test]
        case ast.comprehension(ifs=tests):
            pass
        case _:
            return
    for test in tests:
        match test:
            case ast.UnaryOp(op=ast.Not()) | ast.Constant():
                continue
            case ast.Compare(ops=[operator]) if isinstance(operator, OPPOSITES):
                continue
        yield test, ast.UnaryOp(ast.Not(), test)


def _can_be_dropped(node: ast.AST) -> bool:
    """False if the statement binds a plain name: without the name, any test would fail."""
    match node:
        case ast.Return() | ast.Raise() | ast.Continue() | ast.Break() | ast.AugAssign():
            return True
        case ast.Expr(value=ast.Call() | ast.Yield() | ast.YieldFrom() | ast.Await()):
            return True
        case ast.Assign(targets=[target, *_]) | ast.AnnAssign(target=target, value=ast.expr()):
            return isinstance(target, ast.Attribute | ast.Subscript)
    return False


def _tables(tree: ast.Module) -> Iterator[Display]:
    """The displays that a module or class assigns, and those on the right of ``in``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef):
            for statement in node.body:
                if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value and not _is_told(statement):
                    yield from _displays(statement.value)
        elif isinstance(node, ast.Compare):
            for operator, right in zip(node.ops, node.comparators, strict=True):
                if isinstance(operator, ast.In | ast.NotIn):
                    yield from _displays(right)


def _displays(value: ast.expr) -> Iterator[Display]:
    """The display and those in its elements, also if it is an argument of a call, as in ``frozenset({A, B})``."""
    match value:
        case ast.Call(args=arguments):
            for argument in arguments:
                yield from _displays(argument)
        case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
            if len(elements) > 1:
                yield value
            for element in elements:
                yield from _displays(element)
        case ast.Dict(values=elements):
            if len(elements) > 1:
                yield value
            for element in elements:
                yield from _displays(element)


def _elements(table: Display) -> list[ast.expr]:
    return table.values if isinstance(table, ast.Dict) else table.elts


def _without_element(source: str, table: Display, index: int) -> Mutant:
    element = _elements(table)[index]
    rest = [each for each in _elements(table) if each is not element]
    new: ast.expr
    if isinstance(table, ast.Dict):
        key = table.keys[index]
        new = ast.Dict([each for each in table.keys if each is not key], rest)
        text = f"{ast.unparse(key) if key else '**'}: {ast.unparse(element)}"
    else:
        new = ast.Set(rest) if isinstance(table, ast.Set) else type(table)(rest, ast.Load())
        text = ast.unparse(element)
    return Mutant(element.lineno, text, "(removed)", _replaced(source, table, new))


def _mutant(source: str, old: ast.AST, new: ast.AST) -> Mutant:
    assert isinstance(old, ast.expr | ast.stmt)
    changed = _replaced(source, old, new)
    before, after = (text.splitlines()[old.lineno - 1].strip() for text in (source, changed))
    if before == after:  # the change is in a later line of the same expression
        before, after = (ast.unparse(node) for node in (old, new))
    return Mutant(old.lineno, before, after, changed)


def _replaced(source: str, old: ast.expr | ast.stmt, new: ast.AST) -> str:
    """``source`` with one node replaced; positions of nodes count bytes."""
    assert old.end_lineno is not None and old.end_col_offset is not None
    text = ast.unparse(ast.fix_missing_locations(new))
    if not isinstance(new, ast.stmt | ast.Name | ast.Constant):
        text = f"({text})"
    lines = source.encode().splitlines(keepends=True)
    head, tail = lines[old.lineno - 1][: old.col_offset], lines[old.end_lineno - 1][old.end_col_offset :]
    changed = head + text.encode() + tail
    return b"".join([*lines[: old.lineno - 1], changed, *lines[old.end_lineno :]]).decode()


def _compiles(source: str) -> bool:
    try:
        compile(source, "mutant", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True
