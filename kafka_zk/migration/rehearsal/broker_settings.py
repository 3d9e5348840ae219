"""Changes the ``server.properties`` of real brokers for a rehearsal, in each mode. Pure.

The addresses, the folders and the keys for the migration's steps are changed. Two things are left out: the identity for
a secured ZooKeeper, because the copy has no ACLs, and metrics reporters, which may connect to other machines.

Source: KafkaConfig.scala@3.9; the steps of Kafka's own migration.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from kafka_zk.base.integers import NATURAL_INT32, decimal_integer
from kafka_zk.embedded.errors import EmbeddedError
from kafka_zk.migration.mode import Mode
from kafka_zk.migration.nodes import PROTOCOL
from kafka_zk.migration.rehearsal.controllers import FLAG, LISTENER
from kafka_zk.migration.rehearsal.loopback import LOOPBACK, without_addresses

Settings = Mapping[str, str]

_AUTHORIZER, _ACL_AUTHORIZER = "authorizer.class.name", "kafka.security.authorizer.AclAuthorizer"
_STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_INTER_BROKER, _PROTOCOL_MAP = "inter.broker.listener.name", "listener.security.protocol.map"
_USUAL_MAP = "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
_REPLACED = re.compile(
    r"zookeeper\..*|controller\.(quorum|listener)\..*|process\.roles|(node|broker)\.id|(metadata\.)?log\.dirs?"
    r"|(advertised\.)?(listeners|host\.name|port)|(kafka\.)?metrics?\.reporters|auto\.include\.jmx\.reporter"
    r"|max\.connections\.per\.ip\.overrides"
)
_OF_CONTROLLERS = re.compile(
    r"(ssl|sasl|listener\.name|listener\.security|password\.encoder|principal\.builder|delegation\.token)\..*|super\.users"
    r"|allow\.everyone\.if\.no\.acl\.found|(alter\.config|create\.topic)\.policy\.class\.name"
)
_NO_ADDRESS_KEY = re.compile(r"(?i)super\.users|.*\.(version|rules)|principal\..*")
"""A principal such as User:42, or a release such as 0.10.2.1, looks like an address."""
_SECRET_KEY = re.compile(r"(?i)(password|secret|token|credentials?|\.key|certificate\.chain|certificates)$")
_PERHAPS_SECRET_KEY = re.compile(r"(?i)password|secret|token|credential")
_JAAS_KEY = re.compile(r"jaas\.config$")
_JAAS_OPTION = re.compile(
    r"""(?P<name>[\w.$-]+)\s*=\s*(?P<quote>["']?)(?P<value>(?<=")(?:[^"\\]|\\.)*|(?<=')(?:[^'\\]|\\.)*|[^"';\s]+)"""
)
_JAAS_SECRET = re.compile(r"(?i)user_.*|.*(password|secret|token|credentials?)")
_LEAST_SECRET = 4
"""Shorter secrets are not hidden, because such strings occur everywhere."""
_NO_SECRET = re.compile(r"(?i)\d+|true|false")


class UnusableSettings(EmbeddedError):
    """A file with which no broker can be started in a rehearsal."""


class Place(NamedTuple):
    """``folder``: the folder for log directories. ``ports``: each listener's port. ``zookeeper``: the address of the
    copy. ``quorum``: the keys that name the controllers."""

    folder: Path
    ports: Mapping[str, int]
    zookeeper: str
    quorum: Settings


def by_broker(files: Mapping[str, Settings], broker_ids: Iterable[int]) -> dict[int, Settings]:
    """Each broker's settings, by id. ``files``: path -> settings. Raises: UnusableSettings."""
    found: dict[int, Settings] = {}
    for path, settings in files.items():
        text = settings.get("broker.id") or settings.get("node.id") or ""
        broker_id = decimal_integer(text, NATURAL_INT32)
        if broker_id is None:
            raise UnusableSettings(f"{path} sets no broker.id")
        if broker_id in found:
            raise UnusableSettings(f"{path} has broker.id={broker_id}, which another file has, too")
        if settings.get("remote.log.storage.system.enable", "").strip().lower() == "true":
            raise UnusableSettings(f"{path} has tiered storage, whose remote records a rehearsal could change")
        listeners(settings, path)
        found[broker_id] = settings
    wanted = sorted(broker_ids)
    if missing := [broker_id for broker_id in wanted if broker_id not in found]:
        raise UnusableSettings(f"there is no server.properties of the brokers {', '.join(map(str, missing))}")
    return {broker_id: found[broker_id] for broker_id in wanted}


def listeners(settings: Settings, path: str = "the broker's file") -> list[str]:
    """The names of a broker's listeners. Raises: UnusableSettings."""
    entries = (settings.get("listeners") or "PLAINTEXT://:9092").split(",")
    names = [entry.strip().partition("://")[0] for entry in entries]
    if not all(re.fullmatch(r"[\w.-]+", name) for name in names):
        raise UnusableSettings(f"{path} has listeners that are not NAME://HOST:PORT,…")
    if len({name.upper() for name in names}) < len(names):
        raise UnusableSettings(f"{path} has two listeners with one name, which a rehearsal cannot give its addresses")
    return names


def of_broker(broker_id: int, settings: Settings, mode: Mode, place: Place) -> dict[str, object]:
    """The settings with which the broker starts in a mode."""
    addresses = ",".join(f"{name}://{LOOPBACK}:{port}" for name, port in place.ports.items())
    count = len((settings.get("log.dirs") or settings.get("log.dir") or "").split(","))
    found: dict[str, object] = {
        **_kept(settings),
        "listeners": addresses,
        "advertised.listeners": addresses,
        "log.dirs": ",".join(str(place.folder / f"logs-{number}") for number in range(count)),
    }
    if mode is not Mode.ZOOKEEPER:
        found |= {**place.quorum, _PROTOCOL_MAP: f"{settings.get(_PROTOCOL_MAP) or _USUAL_MAP},{LISTENER}:PLAINTEXT"}
    if mode is not Mode.KRAFT:
        flag = FLAG if mode is Mode.MIGRATION else {}
        return {**found, "broker.id": broker_id, "zookeeper.connect": place.zookeeper, **flag}
    found |= {"node.id": broker_id, "process.roles": "broker", **_authorizer(settings)}
    found.pop(PROTOCOL, None)
    return found


def of_controllers(settings: Settings) -> dict[str, str]:
    """How controllers reach brokers with these settings, and whom they trust.

    The controllers' own listener is plain, so the nodes that use it are super users.
    """
    kept = {key: value for key, value in _kept(settings).items() if _OF_CONTROLLERS.fullmatch(key)}
    return {
        **kept,
        _PROTOCOL_MAP: f"{settings.get(_PROTOCOL_MAP) or _USUAL_MAP},{LISTENER}:PLAINTEXT",
        _INTER_BROKER: settings.get(_INTER_BROKER) or settings.get("security.inter.broker.protocol") or "PLAINTEXT",
        "super.users": ";".join(filter(None, (settings.get("super.users"), "User:ANONYMOUS"))),
        **_authorizer(settings),
    }


def secrets(settings: Settings) -> set[str]:
    """Secret values, and the passwords in JAAS configurations."""
    found: set[str] = set()
    for key, value in settings.items():
        if _JAAS_KEY.search(key):
            options = _JAAS_OPTION.finditer(value)
            found |= {value, *(each["value"] for each in options if _JAAS_SECRET.fullmatch(each["name"]))}
        elif _SECRET_KEY.search(key) or (_PERHAPS_SECRET_KEY.search(key) and not _NO_SECRET.fullmatch(value)):
            found.add(value)
    return {each for each in found if len(each) >= _LEAST_SECRET}


def _kept(settings: Settings) -> dict[str, str]:
    return {key: _local(key, value) for key, value in settings.items() if not _REPLACED.fullmatch(key)}


def _local(key: str, value: str) -> str:
    """The value without addresses. Secrets are not changed, not even in a JAAS configuration."""
    if _JAAS_KEY.search(key):
        return _JAAS_OPTION.sub(_local_option, value)
    if _SECRET_KEY.search(key):
        return value
    return without_addresses(value, has_hosts=not _NO_ADDRESS_KEY.fullmatch(key))


def _local_option(found: re.Match[str]) -> str:
    if _JAAS_SECRET.fullmatch(found["name"]):
        return found[0]
    prefix = found[0].removesuffix(found["value"])
    return f"{prefix}{without_addresses(found['value'], has_hosts=True)}"


def _authorizer(settings: Settings) -> dict[str, str]:
    """AclAuthorizer, which needs ZooKeeper, becomes StandardAuthorizer."""
    name = settings.get(_AUTHORIZER)
    return {} if not name else {_AUTHORIZER: _STANDARD_AUTHORIZER if name == _ACL_AUTHORIZER else name}
