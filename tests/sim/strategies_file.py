"""Writes the file with the page's comparison of strategies: ``python -m tests.sim.strategies_file``."""

import json
from importlib import resources
from typing import Any

from twisted.logger import globalLogBeginner

from kafka_zk.recorder.web.strategies import FILE
from kafka_zk.sim.strategies.comparison import rows
from kafka_zk.sim.strategies.play import CHANGES, Change
from kafka_zk.sim.strategies.told import document, frame


def computed(change: Change) -> dict[str, Any]:
    """The comparison in the form in which it is read from the file."""
    found: dict[str, Any] = json.loads(json.dumps(document(change, list(rows(change)))))
    return found


def written(changes: list[dict[str, Any]]) -> str:
    """The file's content, with a line for each run, so that differences are short."""
    text = json.dumps({**frame(), "changes": changes}, separators=(",", ":"))
    return text.replace('{"strategy"', '\n{"strategy"').replace('{"name"', '\n{"name"') + "\n"


if __name__ == "__main__":
    globalLogBeginner.beginLoggingTo([], discardBuffer=True, redirectStandardIO=False)
    target = resources.files("kafka_zk.recorder.web").joinpath(FILE)
    with resources.as_file(target) as path:
        path.write_text(written([computed(change) for change in CHANGES.values()]))
