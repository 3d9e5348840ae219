"""Clean folders one after the other in a process that has loaded only the modules of a broker's helper.

    python -m tests.bench.compaction_child < pickled works
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import time
from collections.abc import Sequence

from kafka_zk.storage.cleaner.cleaner import CleanWork
from kafka_zk.storage.files import helper_process
from tests.bench import measure


def main() -> None:
    """Prints a line of JSON: the CPU time of the start, and the figures of each work."""
    start_s = time.process_time()
    assert callable(helper_process.main)  # a helper imports this module
    works = pickle.load(sys.stdin.buffer)
    print(json.dumps({"start_s": start_s, "works": clean(works)}))


def clean(works: Sequence[CleanWork]) -> list[dict[str, float]]:
    told = []
    for work in works:
        before_s, began_s = time.process_time(), time.monotonic()
        work.run(lambda segment: None)
        elapsed_s, cpu_s = time.monotonic() - began_s, time.process_time() - before_s
        size_bytes = sum(segment.size_bytes for segment in work.segments)
        peak_bytes = measure.memory(os.getpid()).peak_bytes  # getrusage would include the process before exec
        told.append({"size_bytes": size_bytes, "elapsed_s": elapsed_s, "cpu_s": cpu_s, "peak_bytes": peak_bytes})
    return told


if __name__ == "__main__":
    main()
