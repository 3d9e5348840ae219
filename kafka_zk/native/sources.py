"""The native module's source files and their fingerprint. The built module contains its fingerprint, and is rejected if
the two fingerprints differ.

setup.py runs this file before kafka_zk can be imported, so it imports nothing of the project.
Tests: tests/kafka_zk/native/test_loading.py.
"""

import zlib
from pathlib import Path

SOURCES = ("compaction.c", "module.c", "plain_commit.c", "plain_commit_module.c", "produce.c", "record_check.c")
HEADERS = (
    "compaction.h", "plain_commit.h", "plain_commit_module.h", "produce.h", "record_check.h", "records.h", "siphash.h",
    "wire.h",
)  # fmt: skip


def fingerprint(folder: str | Path) -> str:
    """A hash of the files, the same on every Python; it guards against a forgotten build, not against an attack."""
    text = b"\0".join(Path(folder, name).read_bytes() for name in (*SOURCES, *HEADERS))
    return f"{zlib.crc32(text):08x}{zlib.adler32(text):08x}"
