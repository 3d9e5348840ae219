"""``/brokers/ids/<id>`` (ephemeral, one per live broker) and ``/brokers/seqid``.

    v1  0.8      version host port jmx_port timestamp
    v2  0.9      + endpoints ["PROTOCOL://host:port", ...]
    v3  0.10.0   + rack (only if set)
    v4  0.10.2   + listener_security_protocol_map {listener name: protocol}
    v5  2.7      + features {name: {"min_version": n, "max_version": n}}

``host`` and ``port``, for v1, are the first PLAINTEXT endpoint's (or null and -1). The broker epoch is the znode's
czxid (KIP-380).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafka_zk.base.integers import INT16, INT32, INT64
from kafka_zk.registry.client.errors import InvalidZnode
from kafka_zk.registry.znodes import json_codec

BROKER_IDS = "/brokers/ids"
BROKER_SEQUENCE = "/brokers/seqid"
CURRENT_VERSION = 5

_ENDPOINT = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]{1,10})")


class EndPoint(NamedTuple):
    """The address at which clients reach one listener of a broker."""

    name: str
    protocol: str
    host: str
    port: int

    @property
    def address(self) -> tuple[str, int]:
        return self.host, self.port


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """``features``: name -> supported (min, max) version."""

    broker_id: int
    host: str | None
    port: int
    endpoints: tuple[EndPoint, ...] = ()
    rack: str | None = None
    jmx_port: int = -1
    timestamp_ms: int = -1
    features: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    version: int = CURRENT_VERSION

    @classmethod
    def of(
        cls,
        broker_id: int,
        endpoints: tuple[EndPoint, ...],
        *,
        rack: str | None = None,
        timestamp_ms: int = -1,
    ) -> "BrokerInfo":
        """A registration in the current version, with the first PLAINTEXT endpoint's host and port."""
        plain = next((endpoint for endpoint in endpoints if endpoint.protocol == "PLAINTEXT"), None)
        host, port = (plain.host, plain.port) if plain else (None, -1)
        return cls(broker_id, host, port, endpoints, rack, timestamp_ms=timestamp_ms)

    def endpoint(self, listener_name: str) -> EndPoint | None:
        return next((endpoint for endpoint in self.endpoints if endpoint.name == listener_name), None)

    def address(self, protocol: str = "PLAINTEXT") -> tuple[str, int] | None:
        """Host and port of the first listener with this security protocol; None if there is none."""
        if protocol == "PLAINTEXT":
            return None if self.host is None else (self.host, self.port)
        return next((each.address for each in self.endpoints if each.protocol == protocol), None)


def broker_path(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def encode(info: BrokerInfo) -> bytes:
    """The registration in the JSON version that ``info.version`` names."""
    document: dict[str, Any] = {
        "version": info.version,
        "host": info.host,
        "port": info.port,
        "jmx_port": info.jmx_port,
        "timestamp": str(info.timestamp_ms),
    }
    if info.version >= 2:
        document["endpoints"] = [f"{e.name}://{_bracketed(e.host)}:{e.port}" for e in info.endpoints]
    if info.version >= 3 and info.rack is not None:
        document["rack"] = info.rack
    if info.version >= 4:
        document["listener_security_protocol_map"] = {e.name: e.protocol for e in info.endpoints}
    if info.version >= 5:
        document["features"] = {
            name: {"min_version": low, "max_version": high} for name, (low, high) in info.features.items()
        }
    return json_codec.encode(document)


def decode(broker_id: int, data: bytes | None) -> BrokerInfo:
    """Decode any historic version; a version above 5 counts as 5, as in Kafka. Raises InvalidZnode."""
    path = broker_path(broker_id)
    document = json_codec.decode_object(path, data)
    version = json_codec.version(path, document)
    host = json_codec.optional_text(path, document, "host")
    port = json_codec.integer(path, document, "port")
    if version == 1:
        endpoints: tuple[EndPoint, ...] = (EndPoint("PLAINTEXT", "PLAINTEXT", host or "", port),)
    else:
        endpoints = _endpoints(path, document, version)
    return BrokerInfo(
        broker_id,
        host,
        port,
        endpoints,
        json_codec.optional_text(path, document, "rack"),
        json_codec.integer(path, document, "jmx_port", -1),
        json_codec.integer(path, document, "timestamp", -1, INT64),
        _features(path, document),
        version,
    )


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _endpoints(path: str, document: Mapping[str, Any], version: int) -> tuple[EndPoint, ...]:
    listed = document.get("endpoints")
    if not isinstance(listed, list):
        raise InvalidZnode(f"{path}: 'endpoints' must be a list")
    protocols = json_codec.string_map(path, document, "listener_security_protocol_map")
    endpoints = []
    for entry in listed:
        fits = isinstance(entry, str) and len(entry) <= json_codec.LONGEST_TEXT_BYTES // 4
        match = _ENDPOINT.fullmatch(entry) if fits else None
        if match is None:
            raise InvalidZnode(f"{path}: {json_codec.shown(entry)} is not an endpoint like PLAINTEXT://host:9092")
        name = match[1]
        protocol = protocols.get(name) if version >= 4 else name
        if protocol is None:
            raise InvalidZnode(f"{path}: listener {name!r} has no security protocol")
        port = json_codec.in_range(path, "a port", int(match[3]), INT32)
        endpoints.append(EndPoint(name, protocol, match[2], port))
    return tuple(endpoints)


def _features(path: str, document: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    listed = document.get("features") or {}
    if not isinstance(listed, dict) or not all(isinstance(entry, dict) for entry in listed.values()):
        raise InvalidZnode(f"{path}: 'features' must be an object of objects")
    return {
        name: (
            json_codec.integer(path, versions, "min_version", 1, INT16),
            json_codec.integer(path, versions, "max_version", within=INT16),
        )
        for name, versions in listed.items()
    }
