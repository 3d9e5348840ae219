"""Bytes cut or flipped at or after the recovery point: earlier records are served unchanged, later ones are not, and
the report names what was dropped. This tests the storage hundreds of times; ``test_damage_served`` tests a broker.
"""

import os
import random
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.manager.dump import dump_file
from kafka_zk.storage.records.record_batch import iter_batches
from tests.soak.logs import RandomLogs, check_prefix, small_segments
from tests.storage.helpers import read_values

TP = TopicPartition("damaged", 0)
UNPROTECTED = {*range(8), *range(12, 16)}
"""Positions of base offset and leader epoch in a batch: no CRC covers them, so a flip there is not always visible."""


class Place(NamedTuple):
    """A batch on disk."""

    path: str
    position: int
    size_bytes: int
    base_offset: int


def batches_of(log: Log) -> list[Place]:
    """All batches of a log, in order."""
    return [
        Place(segment.path, position, header.size_bytes, header.base_offset)
        for segment in log.segments
        for position, header in iter_batches(Path(segment.path).read_bytes())
    ]


def do_damage(rng: random.Random, place: Place) -> None:
    """Cut the file within the batch, or flip bits that its CRC protects."""
    if rng.random() < 0.5:
        os.truncate(place.path, place.position + rng.randrange(1, place.size_bytes))
        return
    flip(rng, place)


def flip(rng: random.Random, place: Place, guarded: Collection[int] = UNPROTECTED) -> None:
    """Flip bits, except at the guarded positions."""
    with open(place.path, "r+b") as file:
        for _ in range(rng.choice((1, 1, 20))):
            at = place.position + rng.choice([at for at in range(place.size_bytes) if at not in guarded])
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes((byte ^ rng.randrange(1, 256),)))


def test_damage_after_the_recovery_point_ends_the_log_right_there(tmp_path: Path, campaign_seed: int) -> None:
    """The log continues there, after this start and the next."""
    rng = random.Random(campaign_seed)
    logs = RandomLogs(tmp_path, rng, small_segments(rng))
    logs.manager.start({})
    log = logs.manager.get_or_create(TP)
    for _ in range(rng.randint(0, 40)):
        logs.append(log)
    log.flush()
    logs.manager.upkeep.checkpoint()
    recovery_point = log.recovery_point
    for _ in range(rng.randint(1, 40)):
        logs.append(log)
    loose = [place for place in batches_of(log) if place.base_offset >= recovery_point]
    logs.crash()
    first = rng.randrange(len(loose))
    size_bytes = sum(os.path.getsize(path) for path in tmp_path.glob("damaged-0/*.log"))
    do_damage(rng, loose[first])
    elsewhere = [place for place in loose[first + 1 :] if place.path != loose[first].path]
    if elsewhere:
        do_damage(rng, rng.choice(elsewhere))
    left_bytes = sum(os.path.getsize(path) for path in tmp_path.glob("damaged-0/*.log"))
    kept_bytes = size_bytes - sum(place.size_bytes for place in loose[first:])

    again = RandomLogs(tmp_path, rng, logs.config, helper_count=0)
    again.appended = logs.appended
    report = again.manager.start({})
    (dropped,) = report.dropped or (None,)
    log = again.log(TP)
    end_offset = check_prefix(log, logs.appended[TP], recovery_point)
    assert end_offset == loose[first].base_offset
    assert log.size_bytes == kept_bytes
    if dropped is None:
        assert left_bytes == kept_bytes, "a cut at a boundary leaves nothing to drop"
    else:
        assert dropped.bytes_dropped == left_bytes - kept_bytes
        assert (dropped.path, dropped.position) == (loose[first].path, loose[first].position)
        assert dropped.log_end_offset == end_offset

    again.appended[TP] = [each for each in logs.appended[TP] if each[0] < end_offset]
    for _ in range(5):
        again.append(log)
    again.manager.shutdown()
    last = RandomLogs(tmp_path, rng, logs.config)
    assert not last.manager.start({}).dropped
    log = last.log(TP)
    assert read_values(log) == again.appended[TP]
    last.manager.shutdown()


def test_a_flip_before_the_recovery_point_is_not_the_starts_to_cut(tmp_path: Path, campaign_seed: int) -> None:
    """The batch may be the only copy of fsynced records, so the log keeps its bytes and its end; dump-log finds the
    flip."""
    rng = random.Random(campaign_seed)
    logs = RandomLogs(tmp_path, rng, small_segments(rng))
    logs.manager.start({})
    log = logs.manager.get_or_create(TP)
    for _ in range(rng.randint(2, 40)):
        logs.append(log)
    log.flush()
    logs.manager.upkeep.checkpoint()
    durable = batches_of(log)
    for _ in range(rng.randint(0, 10)):
        logs.append(log)
    end_offset = log.log_end_offset
    crashes = rng.random() < 0.5
    logs.crash() if crashes else logs.manager.shutdown()
    victim = rng.choice(durable)
    flip(rng, victim)
    before = contents(tmp_path)

    again = RandomLogs(tmp_path, rng, logs.config)
    assert not again.manager.start({}).dropped
    found = again.manager.get(TP)
    assert found is not None
    assert (found.log_start_offset, found.log_end_offset) == (0, end_offset)
    assert contents(tmp_path).items() >= before.items()
    assert any("problem" in row for row in dump_file(Path(victim.path), verify=True))
    again.append(found)
    assert again.appended[TP][0][0] == end_offset
    newest = [each for each in read_values(found, end_offset)]
    assert newest == again.appended[TP]
    again.manager.shutdown()


def contents(path: Path) -> dict[str, bytes]:
    """The contents of all segment files."""
    return {str(each): each.read_bytes() for each in path.glob("damaged-0/*.log")}
