"""The figures of a comparison so far, in a file that a later run continues.

A full comparison takes hours. Therefore, the file is written after each life of a system, and an interrupted run can be
resumed, provided that the machine, the product and the measuring code are the same, so that the figures are comparable.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.bench import machine, report
from tests.bench.compare.judged import verdicts
from tests.bench.compare.life import Figures

MEASURED = (
    "kafka_zk",
    "rebalance",
    "registry",
    "storage",
    "tests/bench/compare",
    "tests/bench/partition_wire.py",
    "tests/peers",
)
"""Folders and files that determine the figures."""


class CannotResume(Exception):
    """The reason why a file cannot be continued, as a sentence."""


class Record:
    """``samples``: the figures of each round so far, by system and number of partitions. For a life that failed, these
    are the figures until the failure, and ``failures`` has the reason.
    """

    def __init__(self, facts: Mapping[str, Any], path: Path | None = None) -> None:
        """An empty record; each addition is written to ``path``, if there is one."""
        self._facts = facts
        self._path = path
        self.samples: dict[str, dict[int, list[Figures]]] = {}
        self.failures: list[dict[str, Any]] = []

    @classmethod
    def resumed(cls, facts: Mapping[str, Any], path: Path) -> Record:
        """The content of the file, or an empty record if there is no file. Raises: CannotResume, OSError."""
        made = cls(facts, path)
        if not path.exists():
            return made
        try:
            found = json.loads(path.read_text())
            samples, failures, before = found["samples"], found["failures"], found["measured"]
        except (ValueError, KeyError, TypeError) as error:
            raise CannotResume(f"{path} is not the record of a comparison: {error!r}") from error
        for what, value in facts["measured"].items():
            if before.get(what) != value:
                raise CannotResume(f"{path} was measured with other {what} ({before.get(what)}; now {value})")
        made._facts = {key: found.get(key, value) for key, value in facts.items()}
        made.samples = {
            name: {int(size): rounds for size, rounds in by_size.items()} for name, by_size in samples.items()
        }
        made.failures = failures
        return made

    def rounds(self, system: str, partitions: int) -> int:
        """The number of rounds."""
        return len(self.samples.get(system, {}).get(partitions, ()))

    def add(self, system: str, partitions: int, figures: Figures, failure: str | None = None) -> None:
        """Add a life. Raises: OSError."""
        self.samples.setdefault(system, {}).setdefault(partitions, []).append(figures)
        if failure is not None:
            failed_round = self.rounds(system, partitions)
            self.failures.append({"system": system, "partitions": partitions, "round": failed_round, "what": failure})
        if self._path is not None:
            report.write_json(self._path, self.as_json())

    def as_json(self) -> dict[str, Any]:
        """All figures of all rounds so far, and the verdicts on the targets."""
        told = [
            {"target": each.target.title, "partitions": each.partitions, "wanted": each.target.wanted,
             "found": each.found, "verdict": each.text}
            for each in verdicts(self.samples)
        ]  # fmt: skip
        return {**self._facts, "samples": self.samples, "failures": self.failures, "targets": told}


def measured(cores: str | None, played: Mapping[int, Sequence[str]]) -> dict[str, Any]:
    """The facts that must be equal for figures to be combined. ``played``: the steps, by number of partitions."""
    described = machine.describe()
    return {
        "product": machine.trees(MEASURED),
        "cores": cores,
        "steps": {str(size): list(steps) for size, steps in played.items()},
        **{key: described[key] for key in ("processor", "usable_cores", "memory_bytes", "python", "java")},
    }


def told(failures: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each failure."""
    return [
        f"{each['system']}, {each['partitions']:,} partitions, round {each['round']}: {each['what']}"
        for each in failures
    ]
