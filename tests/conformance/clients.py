"""The eight clients of the table, and the commands that start their programs.

Every program is called with a role, the brokers and a name, and talks as ``programs.conversation`` says. Those in other
languages are in tests/peers, where the other programs of these clients are, and are built on first use.
"""

import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.conformance.faults import Role
from tests.peers import foreign_programs, jars, java

_JVM_FLAGS = ("-Xmx128M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class Client(NamedTuple):
    """``command``: the program's command line, without arguments. ``roles``: those that the client can play."""

    name: str
    command: Callable[[], Sequence[str]]
    roles: frozenset[Role] = frozenset(Role)


def _python(module: str) -> Callable[[], Sequence[str]]:
    return lambda: [sys.executable, "-m", module]


def _go(program: str) -> Callable[[], Sequence[str]]:
    return lambda: [str(foreign_programs.go_program(program)), "conform"]


def _kafkajs() -> Sequence[str]:
    return ["node", str(foreign_programs.node_folder("kafkajs") / "conform.js")]


def _java() -> Sequence[str]:
    return java.driver_command(jars.NEWEST_VERSION, "Conform", flags=_JVM_FLAGS)


PYTHON_CLIENTS = (
    Client("kafka-zk", _python("tests.conformance.programs.ours")),
    Client("kafka-python", _python("tests.conformance.programs.kafka_python")),
    Client("aiokafka", _python("tests.conformance.programs.aio")),
    Client("confluent-kafka", _python("tests.conformance.programs.confluent")),
)
CLIENTS = (
    *PYTHON_CLIENTS,
    Client("kafkajs", _kafkajs),
    # It commits the offsets of a transaction only for a member of the group, in a GroupTransactSession.
    Client("franz-go", _go("franz_go"), frozenset(Role) - {Role.OFFSETS}),
    Client("sarama", _go("sarama")),
    Client("java", _java),
)
BY_NAME = {client.name: client for client in CLIENTS}
