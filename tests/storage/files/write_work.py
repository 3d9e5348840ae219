"""A work item that writes a file, for a helper."""

from pathlib import Path
from typing import NamedTuple


class WriteWork(NamedTuple):
    path: Path
    size_bytes: int

    def run(self, report: object) -> int:
        return self.path.write_bytes(bytes(self.size_bytes))
