"""Measures a broker's work for groups: joins, commits, heartbeats, and the load of committed offsets."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import islice

from kafka_zk.broker.coordinator.keys import partition_for
from kafka_zk.protocol.api_keys import ApiKey
from tests.bench import measure
from tests.bench.groups.wire import (
    Member,
    await_coordinator,
    begin,
    check_commit,
    commit_body,
    join_stable,
)
from tests.bench.pairs import BrokerLife, Figure, Measured
from tests.bench.partition_wire import Refused, Wire

TOPIC = "bench"
PARTITIONS = 100
OFFSETS_PARTITIONS = 50

#: Settings beyond Kafka's config/server.properties.
OVERRIDES = {"auto.create.topics.enable": "false", "group.min.session.timeout.ms": "1000"}

_BASE = 10  # members of the stable group that others join
_JOINS = {1: 30, 10: 10, 100: 3, 500: 1}  # concurrent joins -> repetitions
LOADS = {"few_keys": (100, 100), "many_keys": (10_000, 1)}
"""The number of groups that commit 100 offsets each, and the number of their commits."""

_CONNECTIONS = 16
_HEARTBEAT_GROUPS = 200
_HEARTBEAT_MEMBERS = 10
_HEARTBEAT_CONNECTIONS = 50
_HEARTBEAT_S = 6

FIGURES = {
    **{
        f"{mode}_{count}_{what}": Figure(f"{count} join a stable group, {mode}{title}", "ms", wanted)
        for mode in ("eager", "cooperative")
        for count in _JOINS
        for what, title, wanted in (("ms", "", "≤ 1"), ("cpu_ms", ", CPU", "≤ 0.6"))
    },
    **{
        f"{key}_{what}": Figure(f"commits, {title}{suffix}", unit, wanted)
        for key, title in (
            ("one", "one partition"),
            ("hundred", "100 partitions a request"),
            ("groups", "one partition, 1,000 groups"),
        )
        for what, suffix, unit, wanted in (("per_s", "", "a second", "≥ 1.2"), ("cpu_us", ", CPU", "us each", "≤ 0.6"))
    },
    "heartbeat_cpu": Figure("2,000 members in 200 groups, a heartbeat a second, CPU", "% of a core", "≤ 0.6", 0.01),
    "few_keys_load_s": Figure("load of 1 million records, 10,000 keys", "s", "≤ 1"),
    "few_keys_start_s": Figure("start of the process until that is loaded", "s", "≤ 1"),
    "many_keys_load_s": Figure("load of 1 million records, as many keys", "s", "≤ 1"),
    "many_keys_start_s": Figure("start of the process until that is loaded too", "s", "≤ 1"),
    "idle_bytes": Figure("memory without groups", "MB", "≤ 1", 1e6),
    "loaded_bytes": Figure("memory with 1 million offsets", "MB", "≤ 1", 1e6),
}


class Groups(BrokerLife):
    """The groups of one broker."""

    def prepare(self) -> Measured:
        """Create the topics, and measure the idle broker."""
        idle_bytes = self._memory_bytes()
        self._target.create_topic(TOPIC, partitions=PARTITIONS)
        self._await_coordinators()
        return {"idle_bytes": idle_bytes}

    def joins(self, number: int) -> Measured:
        """One, ten, a hundred and five hundred members join at the same time."""
        measured: Measured = {}
        for mode in ("eager", "cooperative"):
            for count, times in _JOINS.items():
                seconds, cpu_s = 0.0, 0.0
                for attempt in range(self._count(times)):
                    group = f"{mode}-{count}-{number}-{attempt}"
                    took_s, used_s = self._join(group, self._count(count), cooperative=mode == "cooperative")
                    seconds, cpu_s = seconds + took_s, cpu_s + used_s
                measured[f"{mode}_{count}_ms"] = seconds / self._count(times) * 1000
                measured[f"{mode}_{count}_cpu_ms"] = cpu_s / self._count(times) * 1000
        return measured

    def _join(self, group: str, count: int, *, cooperative: bool) -> tuple[float, float]:
        with ExitStack() as stack:
            old = [Member(wire, group) for wire in self._wires(stack, _BASE)]
            new = [Member(wire, group) for wire in self._wires(stack, count)]
            begin(old)
            cpu_s, begun_s = measure.cpu_seconds(self._pid), time.perf_counter()
            join_stable(old, new, cooperative=cooperative)
            took_s, used_s = time.perf_counter() - begun_s, measure.cpu_seconds(self._pid) - cpu_s
            for member in (*old, *new):
                member.leave()
        return took_s, used_s

    def commits(self, number: int) -> Measured:
        """Sixteen clients commit, one request after the other."""
        everywhere = tuple(range(PARTITIONS))
        groups = [f"groups-{number}-{each}" for each in range(1000)]
        return {
            **self._commit("one", [f"one-{number}-{each}" for each in range(_CONNECTIONS)], (0,), 8_000),
            **self._commit("hundred", [f"hundred-{number}-{each}" for each in range(_CONNECTIONS)], everywhere, 800),
            **self._commit("groups", groups, (0,), 8_000),
        }

    def _commit(self, key: str, groups: Sequence[str], partitions: Sequence[int], count: int) -> Measured:
        rounds = max(1, self._count(count) // _CONNECTIONS)
        bodies = [commit_body(group, TOPIC, partitions, 7) for group in groups]
        with ExitStack() as stack:
            wires = self._wires(stack, _CONNECTIONS)
            cpu_s, begun_s = measure.cpu_seconds(self._pid), time.perf_counter()
            for turn in range(rounds):
                _commit_all(wires, [bodies[(turn * _CONNECTIONS + each) % len(bodies)] for each in range(len(wires))])
            took_s, used_s = time.perf_counter() - begun_s, measure.cpu_seconds(self._pid) - cpu_s
        done = rounds * _CONNECTIONS
        return {f"{key}_per_s": done / took_s, f"{key}_cpu_us": used_s / done * 1e6}

    def heartbeats(self, number: int) -> Measured:
        """Every member sends a heartbeat once a second; each connection carries those of several members."""
        with ExitStack() as stack:
            wires = self._wires(stack, max(_HEARTBEAT_CONNECTIONS, _HEARTBEAT_MEMBERS))
            members: list[Member] = []
            for group in range(self._count(_HEARTBEAT_GROUPS)):
                its = [Member(wire, f"heartbeats-{number}-{group}") for wire in wires[:_HEARTBEAT_MEMBERS]]
                begin(its)
                members += its
            for position, member in enumerate(members):
                member.wire = wires[position % len(wires)]
            cpu_s, begun_s = measure.cpu_seconds(self._pid), time.perf_counter()
            beats = [members[first : first + len(wires)] for first in range(0, len(members), len(wires))]
            for second in range(_HEARTBEAT_S):
                for position, beat in enumerate(beats):
                    time.sleep(max(0.0, begun_s + second + position / len(beats) - time.perf_counter()))
                    _beat_all(beat)
            took_s, used_s = time.perf_counter() - begun_s, measure.cpu_seconds(self._pid) - cpu_s
            for member in members:
                member.leave()
        return {"heartbeat_cpu": used_s / took_s}

    def loads(self, key: str, cores: str | None) -> Measured:
        """Each group commits as LOADS says; then the broker restarts and loads all offsets.

        The load is the time that clients notice: from the broker's first complete Metadata response on.
        """
        groups, times = LOADS[key]
        names = [f"{key}-{number}" for number in range(self._count(groups))]
        with ExitStack() as stack:
            wires = self._wires(stack, _CONNECTIONS)
            for time_ in range(times):
                bodies = (commit_body(name, TOPIC, range(PARTITIONS), time_) for name in names)
                while part := list(islice(bodies, _CONNECTIONS)):
                    _commit_all(wires, part)
        self._target.restart(cores)
        started_s, ready_s = self._target.brokers[0].started_s, time.monotonic()
        self._await_coordinators()
        loaded_s = time.monotonic()
        measured = {f"{key}_load_s": loaded_s - ready_s, f"{key}_start_s": loaded_s - started_s}
        if key == "many_keys":
            measured["loaded_bytes"] = self._memory_bytes()
        return measured

    def _await_coordinators(self) -> None:
        """Wait until every partition of the offsets topic is loaded."""
        with ExitStack() as stack:
            [wire] = self._wires(stack, 1)
            for group in _one_group_each(OFFSETS_PARTITIONS, "prepare"):
                await_coordinator(wire, group, TOPIC)


def _commit_all(wires: Sequence[Wire], bodies: Sequence[bytes]) -> None:
    for wire, body in zip(wires, bodies, strict=False):
        wire.send(ApiKey.OFFSET_COMMIT, 7, body)
    for wire, _ in zip(wires, bodies, strict=False):
        check_commit(wire.receive(), TOPIC)


def _beat_all(members: Sequence[Member]) -> None:
    for member in members:
        member.send_heartbeat()
    codes = {member.receive_heartbeat() for member in members}
    if codes != {0}:
        raise Refused(f"Heartbeat: {codes}")


def _one_group_each(partitions: int, prefix: str) -> list[str]:
    """One group for each partition of the offsets topic."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < partitions:
        found.setdefault(partition_for(f"{prefix}-{number}", partitions), f"{prefix}-{number}")
        number += 1
    return list(found.values())
