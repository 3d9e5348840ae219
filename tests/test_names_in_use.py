"""The product uses everything that it defines: code that only tests need belongs to the tests.

Names are compared, not objects: a name counts as used if any module of the product, an example or a page of the docs
has it. So some unused names are missed, and no used name is reported.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.import_graph import AT_THE_TOP, ROOT
from tests.sources import parse

PRODUCT = ("kafka_zk", *AT_THE_TOP)

CALLED_BY_LIBRARIES = {
    "checkPersistence", "getChild", "logPrefix", "render", "stopProducing", "writeSequence",  # Twisted
    "_isSendBufferFull", "_makeTransport",
    "dispatch_callback",  # kazoo
    "format_commands",  # click
    "redirect_request",  # urllib
    "pytest_addoption", "pytest_configure", "pytest_configure_node", "pytest_unconfigure",
    "getDefaultReadLimit", "initialOffset", "latestOffset", "prepareForTriggerAvailableNow", "reportLatestOffset",
    "streamReader", "streamWriter",  # PySpark
}  # fmt: skip
"""Methods that override those of libraries. Methods with a decorator and Twisted's ``render_GET`` are exempt in any
case.
"""

PUBLIC = {"send_all", "send_nowait", "internal_bootstrap"}
"""Methods of classes in docs/reference/api.md, which are public without being named there."""

EXCEPTIONS = {
    "client_count": "that quotas of clients that went away are forgotten",
    "durable_bytes": "what a power loss would leave, for the judges of tests/sim",
}
"""Names that only tests use -> what they show."""

PLAIN_DECORATORS = {"property", "staticmethod", "classmethod", "contextmanager", "cached_property"}
WORDS = re.compile(r"[\w.:]+")


def definitions(tree: ast.Module) -> Iterator[str]:
    """Functions and classes, and a module's constants. Functions with a decorator that is not in PLAIN_DECORATORS are
    exempt, because the decorator registers them.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            decorators = {ast.unparse(each).partition("(")[0].rpartition(".")[2] for each in node.decorator_list}
            if isinstance(node, ast.ClassDef) or decorators <= PLAIN_DECORATORS:
                yield node.name
    for statement in tree.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def uses(tree: ast.Module) -> Iterator[str]:
    """Names and attributes that are read, and strings that are only a name (``getattr``, annotations)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and WORDS.fullmatch(node.value):
            yield from re.findall(r"\w+", node.value)
        for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if isinstance(annotation, ast.expr):
                yield from re.findall(r"\w+", ast.unparse(annotation))


def parsed(*folders: str) -> dict[Path, ast.Module]:
    return {path: parse(path.read_text()) for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))}


def test_the_product_uses_what_it_defines() -> None:
    product = parsed(*PRODUCT)
    used = {name for tree in (*product.values(), *parsed("examples").values()) for name in uses(tree)}
    used |= {word for page in (ROOT / "docs").rglob("*.md") for word in re.findall(r"\w+", page.read_text())}
    known = used | CALLED_BY_LIBRARIES | PUBLIC
    unused = {name: path.relative_to(ROOT) for path, tree in product.items() for name in definitions(tree)
              if name not in known and not name.startswith(("__", "render_"))}  # fmt: skip
    assert {name: path for name, path in unused.items() if name not in EXCEPTIONS} == {}
    assert EXCEPTIONS.keys() <= unused.keys(), "these need no exception any more"


def test_what_is_unused_is_seen() -> None:
    source = "A = 1\nclass B: ...\ndef c(): return d()\n@property\ndef d(x: 'B'): ...\n@registered\ndef e(): ..."
    tree = parse(source)
    assert set(definitions(tree)) - set(uses(tree)) == {"A", "c"}
