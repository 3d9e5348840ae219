"""Which module imports which, over the product and its tests, read from the sources."""

import ast
from collections.abc import Container, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
AT_THE_TOP = ("rebalance", "registry", "spark_jobs", "storage")
"""Packages of kafka_zk that are folders at the top (decision 0013)."""


def module_of(path: Path) -> str:
    """``kafka_zk.storage.log.log`` of ``storage/log/log.py``; a package's name of its ``__init__.py``."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join(("kafka_zk", *parts) if parts[0] in AT_THE_TOP else parts)


def modules_below(*folders: str) -> dict[str, Path]:
    """By name; packages too."""
    return {module_of(path): path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))}


def imports(source: str, known: Container[str]) -> Iterator[str]:
    """The modules that a source imports anywhere, for types too; of ``from package import module`` the known module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in known else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
