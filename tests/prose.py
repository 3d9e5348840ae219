"""Measures prose per 100 lines of code: ``python -m tests.prose [REVISION ...]``, by default the working tree.

Prose is docstrings, comments and bare strings below an attribute. Code is every other line that is not blank. The
package's Python files are counted, without tests. 01808ed0 is the last commit before the language was revised.
"""

import argparse
import ast
import io
import subprocess
import sys
import tarfile
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.sources import parse

ROOT = Path(__file__).parents[1]
FOLDERS = ("kafka_zk", "storage", "registry", "rebalance", "spark_jobs")


class Prose(NamedTuple):
    """Counts over modules."""

    code_lines: int
    lines: int
    words: int
    public_count: int
    """Public classes, functions and methods."""
    undocumented_count: int
    """Number of these without a docstring."""

    def __add__(self, other: "Prose") -> "Prose":  # type: ignore[override]
        return Prose(*map(sum, zip(self, other, strict=True)))

    def __str__(self) -> str:
        per_100 = 100 / max(1, self.code_lines)
        return (
            f"{self.lines * per_100:.1f} lines and {self.words * per_100:.0f} words of prose per 100 lines of code "
            f"({self.code_lines:,}); {self.undocumented_count} of {self.public_count:,} public names have no docstring"
        )


def measure(source: str) -> Prose:
    """Count one module."""
    tree = parse(source)
    prose: dict[int, None] = {}
    words = 0
    for node in _bare_strings(tree):
        words += len(str(node.value).split())
        prose.update(dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1)))
    comment_only = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            words += len(token.string.lstrip("#: ").split())
            if not token.line[: token.start[1]].strip():
                comment_only.add(token.start[0])
    lines = {number for number, line in enumerate(source.splitlines(), 1) if line.strip()}
    written = (prose.keys() | comment_only) & lines
    public = [node for node in ast.walk(tree) if isinstance(node, _NAMED) and not node.name.startswith("_")]
    undocumented_count = sum(not ast.get_docstring(node) for node in public)
    return Prose(len(lines - written), len(written), words, len(public), undocumented_count)


_NAMED = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _bare_strings(tree: ast.Module) -> Iterator[ast.Constant]:
    """Strings that are statements: docstrings, and descriptions of attributes and constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value


def sources(revision: str | None) -> Iterator[str]:
    """The modules of a commit, or of the working tree. Raises CalledProcessError for an unknown revision."""
    if revision is None:
        for folder in FOLDERS:
            for path in sorted((ROOT / folder).rglob("*.py")):
                yield path.read_text()
        return
    command = ["git", "archive", revision, *FOLDERS]
    archive = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        for member in files:
            file = files.extractfile(member) if member.isfile() and member.name.endswith(".py") else None
            if file is not None:
                yield file.read().decode()


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.prose", description="Measure prose per 100 lines of code.")
    parser.add_argument("revisions", metavar="REVISION", nargs="*", help="a commit; by default the working tree")
    wanted: list[str | None] = parser.parse_args(arguments).revisions or [None]
    for revision in wanted:
        try:
            total = sum(map(measure, sources(revision)), start=Prose(0, 0, 0, 0, 0))
        except subprocess.CalledProcessError:
            parser.error(f"{revision} is not a commit of this repository")
        print(f"{revision or 'working tree'}: {total}")


if __name__ == "__main__":
    main(sys.argv[1:])
