"""What a stand-in asks its controller, and when."""

from uuid import UUID

from kafka_zk.migration.rehearsal.stand_in import (
    BEAT_EVERY_MS,
    RETRY_MS,
    Beat,
    Beaten,
    Effect,
    Register,
    Registered,
    StandIn,
    Started,
    State,
    Stopping,
    TimePassed,
    Unanswered,
)
from kafka_zk.protocol.errors import ErrorCode

FIRST, SECOND = UUID(int=1), UUID(int=2)
ALL = 2**62


def beats(effects: list[Effect]) -> list[tuple[int, bool]]:
    """The epoch of each heartbeat, and whether it asks to be fenced."""
    found = []
    for effect in effects:
        assert isinstance(effect, Beat) and effect.broker_id == 1 and effect.metadata_offset == ALL
        found.append((effect.epoch, effect.wants_fence))
    return found


def active(now_ms: int = 0) -> StandIn:
    broker = StandIn(1)
    assert broker.step(Started(True, FIRST), now_ms) == [Register(1, True, FIRST)]
    assert beats(broker.step(Registered(0, 7), now_ms)) == [(7, False)]
    assert broker.step(Beaten(0, False), now_ms) == []
    assert state_of(broker) is State.ACTIVE
    return broker


def state_of(broker: StandIn) -> State:
    return broker.state


def test_it_registers_and_sends_heartbeats() -> None:
    broker = active()
    assert broker.step(TimePassed(), BEAT_EVERY_MS - 1) == []
    assert beats(broker.step(TimePassed(), BEAT_EVERY_MS)) == [(7, False)]
    assert broker.step(TimePassed(), BEAT_EVERY_MS * 9) == [], "one request at a time"


def test_it_does_nothing_before_its_start() -> None:
    assert StandIn(1).step(TimePassed(), 1_000) == []


def test_a_refused_registration_is_tried_again() -> None:
    broker = StandIn(1)
    broker.step(Started(True, FIRST), 0)
    assert broker.step(Registered(int(ErrorCode.UNSUPPORTED_VERSION), -1), 0) == []
    assert (broker.state, broker.error) == (State.REGISTERING, "UNSUPPORTED_VERSION")
    assert broker.step(TimePassed(), RETRY_MS) == [Register(1, True, FIRST)]
    assert broker.step(Unanswered(), RETRY_MS) == [] and broker.error == "no response"
    assert broker.step(TimePassed(), 2 * RETRY_MS) == [Register(1, True, FIRST)]
    broker.step(Registered(12345, -1), 2 * RETRY_MS)
    assert broker.error == "error 12345"


def test_a_fenced_one_asks_again_soon() -> None:
    broker = active()
    broker.step(TimePassed(), BEAT_EVERY_MS)
    assert broker.step(Beaten(0, True), BEAT_EVERY_MS) == [] and state_of(broker) is State.FENCED
    assert beats(broker.step(TimePassed(), BEAT_EVERY_MS + RETRY_MS)) == [(7, False)]


def test_it_stops_when_it_is_fenced_and_starts_as_another_incarnation() -> None:
    broker = active()
    assert beats(broker.step(Stopping(), 10)) == [(7, True)]
    assert broker.step(Beaten(0, False), 20) == [] and state_of(broker) is State.LEAVING
    assert beats(broker.step(TimePassed(), 20 + BEAT_EVERY_MS)) == [(7, True)]
    assert broker.step(Beaten(0, True), 3_000) == [] and state_of(broker) is State.STOPPED
    assert broker.step(TimePassed(), 9_000) == []
    assert broker.step(Started(False, SECOND), 9_000) == [Register(1, False, SECOND)]


def test_a_heartbeat_of_the_last_life_changes_nothing() -> None:
    broker = active()
    assert beats(broker.step(TimePassed(), BEAT_EVERY_MS)) == [(7, False)]
    assert broker.step(Started(False, SECOND), BEAT_EVERY_MS) == []
    assert broker.step(Beaten(0, False), BEAT_EVERY_MS) == [] and state_of(broker) is State.REGISTERING


def test_an_error_of_a_heartbeat_keeps_the_state() -> None:
    broker = active()
    broker.step(TimePassed(), BEAT_EVERY_MS)
    broker.step(Beaten(int(ErrorCode.STALE_BROKER_EPOCH), False), BEAT_EVERY_MS)
    assert (broker.state, broker.error) == (State.ACTIVE, "STALE_BROKER_EPOCH")


def test_confirmed_heartbeats_are_counted() -> None:
    broker = active()
    before = broker.heartbeats
    for answer in (Unanswered(), Beaten(int(ErrorCode.NOT_CONTROLLER), False), Beaten(0, True), Beaten(0, False)):
        broker.step(answer, BEAT_EVERY_MS)
    assert broker.heartbeats == before + 2
