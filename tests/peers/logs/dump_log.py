"""The output of kafka.tools.DumpLogSegments of 3.9.1 for the files of a partition."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.peers import jars, java

_MAIN_CLASS = "kafka.tools.DumpLogSegments"
_SUFFIXES = (".log", ".index", ".timeindex", ".snapshot", ".txnindex")
_BATCH = re.compile(r"^baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .* position: (\d+) .* isvalid: (\w+)")
_RECORD = re.compile(r"^\| offset: (\d+) ")
_INDEX_ENTRY = re.compile(r"^offset: (\d+) position: (\d+)")
_TIME_INDEX_ENTRY = re.compile(r"^timestamp: (\d+) offset: (\d+)")
_PRODUCER = re.compile(r"^producerId: (\d+) ")


@dataclass
class Dump:
    """Everything that the tool read, and its complaints (its stderr: mismatches, gaps, unsearchable entries)."""

    complaints: str
    valid_batches: int = 0
    invalid_batches: int = 0
    record_offsets: list[int] = field(default_factory=list)
    index_entries: int = 0
    time_index_entries: int = 0
    producers: int = 0


def files(partition_dir: Path) -> list[Path]:
    """The segment files of a partition folder in offset order."""
    return sorted(path for path in partition_dir.iterdir() if path.suffix in _SUFFIXES)


def dump(paths: Sequence[Path], *options: str) -> Dump:
    """Run DumpLogSegments --deep-iteration over some files. Raises: JavaFailed if it ends with an error."""
    names = ",".join(map(str, paths))
    run = java.run_tool(jars.ORACLE_VERSION, _MAIN_CLASS, ["--deep-iteration", *options, "--files", names])
    found = Dump(complaints=run.stderr)
    for line in run.text.splitlines():
        if batch := _BATCH.match(line):
            valid = batch.group(5) == "true"
            found.valid_batches += valid
            found.invalid_batches += not valid
        elif record := _RECORD.match(line):
            found.record_offsets.append(int(record.group(1)))
        elif _INDEX_ENTRY.match(line):
            found.index_entries += 1
        elif _TIME_INDEX_ENTRY.match(line):
            found.time_index_entries += 1
        elif _PRODUCER.match(line):
            found.producers += 1
    return found
