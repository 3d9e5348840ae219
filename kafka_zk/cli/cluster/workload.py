"""Processes of ``kafka-zk consume`` and ``kafka-zk produce`` that ``kafka-zk up`` starts and ends for ``kafka-zk
break`` or the web page."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafka_zk.clients.connection.errors import KafkaError
from kafka_zk.embedded.control_socket import ActionRefused
from kafka_zk.embedded.process import ChildProcess, python_command
from kafka_zk.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from kafka_zk.embedded.cluster import EmbeddedCluster

ZOOKEEPER, BROKER = "zookeeper", "broker"
PARTITIONS = 6
MOST_MEMBERS, MOST_PRODUCERS = 12, 4
MOST_RATE = 10_000
SESSION_S = 6
"""Session timeout of the members."""
_NAMES = ("anna", "ben", "cleo", "dora", "emil", "frida", "gus", "hana", "ida", "jan", "kim", "leo")
_LEGAL = re.compile(r"[A-Za-z0-9._-]{1,100}")
_ADMIN_TIMEOUT_MS = 5_000
_SILENT = ("--property", "print.value=false", "--property", "line.separator=")

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Member:
    """``name``: ``board/anna``."""

    name: str
    group: str
    type: str
    topic: str
    process: ChildProcess


@dataclass(frozen=True, slots=True)
class _Producer:
    topic: str
    rate: int
    process: ChildProcess


class Workload:
    """Handles requests such as ``{"action": "join", "group": "board", "topic": "flights", "type": "broker"}``; the
    response describes the member or producer. Call ``stop`` at the end."""

    def __init__(self, cluster: "EmbeddedCluster") -> None:
        self._cluster = cluster
        self._members: dict[str, _Member] = {}
        self._leaving: list[ChildProcess] = []
        self._producers: dict[str, _Producer] = {}
        self.actions: Mapping[str, Callable[[Document], Document]] = {
            "join": self._join,
            "leave": self._leave,
            "crash": self._crash,
            "produce": self._produce,
        }

    def description(self) -> Document:
        """All members and producers, including those that ended on their own."""
        return {
            "members": [_member_state(each) for each in self._members.values()],
            "producers": [_producer_state(each) for each in self._producers.values()],
        }

    def stop(self) -> None:
        running = [*self._leaving, *(each.process for each in self._members.values())]
        running += [each.process for each in self._producers.values()]
        for process in running:
            if process.alive:
                process.terminate()
        for process in running:
            process.stop()
        self._leaving.clear()
        self._members.clear()
        self._producers.clear()

    def _join(self, request: Document) -> Document:
        group, topic = _legal(request, "group"), _legal(request, "topic")
        kind = request.get("type", ZOOKEEPER)
        if kind not in (ZOOKEEPER, BROKER):
            raise ActionRefused(f"a group is of type {ZOOKEEPER} or {BROKER}, not {kind!r}")
        if sum(each.process.alive for each in self._members.values()) >= MOST_MEMBERS:
            raise ActionRefused(f"{MOST_MEMBERS} members are already running; let one leave first")
        short = _legal(request, "name") if request.get("name") else self._free_name(group)
        name = f"{group}/{short}"
        if name in self._members and self._members[name].process.alive:
            raise ActionRefused(f"{name} is already a member")
        self._make_topic(topic)
        where = ("--zookeeper", self._cluster.zookeeper_connect, *self._trace(), "--type", "zookeeper",
                 "--consumer-property", f"zookeeper.session.timeout.ms={SESSION_S * 1000}") if kind == ZOOKEEPER else (
                 "--bootstrap-server", self._cluster.bootstrap, "--type", "broker",
                 "--consumer-property", f"session.timeout.ms={SESSION_S * 1000}")  # fmt: skip
        command = ("consume", "--group", group, "--name", short, "--topic", topic, "--from-beginning", *_SILENT, *where,
                   *self._command_config())  # fmt: skip
        process = self._started(f"member {name}", f"member-{group}-{short}", command)
        self._members[name] = _Member(name, group, kind, topic, process)
        return _member_state(self._members[name])

    def _leave(self, request: Document) -> Document:
        member = self._member(request)
        member.process.terminate()
        self._leaving = [*(each for each in self._leaving if each.alive), member.process]
        del self._members[member.name]
        return {**_member_state(member), "state": "leaving"}

    def _crash(self, request: Document) -> Document:
        member = self._member(request)
        member.process.kill()
        del self._members[member.name]
        return _member_state(member)

    def _produce(self, request: Document) -> Document:
        topic, rate = _legal(request, "topic"), request.get("rate")
        if not isinstance(rate, int) or not 0 <= rate <= MOST_RATE:
            raise ActionRefused(f"the rate must be 0 to {MOST_RATE} records per second, not {rate!r}")
        if rate:
            others = [each for each in self._producers.values() if each.topic != topic and each.process.alive]
            if len(others) >= MOST_PRODUCERS:
                raise ActionRefused(f"{MOST_PRODUCERS} producers are already running; end one first with rate 0")
            self._make_topic(topic)
        before = self._producers.pop(topic, None)
        if before is not None:
            before.process.stop()
        if not rate:
            return {"topic": topic, "rate": 0, "state": "ended"}
        command = ("produce", "--topic", topic, "--rate", str(rate), "--bootstrap-server", self._cluster.bootstrap,
                   "--producer-property", "delivery.timeout.ms=600000", *self._command_config())  # fmt: skip
        process = self._started(f"the producer to {topic}", f"producer-{topic}", command)
        self._producers[topic] = _Producer(topic, rate, process)
        return _producer_state(self._producers[topic])

    def _started(self, what: str, log: str, command: tuple[str | Path, ...]) -> ChildProcess:
        arguments, environ = python_command(*command)
        process = ChildProcess(what, arguments, self._cluster.data_dir / "workload" / f"{log}.log", environ)
        process.start()
        return process

    def _trace(self) -> tuple[str | Path, ...]:
        return () if self._cluster.trace is None else ("--trace", self._cluster.trace.resolve())

    def _command_config(self) -> tuple[str | Path, ...]:
        security = self._cluster.security
        return () if security is None else ("--command-config", security.client_file)

    def _member(self, request: Document) -> _Member:
        name = str(request.get("member"))
        member = self._members.get(name)
        if member is None:
            known = ", ".join(self._members) or "no member"
            raise ActionRefused(f"{name} was not started by kafka-zk break join, which has started {known}")
        return member

    def _free_name(self, group: str) -> str:
        taken = {each.name for each in self._members.values() if each.process.alive}
        free = (each for each in _NAMES if f"{group}/{each}" not in taken)
        return next(free)  # there are more names than members

    def _make_topic(self, topic: str) -> None:
        from kafka_zk.clients.admin.blocking_admin import BlockingAdmin

        servers = ",".join(broker.bootstrap for broker in self._cluster.brokers if broker.alive)
        limits = dict.fromkeys(("request_timeout_ms", "default_api_timeout_ms"), _ADMIN_TIMEOUT_MS)
        if not servers:
            raise ActionRefused("no broker runs")
        try:
            with BlockingAdmin(None, bootstrap_servers=servers, security=self._cluster.login, **limits) as admin:
                if topic not in admin.list_topics():
                    admin.create_topic(topic, PARTITIONS)
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise ActionRefused(f"topic {topic} cannot be created: {error}") from error


def _member_state(member: _Member) -> Document:
    return {
        "member": member.name, "type": member.type, "topic": member.topic, **_process_state(member.process)
    }  # fmt: skip


def _producer_state(producer: _Producer) -> Document:
    return {"topic": producer.topic, "rate": producer.rate, **_process_state(producer.process)}


def _process_state(process: ChildProcess) -> Document:
    alive = process.alive
    state = {"pid": process.pid, "state": "running" if alive else "ended"}
    return state if alive or process.exit_code is None or process.exit_code < 0 else {
        **state, "why": process.describe_end()
    }  # fmt: skip


def _legal(request: Document, key: str) -> str:
    text = request.get(key)
    if not isinstance(text, str) or not _LEGAL.fullmatch(text) or text in (".", ".."):
        raise ActionRefused(f"{str(text)[:120]!r} cannot be the {key}: letters, digits, '.', '_' and '-' are allowed")
    return text
