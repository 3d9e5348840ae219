"""Lists the ACLs of all znodes with a plain kazoo client, independently of the project's own clients."""

from collections.abc import Iterator, Mapping
from typing import Any

from kazoo.client import KazooClient

from kafka_zk.registry.client.security_keys import zookeeper_security

READ, ALL = 1, 31
Acl = frozenset[tuple[str, str, int]]
"""One entry: (scheme, id, permissions)."""

OPEN: Acl = frozenset({("world", "anyone", ALL)})


def znode_acls(connect_string: str, client_properties: Mapping[str, str]) -> dict[str, Acl]:
    """Every znode below the chroot except ZooKeeper's own, with its ACL."""
    with_identity = _client(connect_string, client_properties)
    try:
        with_identity.start(20)
        return dict(_walk(with_identity, "/"))
    finally:
        with_identity.stop()
        with_identity.close()


def _client(connect_string: str, client_properties: Mapping[str, str]) -> KazooClient:
    security = zookeeper_security(client_properties)
    arguments: dict[str, Any] = {}
    if security.tls:
        files = str(security.tls.keystore) if security.tls.keystore else None
        arguments |= {"use_ssl": True, "ca": str(security.tls.truststore), "certfile": files, "keyfile": files}
    if security.sasl:
        user = {"username": security.sasl.username, "password": security.sasl.password}
        arguments["sasl_options"] = {"mechanism": "DIGEST-MD5", **user}
    if security.digest:
        arguments["auth_data"] = [("digest", f"{security.digest.username}:{security.digest.password}")]
    return KazooClient(connect_string, timeout=10, **arguments)


def _walk(client: KazooClient, path: str) -> Iterator[tuple[str, Acl]]:
    if path == "/zookeeper":
        return
    entries, _ = client.get_acls(path)
    yield path, frozenset((entry.id.scheme, entry.id.id, entry.perms) for entry in entries)
    for child in client.get_children(path):
        yield from _walk(client, f"{path.rstrip('/')}/{child}")
