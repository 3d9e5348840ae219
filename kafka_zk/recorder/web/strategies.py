"""Assignment strategies side by side: what the page shows of the simulator's runs.

``strategies.json`` has what ``kafka_zk.sim.strategies`` computed; ``tests/sim/test_strategies.py`` computes it again
and compares. The page's process cannot compute it, because a simulated world replaces the files of its process.
"""

import json
from functools import cache
from importlib import resources

from kafka_zk.recorder.recording.documents import Document

FILE = "strategies.json"


@cache
def strategies() -> Document:
    """``changes``: a comparison for each change. All other fields are common to all changes."""
    document: Document = json.loads(resources.files("kafka_zk.recorder.web").joinpath(FILE).read_text(encoding="utf-8"))
    return document
