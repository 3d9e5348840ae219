"""The imports between all modules of the product and its tests, read from the sources."""

import ast
from collections.abc import Container, Iterator
from pathlib import Path

from tests.sources import parse

ROOT = Path(__file__).parents[1]
AT_THE_TOP = ("rebalance", "registry", "spark_jobs", "storage")
"""Packages of kafka_zk that are folders at the top (decision 0013)."""


def module_of(path: Path) -> str:
    """``kafka_zk.storage.log.log`` for ``storage/log/log.py``; the package's name for an ``__init__.py``."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join(("kafka_zk", *parts) if parts[0] in AT_THE_TOP else parts)


def modules_below(*folders: str) -> dict[str, Path]:
    """All modules and packages below the folder, by name."""
    return {module_of(path): path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))}


def imports(source: str, known: Container[str]) -> Iterator[str]:
    """All modules that a source imports, also for types. ``from package import module`` counts as the module if it is
    known."""
    for node in ast.walk(parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in known else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
