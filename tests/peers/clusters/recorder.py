"""Records the responses of ZooKeeper, brokers and controllers to the doctor (tests/kafka_zk/migration/recording.py)."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from kafka_zk.cli.migration.log_dirs import read_log_dir
from kafka_zk.cli.terminal.properties import parse_properties, read_properties
from kafka_zk.clients.connection.config import ClientConfig
from kafka_zk.clients.connection.reactor_thread import reactor_thread
from kafka_zk.migration.cluster_collector import NOT_ASKED, ask_brokers, ask_controllers
from kafka_zk.migration.facts import Unknown
from kafka_zk.migration.node_collector import NodeCollector
from kafka_zk.migration.zookeeper_collector import collect, not_read, read_migration
from kafka_zk.network.client import KafkaConnection, connect
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.registry.client.errors import NoAuth, NoNode
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.client.security import NO_SECURITY
from kafka_zk.registry.client.security_keys import zookeeper_security
from kafka_zk.security.client_keys import client_security
from kafka_zk.security.errors import AuthenticationFailed
from tests.kafka_zk.migration.recording import HIDDEN, Recording, packed

_TIMEOUT_MS = 15_000
_OBSERVED_STEPS, _STEP_MS = 25, 200
_WORDS = "srvr", "cons"
_OF_ZOOKEEPER_ITSELF = "zookeeper"


def capture(
    release: str,
    zookeeper: str,
    bootstrap: str,
    *,
    identity: dict[str, str] | None = None,
    login: dict[str, str] | None = None,
    broker_files: dict[str, Path] | None = None,
    controller_files: dict[str, Path] | None = None,
    log_dirs: dict[str, Path] | None = None,
) -> Recording:
    """``identity``: the keys of a ZooKeeper client. ``login``: those of a Kafka client. Files and folders are recorded
    under the names that are their keys here."""
    recording = Recording(release, bootstrap=bootstrap)
    for given, kept in ((broker_files, recording.broker_files), (controller_files, recording.controller_files)):
        kept.update({name: _without_secrets(read_properties(path)) for name, path in (given or {}).items()})
    for name, path in (log_dirs or {}).items():
        found = read_log_dir(path)
        meta = parse_properties((path / "meta.properties").read_text()) if found.meta is not None else None
        state = found.recorded_state
        assert not isinstance(state, Unknown)
        name_of_state = None if state is None else state.name
        recording.log_dirs.append({"path": name, "meta": meta, "recorded_state": name_of_state})
    security = zookeeper_security(identity) if identity else NO_SECURITY
    with ExitStack() as stack:
        client = stack.enter_context(KazooBlockingClient(zookeeper, 10_000, security=security))
        registered = run_blocking(collect(client)).registered
        _ask(recording, () if isinstance(registered, Unknown) else registered, login)
        run_blocking(_walk(client, "/", recording.znodes))
        recording.is_written = _is_written(client)
        recording.four_letter_words = {word: _said(zookeeper, word) for word in _WORDS}
    return recording


def _said(zookeeper: str, word: str) -> str:
    host, _, port = zookeeper.partition(":")
    with socket.create_connection((host, int(port)), _TIMEOUT_MS / 1000) as sock:
        sock.sendall(word.encode())
        with sock.makefile() as answer:
            return answer.read()


def _without_secrets(properties: dict[str, str]) -> dict[str, str | None]:
    return {key: None if "jaas" in key or "password" in key else value for key, value in properties.items()}


def _is_written(client: KazooBlockingClient) -> bool | None:
    first = run_blocking(read_migration(client))
    if isinstance(first, Unknown) or first is None or not first.is_copied:
        return None
    for _ in range(_OBSERVED_STEPS):
        client.process(_STEP_MS)
        if run_blocking(read_migration(client)) != first:
            return True
    return False


async def _walk(client: KazooBlockingClient, path: str, znodes: dict[str, dict[str, Any]]) -> None:
    try:
        got: Any = await _allowed(client.get(path))
        children: Any = await _allowed(client.children(path))
        is_open: Any = await _allowed(client.is_open(path))
    except NoNode:
        return
    names = HIDDEN if children is HIDDEN else [name for name in children[0] if name != _OF_ZOOKEEPER_ITSELF]
    data, stat = (HIDDEN, None) if got is HIDDEN else got
    znodes[path] = {
        "data": data.decode("latin-1") if isinstance(data, bytes) else data,
        "version": stat.version if stat else 0,
        "ephemeral": bool(stat and stat.ephemeral_owner),
        "children": names,
        "open": is_open,
    }
    for name in () if names is HIDDEN else names:
        await _walk(client, f"{path.rstrip('/')}/{name}", znodes)


async def _allowed(read: Awaitable[Any]) -> Any:
    try:
        return await read
    except NoAuth:
        return HIDDEN


def _ask(recording: Recording, registered: Any, login: dict[str, str] | None) -> None:
    security: dict[str, Any] = {"security": client_security(login)} if login else {}
    config = ClientConfig(
        bootstrap_servers=recording.bootstrap or "", **security, request_timeout_ms=_TIMEOUT_MS,
        socket_connection_setup_timeout_ms=_TIMEOUT_MS,
    )  # fmt: skip
    thread = reactor_thread()

    async def tapped(reactor: Any, host: str, port: int, *more: Any, **options: Any) -> KafkaConnection:
        try:
            connection = await connect(reactor, host, port, *more, **options)
        except AuthenticationFailed as error:
            recording.refused_logins[f"{host}:{port}"] = str(error)
            raise
        answers = recording.answers.setdefault(f"{host}:{port}", {})
        connection.send_raw = _tap(connection.send_raw, answers)  # type: ignore[method-assign]
        return connection

    async def ask() -> None:
        collector = NodeCollector(thread.reactor, config, tapped)
        try:
            addresses = NOT_ASKED if recording.bootstrap is None else await collector.addresses()
            brokers = await ask_brokers(collector, addresses, registered, recording.broker_files)
            await ask_controllers(collector, not_read(), brokers, recording.broker_files, recording.controller_files)
            for address in () if isinstance(addresses, Unknown) else addresses.values():
                connection = await tapped(thread.reactor, *address, **security)
                await connection.request(ApiKey.DESCRIBE_LOG_DIRS, {"topics": None})
                connection.disconnect()
        finally:
            await collector.close()

    thread.call(ask, timeout_s=120)


def _tap(send: Callable[..., Any], answers: dict[str, str]) -> Callable[..., Any]:
    def tap(api_key: int, version: int, *more: Any, **options: Any) -> Any:
        def keep(frame: memoryview) -> memoryview:
            answers[f"{int(api_key)}.{version}"] = packed(bytes(frame))
            return frame

        return send(api_key, version, *more, **options).addCallback(keep)

    return tap
