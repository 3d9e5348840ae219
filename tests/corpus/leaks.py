"""Does the native module leak memory? `python -m tests.corpus.leaks --requests 1000000` calls it with the Produce and
OffsetCommit requests of the corpus, whole, cut off and damaged, and exits with code 1 if memory grows.
"""

import argparse
import gc
import sys
from collections import Counter
from collections.abc import Callable
from itertools import cycle, islice
from random import Random
from typing import Any

from kafka_zk.broker.group.records import OffsetAndMetadata
from kafka_zk.native.loading import REQUIRE, Native, chosen
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.produce import PartitionResult
from kafka_zk.storage.cleaner.offset_map import ENTRY_SIZE
from kafka_zk.storage.records.record_batch import HEADER_SIZE
from tests.corpus.requests import Corpus, header_of, read
from tests.kafka_zk.native.test_c_code import resident_bytes

GROWTH_BYTES_AT_MOST = 1_000_000
"""A million requests that leak one object each leak at least 16 MB."""
_NOW_MS = 1 << 40
_SLOTS, _SECRET_BYTES = 101, 16


class Calls:
    """Calls for the requests of a corpus; ``outcomes``: how many calls of each function ended in which way."""

    def __init__(self, native: Native, corpus: Corpus, seed: int = 0) -> None:
        self._native = native
        self._random = Random(seed)
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self._secret = bytes(_SECRET_BYTES)
        self._replaced = bytearray(8)
        parsed = [header_of(request.frame) for request in corpus.requests]
        wanted = (ApiKey.PRODUCE, ApiKey.OFFSET_COMMIT)
        self._requests = cycle([(header, bytes(body)) for header, body in parsed if header.api_key in wanted])

    def run(self, count: int) -> None:
        """Make the calls for this number of requests: in turn whole, cut off, and with one byte changed."""
        for number, (header, body) in enumerate(islice(self._requests, count)):
            given = self._changed(body, number % 3)
            if header.api_key == ApiKey.PRODUCE:
                self._produce(header.api_version, given)
            else:
                arguments = header.api_version, number, given, _NOW_MS, OffsetAndMetadata
                self._call("plain_commit", self._native.plain_commit, *arguments)

    def _changed(self, body: bytes, change: int) -> memoryview:
        data = bytearray(body)
        if change == 1:
            del data[self._random.randrange(len(data)) :]
        elif change == 2:
            data[self._random.randrange(len(data))] = self._random.randrange(256)
        return memoryview(data)

    def _produce(self, version: int, body: memoryview) -> None:
        request = self._call("read_produce", self._native.read_produce, version, body)
        if request is None:
            return
        results: list[tuple[str, list[object]]] = []
        for topic, partitions in request[3]:
            results.append((topic, [PartitionResult(number) for number, _ in partitions]))
            for _, records in partitions:
                self._records(bytes(records))
        if self._random.randrange(10) == 0:
            results[0][1].append(self._random.choice([None, PartitionResult(0, error_message="a message")]))
        self._call("write_produce", self._native.write_produce, version, 7, results, 0)

    def _records(self, batch: bytes) -> None:
        """``batch`` may be no batch: this tests memory, not results."""
        count = min(int.from_bytes(batch[HEADER_SIZE - 4 : HEADER_SIZE], "big"), 1000)
        table = bytearray(ENTRY_SIZE * _SLOTS)
        key = self._secret[self._random.randrange(10) == 0 :]
        self._call("check_records", self._native.check_records, batch, HEADER_SIZE, count, 0)
        self._call("digest", self._native.digest, key, batch)
        of_map = key, table, 0, _SLOTS - 1, 0, self._replaced
        self._call("note_keys", self._native.note_keys, batch, HEADER_SIZE, count, 0, count, 0, *of_map)
        rest = count, 0, 5, True, key, table, 0, self._replaced
        self._call("choose", self._native.choose, batch, HEADER_SIZE, *rest)

    def _call(self, name: str, function: Callable[..., Any], *arguments: object) -> Any:
        try:
            found = function(*arguments)
        except (TypeError, ValueError):
            self.outcomes[name, "refused"] += 1
            return None
        self.outcomes[name, "left to Python" if found is None else "done"] += 1
        return found


def growth_bytes(calls: Calls, count: int) -> int:
    """How much more memory the process has after ``count`` requests, not counting the first tenth."""
    calls.run(count // 10)
    gc.collect()
    before = resident_bytes()
    calls.run(count - count // 10)
    gc.collect()
    return resident_bytes() - before


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.corpus.leaks", description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000_000)
    options = parser.parse_args()
    native = chosen(REQUIRE).native
    assert native is not None
    calls = Calls(native, read())
    grown = growth_bytes(calls, options.requests)
    for (name, outcome), count in sorted(calls.outcomes.items()):
        print(f"{name:14} {outcome:15} {count:10,}")
    print(f"{options.requests:,} requests, {grown:,} bytes more memory")
    return int(grown > GROWTH_BYTES_AT_MOST)


if __name__ == "__main__":
    sys.exit(main())
