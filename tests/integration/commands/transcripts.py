"""The output of commands, compared with the files in tests/scenarios after everything that differs from run to run is
replaced.

``pytest`` with the environment variable ``KAFKA_ZK_REWRITE_SCENARIOS=1`` rewrites the files; commit only intended
changes.
"""

import os
import re
from difflib import unified_diff
from pathlib import Path

from tests.integration.processes import ROOT

SCENARIOS = ROOT / "tests" / "scenarios" / "rebalances"
_REPLACED = (
    (re.compile(r"\x1b\[[0-9;?]*[A-Za-z]"), ""),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "HH:MM:SS"),
    (re.compile(r"127\.0\.0\.1:\d+"), "HOST:PORT"),
    (re.compile(r"silent (at most )?\d+ ms"), "silent N ms"),
    (re.compile(r"\d+ requests?"), "N requests"),
    (re.compile(r"\d[\d,]* ms\b"), "N ms"),
)


def normalized(text: str, *more: tuple[str, str]) -> str:
    """The output, with times, ports, counts of requests and matches of the patterns in ``more`` each replaced by a
    placeholder.
    """
    for pattern, replacement in (*_REPLACED, *((re.compile(each, re.MULTILINE), with_) for each, with_ in more)):
        text = pattern.sub(replacement, text)
    return "\n".join(line.rstrip() for line in text.splitlines()).strip() + "\n"


def compare(name: str, text: str) -> None:
    """Check that the normalized text is that of ``tests/scenarios/rebalances/NAME.txt``."""
    path: Path = SCENARIOS / f"{name}.txt"
    if os.environ.get("KAFKA_ZK_REWRITE_SCENARIOS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    difference = list(unified_diff(path.read_text().splitlines(), text.splitlines(), str(path), "now", lineterm=""))
    assert not difference, "\n".join(difference)
