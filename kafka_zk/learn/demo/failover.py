"""Kills a broker while the demo writes with acks=all, and restarts it."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.context import LeadershipInfo
from kafka_zk.broker.controller.events import ControllerElected, IsrsChanged, LeadersElected
from kafka_zk.embedded import control_socket
from kafka_zk.learn.demo.errors import DemoFailed
from kafka_zk.recorder.timeline.trace_file import TraceFollower

NAMED_COUNT = 3
POLL_S = 0.1


class Failover:
    """Kills a broker that is the controller and leads partitions, and follows the failover in the brokers' traces.

    Args:
        data_dir: the data directory of the cluster.
        tell: called with each fact; a fact from the traces begins with the seconds since the death.
    """

    def __init__(self, data_dir: Path, trace: Path, topic: str, broker_id: int, tell: Callable[[str], None]) -> None:
        self._socket = control_socket.socket_of(data_dir)
        self._follower = TraceFollower(trace, from_start=False)
        self._topic = topic
        self._tell = tell
        self._broker_id = broker_id
        self._isrs: dict[TopicPartition, list[int]] = {}
        self._killed_ms = 0
        self.pid: int | None = None
        """The broker's process id after its restart."""
        self.report: dict[str, Any] = {"broker": broker_id}

    def kill(self) -> None:
        """Raises EmbeddedError."""
        self._killed_ms = int(time.time() * 1000)
        control_socket.ask(self._socket, {"action": "kill", "broker": self._broker_id})
        self._tell(f"broker {self._broker_id}, the controller and a leader, is killed while records are written")

    def poll(self) -> None:
        """Restarts the broker once there are new leaders. Raises EmbeddedError."""
        grown: dict[TopicPartition, LeadershipInfo] = {}
        for traced in self._follower.read():
            event = traced.event
            if not 0 < self._killed_ms <= event.time_ms:
                continue  # the event is from before the death
            match event:
                case ControllerElected():
                    who = f"broker {event.actor.removeprefix('controller-')}"
                    self._fact(event.time_ms, f"its session is over; {who} is the controller, epoch {event.epoch}")
                case LeadersElected() if elected := self._ours(event.leadership):
                    self._fact(event.time_ms, f"new leaders: {_named(elected)}")
                    self.report.setdefault("elected_seconds", self._since(event.time_ms))
                    self._restart()
                case IsrsChanged() if changed := self._ours(event.leadership):
                    grown.update(changed)
        if grown:
            self._fact(int(time.time() * 1000), f"ISRs grow: {_named(list(grown.items()))}")

    def finish(self, replica_count: int, patience_s: float) -> None:
        """Wait until every ISR that shrank is full again. Raises DemoFailed, EmbeddedError."""
        deadline_s = time.monotonic() + patience_s
        while self.pid is None or any(len(isr) < replica_count for isr in self._isrs.values()):
            if time.monotonic() > deadline_s:
                raise DemoFailed(f"{patience_s:g} s after the last record the ISRs were still incomplete: {self._isrs}")
            time.sleep(POLL_S)
            self.poll()
        self.report["whole_seconds"] = self._since(int(time.time() * 1000))

    def _restart(self) -> None:
        if self.pid is None:
            self.pid = control_socket.ask(self._socket, {"action": "restart", "broker": self._broker_id})["pid"]
            self._tell(f"broker {self._broker_id} is started again, pid {self.pid}")

    def _ours(
        self, leadership: Iterable[tuple[TopicPartition, LeadershipInfo]]
    ) -> list[tuple[TopicPartition, LeadershipInfo]]:
        ours = [(tp, info) for tp, info in leadership if tp.topic == self._topic]
        self._isrs.update({tp: list(info.isr) for tp, info in ours})
        return ours

    def _since(self, time_ms: int) -> float:
        return round((time_ms - self._killed_ms) / 1000, 3)

    def _fact(self, time_ms: int, text: str) -> None:
        self._tell(f"{self._since(time_ms):5.1f} s  {text}")


def _named(leadership: list[tuple[TopicPartition, LeadershipInfo]]) -> str:
    named = [
        f"{tp} by broker {info.leader} (epoch {info.leader_epoch}, ISR {','.join(map(str, info.isr))})"
        for tp, info in sorted(leadership)[:NAMED_COUNT]
    ]
    more = len(leadership) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")
