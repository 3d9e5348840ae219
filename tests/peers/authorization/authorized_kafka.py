"""A broker of each kind with Kafka's AclAuthorizer, and a user whose ACLs the rows change.

Brokers and administrators use PLAINTEXT, where every client is User:ANONYMOUS, a super user; the user logs in at
CLIENTS with SASL PLAIN.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka_zk.broker.config.authorizer_class import ACL_AUTHORIZER
from kafka_zk.embedded.ports import free_port
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.request import response_body_position
from kafka_zk.security.acl import Acl, Pattern
from tests.acl_rows import Request, message
from tests.peers import apache_kafka, targets, wire_probe
from tests.peers.processes import ServerProcess

USER, PASSWORD = "alice", "alice-secret"
_START_TIMEOUT_S = 90
_LOGIN = (
    f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}" user_bob="bob-secret";'
)
_ANYTHING = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1,
             "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}  # fmt: skip


@dataclass(frozen=True)
class AuthorizedBroker:
    """``port``: of PLAINTEXT. ``client_port``: of CLIENTS."""

    name: str
    zookeeper: str
    port: int
    client_port: int
    process: ServerProcess

    def set_acls(self, wanted: Mapping[Pattern, frozenset[Acl]]) -> None:
        """Replace the user's ACLs by these; the broker applies them when this returns."""
        deleted = ask(self.port, Request(ApiKey.DELETE_ACLS, 3, {"filters": [_ANYTHING]}))
        assert [each.error_code for each in deleted.filter_results] == [0]
        creations = [
            {
                "resource_type": pattern.resource_type, "resource_name": pattern.name,
                "resource_pattern_type": pattern.pattern_type, "principal": acl.principal, "host": acl.host,
                "operation": acl.operation, "permission_type": acl.permission,
            }
            for pattern, acls in wanted.items()
            for acl in acls
        ]  # fmt: skip
        created = ask(self.port, Request(ApiKey.CREATE_ACLS, 3, {"creations": creations}))
        assert [each.error_code for each in created.results] == [0] * len(creations), created


def ask(port: int, request: Request, login: tuple[str, str] | None = None) -> Any:
    """The response. Raises: OSError if the broker closes the connection."""
    with wire_probe.Connection(port) as connection:
        if login is not None:
            user, password = login
            handshake = Request(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
            token = Request(ApiKey.SASL_AUTHENTICATE, 1, {"auth_bytes": f"\0{user}\0{password}".encode()})
            for step in (handshake, token):
                assert _asked(connection, step).error_code == 0
        return _asked(connection, request)


def _asked(connection: wire_probe.Connection, request: Request) -> Any:
    api_key, version, _ = request
    body = codec.encode_body(message(request), api_key, version)
    flexible_tag = b"\0" if response_body_position(memoryview(bytes(5)), api_key, version) == 5 else b""
    answer = memoryview(connection.ask(api_key, version, flexible_tag + body))
    return codec.decode_response(api_key, version, answer[len(flexible_tag) :])


def keys(ports: Sequence[int], **more: str) -> dict[str, str]:
    """The additional properties of a broker."""
    listeners = f"PLAINTEXT://127.0.0.1:{ports[0]},CLIENTS://127.0.0.1:{ports[1]}"
    return {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": _LOGIN,
        "authorizer.class.name": ACL_AUTHORIZER,
        "super.users": "User:ANONYMOUS",
        **more,
    }


@contextmanager
def authorized_brokers(
    zookeeper: str,
    folder: Path,
    names: Sequence[str],
    chroots: Sequence[str],
    start_timeout_s: float = _START_TIMEOUT_S,
    **more: str,
) -> Iterator[list[AuthorizedBroker]]:
    """Brokers of the named kinds, with ids 0, 1, …; those with the same chroot are one cluster. Raises:
    ProcessFailed."""
    started: list[AuthorizedBroker] = []
    try:
        for broker_id, (name, chroot) in enumerate(zip(names, chroots, strict=True)):
            ports = [free_port(), free_port()]
            logs = folder / f"{name}-{broker_id}" / "logs"
            logs.mkdir(parents=True)
            own_id = broker_id if chroots.count(chroot) > 1 else 0
            connect = f"{zookeeper}/{chroot}"
            properties = apache_kafka.server_properties(own_id, ports[0], logs, connect, keys(ports, **more))
            path = apache_kafka.write_properties(logs.parent / "server.properties", properties)
            process = targets.launch(name, path, None)
            started.append(AuthorizedBroker(name, connect, ports[0], ports[1], process))
        for broker in started:
            port = broker.port
            broker.process.wait_ready(lambda port=port: wire_probe.is_ready(port, 1), start_timeout_s)  # type: ignore[misc]
        yield started
    finally:
        for broker in started:
            broker.process.stop()
