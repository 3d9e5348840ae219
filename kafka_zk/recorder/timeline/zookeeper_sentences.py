"""The sentences for events of ZooKeeper's own health. Pure."""

from kafka_zk.recorder.timeline.names import duration
from kafka_zk.recorder.zookeeper_health.answers import ANSWERS, NO_ANSWER, NO_QUORUM, SERVES
from kafka_zk.recorder.zookeeper_health.events import (
    EnsembleStateChanged,
    LeaderChanged,
    ServerSlowed,
    ServerStateChanged,
)

CONSEQUENCE = "brokers keep their state, no election can happen"
_DOWN = {NO_ANSWER: "does not answer", NO_QUORUM: "does not serve"}
_UP = {
    "leader": "leads", "follower": "follows the leader", "observer": "observes", "standalone": "serves alone",
    "read-only": "serves only reads", SERVES: "serves", ANSWERS: "answers, but does not reveal its mode",
}  # fmt: skip


def server_text(event: ServerStateChanged) -> str:
    if event.state in _DOWN:
        return f"{_DOWN[event.state]}: {event.cause}"
    now = _UP.get(event.state, event.state)
    if event.previous in _DOWN:
        return f"{now} again, after {duration(event.lasted_ms)}"
    return f"{now}; before, it was {event.previous}" if event.previous else now


def ensemble_text(event: EnsembleStateChanged) -> str:
    if event.state in _DOWN:
        return f"{_DOWN[event.state]} ({event.cause}); {CONSEQUENCE}"
    now, unknown = ("answers", "; it is not known whether it serves") if event.state == ANSWERS else (SERVES, "")
    again = f" again, after {duration(event.lasted_ms)}" if event.previous in _DOWN else ""
    return f"{now}{again}{unknown}"


def slow_text(event: ServerSlowed) -> str:
    return f"is slow: {event.cause}" if event.slow else "is no longer slow"


def leader_text(event: LeaderChanged) -> str:
    epoch = f" in epoch {event.epoch}" if event.epoch >= 0 else ""
    return f"is led by {event.leader}{epoch}; before, by {event.previous}"


def is_bad(event: ServerStateChanged | EnsembleStateChanged) -> bool:
    return event.state in _DOWN
