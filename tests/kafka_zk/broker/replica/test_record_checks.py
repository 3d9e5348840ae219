"""Every batch is checked as long as the checks take at most their share of the time."""

import pytest

from kafka_zk.broker.replica import record_checks
from kafka_zk.broker.replica.record_checks import MAX_CREDIT_S, SHARE, RecordChecks
from kafka_zk.native.loading import Native
from kafka_zk.storage.files.errors import InvalidRecord
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.records import record_check
from kafka_zk.storage.records.log_validator import check_at_once
from kafka_zk.storage.records.record_batch import BatchHeader, read_header, set_crc
from tests.storage.helpers import T0, batch

COST_S = 0.01


class World:
    """A clock, and checks that take COST_S."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(record_check, "_native", None)
        self.now_s = 100.0
        self.checked = 0
        self.checks = RecordChecks(lambda: self.now_s)
        monkeypatch.setattr(record_checks, "check_at_once", self._check)

    def _check(self, batch: bytearray, header: BatchHeader, config: LogConfig) -> int:
        self.now_s += COST_S
        self.checked += 1
        return check_at_once(batch, header, config)

    def check(self, data: bytearray) -> int:
        return self.checks.check(data, read_header(data), LogConfig())

    def exhaust(self) -> None:
        while not self.checks.unchecked_count:
            self.check(batch())
        self.checked = self.checks.unchecked_count = 0


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def malformed() -> bytearray:
    data = batch(2)
    data[61] = 0x7F
    set_crc(data)
    return data


def test_every_batch_is_checked_while_time_is_left(world: World) -> None:
    for _ in range(1000):
        world.now_s += COST_S / SHARE
        world.check(batch())
    assert (world.checked, world.checks.unchecked_count) == (1000, 0)
    with pytest.raises(InvalidRecord):
        world.check(malformed())


def test_under_load_checks_take_their_share_of_the_time(world: World) -> None:
    """Batches of 1 ms each arrive as fast as they are appended."""
    world.exhaust()
    begin_s = world.now_s
    for _ in range(10_000):
        world.now_s += COST_S / 10
        world.check(batch())
    share = world.checked * COST_S / (world.now_s - begin_s)
    assert SHARE * 0.9 < share <= SHARE
    assert world.checked + world.checks.unchecked_count == 10_000


def test_a_check_that_fails_counts(world: World) -> None:
    for _ in range(round(MAX_CREDIT_S / COST_S) + 2):
        try:
            world.check(malformed())
        except InvalidRecord:
            continue
    assert world.checks.unchecked_count


def test_a_check_elsewhere_counts_but_not_the_start_of_its_process(world: World) -> None:
    world.checks.spend(30.0)
    world.check(batch())
    assert world.checked == 1
    for _ in range(20):
        world.checks.spend(30.0)
    world.check(batch())
    assert world.checks.unchecked_count == 1


def test_credit_is_bounded(world: World) -> None:
    """A night without producers must not earn a whole day of unlimited checks."""
    world.now_s += 100_000
    for _ in range(1000):
        world.check(batch())
    assert world.checked * COST_S <= MAX_CREDIT_S * (1 + 2 * SHARE)


@pytest.mark.parametrize(
    ("position", "content"),
    [
        (35, (-1).to_bytes(8, "big", signed=True)),  # max_timestamp
        (27, (-7).to_bytes(8, "big", signed=True) + (T0).to_bytes(8, "big")),  # base_timestamp, max_timestamp
        (57, (2**31 - 1).to_bytes(4, "big")),  # record_count
    ],
)
def test_a_header_that_contradicts_itself_is_always_checked(world: World, position: int, content: bytes) -> None:
    world.exhaust()
    data = batch(2)
    data[position : position + len(content)] = content
    set_crc(data)
    try:
        world.check(data)
    except Exception as refused:
        assert position == 57, refused
    assert (world.checked, world.checks.unchecked_count) == (1, 0)


def test_what_the_native_module_checks_is_always_checked(
    world: World, native: Native, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.exhaust()
    monkeypatch.setattr(record_check, "_native", native)
    for _ in range(100):
        world.check(batch())
    assert (world.checked, world.checks.unchecked_count) == (100, 0)
    with pytest.raises(InvalidRecord):
        world.check(malformed())
