"""B: a broker's memory and its descriptors have a ceiling."""

import contextlib
import socket
import struct
import time
from collections.abc import Callable, Iterator

import pytest

from tests.attack import payloads
from tests.attack.cluster import PROBED_TOPIC, wait_for
from tests.attack.siege import Siege, side_by_side

pytestmark = [pytest.mark.attack, pytest.mark.embedded]

MB = 1_000_000
ANNOUNCED_BYTES = 100 << 20
"""The largest allowed size, and a multiple of a huge page: the kernel may allocate 2 MB for the first byte."""
CLOSED_AFTER_S = (9.0, 16.0)
"""Ten seconds without progress, and the delay of a timer."""
DESCRIPTOR_LIMIT = 128
FLOOD = 400


def test_frames_that_are_cut_when_they_are_nearly_there(siege: Siege) -> None:
    cut = payloads.beginning(ANNOUNCED_BYTES, 95 * MB)

    def attack() -> None:
        for _ in range(10):
            connection = siege.victim.connect()
            connection.send(cut)
            connection.cut()

    siege("B 10 frames cut at 95 of 100 MB", attack)


def test_frames_that_are_announced_and_hardly_begun(siege: Siege) -> None:
    begun = payloads.beginning(ANNOUNCED_BYTES, 1000)

    def attack() -> None:
        connections = [siege.victim.connect() for _ in range(500)]
        for connection in connections:
            connection.send(begun)
        time.sleep(3)  # the connections stay, and their memory must not grow
        for connection in connections:
            connection.close()

    siege("B 500 frames announced", attack)


def test_fetch_sessions_of_partitions_that_are_not_there(siege: Siege) -> None:
    requests = [payloads.fetch_session(topic, 100_000) for topic in ("unknown", PROBED_TOPIC)]

    def attack() -> None:
        for number in range(20):
            siege.victim.connect().ask(requests[number % 2])

    siege("B 20 sessions × 100,000", attack, deadline_s=60)


def test_big_frames_all_at_once(siege: Siege) -> None:
    """The frames exceed the memory limit: each gets a response in the end, or is refused with a log line."""
    big = payloads.produce(PROBED_TOPIC, bytes(50 * MB))

    def attack() -> None:
        side_by_side([lambda: siege.victim.connect().ask(big)] * 20)

    siege("B 20 frames of 50 MB", attack, deadline_s=60)


def test_frames_that_make_no_progress(siege: Siege) -> None:
    """The broker closes connections whose frames stop growing, but not one whose frame grows slowly."""
    victim = siege.victim
    stuck = (payloads.beginning(ANNOUNCED_BYTES, 1000), payloads.beginning(60_000, 50_000), struct.pack(">i", 5000))
    slow = payloads.produce(victim.create_topic("slow"), payloads.batch(bytes(500_000)))

    def stop_in_the_middle(begun: bytes) -> float:
        connection = victim.connect()
        connection.send(begun)
        started_s = time.monotonic()
        connection.answer()
        return time.monotonic() - started_s

    def come_slowly() -> None:
        connection = victim.connect()
        step = len(slow) // 12 + 1
        for position in range(0, len(slow), step):
            assert connection.send(slow[position : position + step]), "a slow frame was closed"
            time.sleep(1)
        assert connection.answer(), "a slow frame was closed"

    def attack() -> None:
        waits = side_by_side([*(lambda begun=begun: stop_in_the_middle(begun) for begun in stuck), come_slowly])
        low, high = CLOSED_AFTER_S
        for wait_s in waits[:-1]:
            assert low < wait_s < high, f"a frame without progress was closed after {wait_s:.1f} s"

    siege("B frames that stand still", attack)


def test_connections_up_to_the_descriptor_limit(make_siege: Callable[..., Siege]) -> None:
    siege = make_siege(descriptor_limit=DESCRIPTOR_LIMIT)
    victim = siege.victim
    earlier = victim.connect()

    def attack() -> None:
        with _flood(victim.port, FLOOD):
            time.sleep(1)
            topic = victim.create_topic("in-the-flood", connection=earlier)
            victim.produce(topic, payloads.batch(b"written in the flood"), earlier)
        wait_for(lambda: victim.is_led(PROBED_TOPIC), "a new client is served after the flood")
        assert victim.records("in-the-flood") == {0: b"written in the flood"}

    siege("B connections, all descriptors", attack)


@contextlib.contextmanager
def _flood(port: int, count: int) -> Iterator[None]:
    """Connections that are opened and send nothing; those that the broker does not accept stay in the kernel."""
    with contextlib.ExitStack() as flood:
        for _ in range(count):
            connection = flood.enter_context(socket.socket())
            connection.setblocking(False)
            connection.connect_ex(("127.0.0.1", port))
        yield
