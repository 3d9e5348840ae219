"""When a signal becomes a KeyboardInterrupt."""

import signal

import pytest

from kafka_zk.embedded import interrupts
from kafka_zk.embedded.interrupts import PATIENCE_S, held, interrupt


@pytest.fixture
def now_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock's current value: the last element."""
    times = [100.0]
    monkeypatch.setattr("kafka_zk.embedded.interrupts.monotonic_s", lambda: times[-1])
    interrupts.begin()
    return times


def test_the_first_signal_interrupts_and_those_soon_after_it_are_the_same_request(now_s: list[float]) -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupt(signal.SIGINT, None)
    now_s.append(100 + PATIENCE_S)
    interrupt(signal.SIGTERM, None)
    now_s.append(100.1 + PATIENCE_S)
    with pytest.raises(KeyboardInterrupt):
        interrupt(signal.SIGINT, None)
    interrupt(signal.SIGINT, None)


def test_an_interrupt_waits_for_the_end_of_what_is_held(now_s: list[float]) -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), held():
        with held():
            interrupt(signal.SIGINT, None)
        done.append("made, and known of")
    assert done


def test_what_fails_while_it_is_held_is_told_rather_than_the_interrupt(now_s: list[float]) -> None:
    with pytest.raises(ValueError, match="disk"), held():
        interrupt(signal.SIGINT, None)
        raise ValueError("the disk is full")
    with pytest.raises(KeyboardInterrupt), held():
        pass
