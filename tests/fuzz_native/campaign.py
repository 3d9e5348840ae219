"""Builds the harness, feeds it with a corpus, and says what ran."""

import re
import shutil
import struct
import subprocess
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from kafka_zk.native.sources import SOURCES
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.produce import PartitionData, ProduceRequest, TopicData, write_produce_request
from kafka_zk.storage.records.record_batch import encode_record
from tests.integration.processes import ROOT

NATIVE = ROOT / "kafka_zk" / "native"
HARNESS = ROOT / "tests" / "fuzz_native" / "harness.c"
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
COMPILER = "cc"
ENDLESS_S = 60
"""A search of the map without an end would take longer."""
KEYS = (None, b"", b"a", b"b", b"key-000000000001", b"k" * 200)
VALUES = (None, b"", b"value" * 30)
DELTAS = (0, 1, 127, 1 << 20, (1 << 31) - 1, 1 << 31, -1, -(1 << 31))
_COVERED = re.compile(r"File '[^']*?([^/']+)'\nLines executed:([\d.]+)% of")


def corpus() -> Iterator[tuple[int, bytes]]:
    """The corpus: (number of records, their bytes), each kind alone and many together, and (version, OffsetCommit)."""
    kinds = [
        encode_record(timestamp_delta, delta, key, value, headers)
        for timestamp_delta in (0, -(1 << 63), (1 << 63) - 1)
        for delta in DELTAS
        for key in KEYS
        for value in VALUES
        for headers in ((), [("header", b"x")])
    ]
    yield from ((1, kind) for kind in kinds)
    yield from ((0, request) for request in requests())
    for count in (0, 2, 7, 50):
        yield count, b"".join(encode_record(delta, delta, KEYS[delta % 6], VALUES[delta % 3]) for delta in range(count))
    yield from commits()


def commits() -> Iterator[tuple[int, bytes]]:
    """(Version, OffsetCommit request): plain requests and others."""
    commit = codec.request(ApiKey.OFFSET_COMMIT)
    topic = commit.OffsetCommitRequestTopic
    row = topic.OffsetCommitRequestPartition
    for version, count in product(range(5, 10), (0, 1, 70, 100, 101)):
        for group_id, instance_id, metadata in (("g", None, ""), ("g" * 200, "i", None), ("é", "i", "m")):
            rows = [row(partition_index=each, committed_offset=7, committed_metadata=metadata) for each in range(count)]
            request = commit(
                group_id=group_id, member_id="", group_instance_id=instance_id,
                topics=[topic(name="t" * 100, partitions=rows)] * (2 if count == 1 else 1),
            )  # fmt: skip
            yield version, bytes(codec.encode_body(request, ApiKey.OFFSET_COMMIT, version))


def requests() -> Iterator[bytes]:
    """Bodies of Produce requests. They do not contain a version, so the harness may read each one as any version."""
    for version in (3, 9):
        for transactional_id in (None, "an-id"):
            for names in (("t",), ("a", "b" * 200)):
                topics = [TopicData(name, [PartitionData(number, b"records") for number in range(2)]) for name in names]
                request = ProduceRequest(transactional_id, -1, 30_000, topics)
                yield b"".join(bytes(part) for part in write_produce_request(version, request))


def fuzz(folder: Path, seconds: int, seed: int) -> tuple[int, int]:
    """(Inputs, accepted ones). Raises: CalledProcessError with what a sanitizer says."""
    done = _run(_build(folder / "sanitized", "-g", "-O1", *SANITIZERS), folder, seconds, seed)
    runs, accepted = map(int, done.split())
    return runs, accepted


def covered_percent(folder: Path, seed: int) -> dict[str, float]:
    """How much of the C files a run of a second reaches."""
    (folder / "covered").mkdir()
    _run(_build(folder / "covered" / "harness", "-O0", "--coverage"), folder, 1, seed)
    notes = sorted(map(str, (folder / "covered").glob("*.gcda")))
    shown = subprocess.run(["gcov", "-n", *notes], cwd=folder, capture_output=True, text=True, check=True).stdout
    found = {file: float(percent) for file, percent in _COVERED.findall(shown)}
    return {file: percent for file, percent in found.items() if (NATIVE / file).exists()}


def can_build() -> bool:
    return shutil.which(COMPILER) is not None and shutil.which("gcov") is not None


def _build(program: Path, *options: str) -> Path:
    sources = [str(NATIVE / name) for name in SOURCES if not name.endswith("module.c")] + [str(HARNESS)]
    command = [COMPILER, "-std=c11", "-Wall", "-Wextra", f"-I{NATIVE}", *options, *sources, "-o", str(program)]
    subprocess.run(command, cwd=program.parent, check=True)
    return program


def _run(program: Path, folder: Path, seconds: int, seed: int) -> str:
    cases = folder / "corpus"
    cases.write_bytes(b"".join(struct.pack("=Ii", len(data), count) + data for count, data in corpus()))
    command = [str(program), str(cases), str(seconds), str(seed)]
    timeout_s = seconds + ENDLESS_S
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=timeout_s).stdout
