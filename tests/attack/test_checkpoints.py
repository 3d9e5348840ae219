"""C: hostile checkpoints and snapshots: written records are served, and the log reports what was dropped."""

import random
from pathlib import Path

import pytest

from tests.attack import payloads
from tests.attack.cluster import EARLIEST, Victim, wait_for
from tests.attack.siege import Siege

pytestmark = [pytest.mark.attack, pytest.mark.embedded]

VALUES = [b"record %d" % number for number in range(100)]
PRODUCER = (4711, 0, 0)
BEYOND_THE_END = 1000


def _written(victim: Victim, topic: str) -> bytes:
    """The batch of the topic."""
    written = payloads.batch(*VALUES, producer=PRODUCER)
    victim.produce(victim.create_topic(topic), written)
    return written


def _served(victim: Victim, topic: str) -> list[bytes | None]:
    records = wait_for(lambda: victim.records(topic), f"topic {topic} is served")
    return list(records.values())


def _must_warn(victim: Victim, *names: str) -> None:
    silent = [name for name in names if not victim.logged(name.replace(".", r"\."))]
    assert not silent, f"no WARN names {', '.join(silent)}"


def test_a_log_start_beyond_the_log_end(siege: Siege) -> None:
    """The log starts there, because otherwise offsets would be reused; its old segments are moved aside, not deleted.
    """
    victim = siege.victim
    _written(victim, "emptied")

    def spoil() -> None:
        checkpoint = victim.log_dir / "log-start-offset-checkpoint"
        checkpoint.write_text(f"0\n1\nemptied 0 {BEYOND_THE_END}\n")

    def attack() -> None:
        victim.restart(spoil)
        wait_for(lambda: victim.is_led("emptied"), "the topic is led")
        start = victim.offset("emptied", EARLIEST)
        assert start == BEYOND_THE_END, f"the log starts at {start} and not at {BEYOND_THE_END}"
        offset = victim.produce("emptied", payloads.batch(b"new"))
        assert offset == BEYOND_THE_END, f"the next record has offset {offset}"
        kept = [path for path in victim.log_dir.rglob("*") if path.is_file() and VALUES[-1] in path.read_bytes()]
        assert kept, "the old segments were deleted"
        _must_warn(victim, "emptied-0")

    siege("C log start beyond the end", attack, waits=False)


def test_random_bytes_in_every_checkpoint(siege: Siege) -> None:
    victim = siege.victim
    _written(victim, "kept")
    rnd = random.Random(13)
    spoilt: list[Path] = []

    def spoil() -> None:
        spoilt.extend(victim.log_dir.glob("*-checkpoint"))
        spoilt.extend((victim.log_dir / "kept-0").glob("*-checkpoint"))
        for path in spoilt:
            path.write_bytes(rnd.randbytes(200))

    def attack() -> None:
        victim.restart(spoil)
        assert len(spoilt) >= 3
        assert _served(victim, "kept") == VALUES, "records are lost"
        _must_warn(victim, *(path.name for path in spoilt))

    siege("C random bytes in checkpoints", attack, waits=False)


def test_a_bit_of_a_snapshot_is_flipped(siege: Siege) -> None:
    """The producer's state is rebuilt, so a repeated batch is still recognized."""
    victim = siege.victim
    written = _written(victim, "kept")
    spoilt: list[Path] = []

    def spoil() -> None:
        spoilt.extend((victim.log_dir / "kept-0").glob("*.snapshot"))
        for path in spoilt:
            data = bytearray(path.read_bytes())
            data[-1] ^= 1
            path.write_bytes(data)

    def attack() -> None:
        victim.restart(spoil)
        assert spoilt
        assert _served(victim, "kept") == VALUES, "records are lost"
        victim.produce("kept", written)
        assert _served(victim, "kept") == VALUES, "a repeated batch was written twice"
        _must_warn(victim, *(path.name for path in spoilt))

    siege("C a flipped snapshot", attack, waits=False)
