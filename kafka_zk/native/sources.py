"""The native module's source files and their fingerprint, which the module carries: it is refused if they differ.

setup.py runs this file before kafka_zk can be imported, so it imports nothing of the project.
Tests: tests/kafka_zk/native/test_loading.py.
"""

from importlib.util import source_hash
from pathlib import Path

SOURCES = ("compaction.c", "module.c")
HEADERS = ("compaction.h", "records.h", "siphash.h")


def fingerprint(folder: str | Path) -> str:
    """A hash of the files; it guards against a forgotten build, not against an attack."""
    texts = [Path(folder, name).read_bytes() for name in (*SOURCES, *HEADERS)]
    return source_hash(b"\0".join(texts)).hex()
