"""ZooKeeper connection strings: ``host:port[,host:port…][/chroot]``, where the chroot applies to all servers."""

import re
from typing import NamedTuple

from kafka_zk.registry.client.errors import InvalidConnectString

DEFAULT_PORT = 2181

_SERVER = re.compile(r"(?P<host>\[[0-9a-fA-F:.%]+\]|[^\s:\[\]]+)(?::(?P<port>[0-9]{1,5}))?")


class ConnectString(NamedTuple):
    """The servers as (host, port), and the chroot: empty, or a path without a trailing slash."""

    servers: tuple[tuple[str, int], ...]
    chroot: str

    @property
    def hosts(self) -> str:
        """The servers as ``host:port,host:port``."""
        return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.servers)


def parse(connect_string: str) -> ConnectString:
    """Parse a connection string. Raises InvalidConnectString, whose message says what is wrong."""
    listed, slash, rest = connect_string.strip().partition("/")
    if "," in rest:
        raise InvalidConnectString(
            f"{connect_string!r}: the chroot is given once, after the last server, as in 'h1:2181,h2:2181/chroot'"
        )
    chroot = (slash + rest).rstrip("/")
    if any(part in ("", ".", "..") for part in chroot.split("/")[1:]):
        raise InvalidConnectString(f"{connect_string!r}: {chroot!r} is not a ZooKeeper path")
    servers = tuple(_server(connect_string, entry.strip()) for entry in listed.split(",") if entry.strip())
    if not servers:
        raise InvalidConnectString(
            f"{connect_string!r}: no server is named; 'host:port[,host:port…][/chroot]' is expected"
        )
    return ConnectString(servers, chroot)


def _server(connect_string: str, entry: str) -> tuple[str, int]:
    match = _SERVER.fullmatch(entry)
    if match is None:
        raise InvalidConnectString(f"{connect_string!r}: {entry!r} is not 'host:port'")
    port = int(match["port"] or DEFAULT_PORT)
    if not 0 < port < 65536:
        raise InvalidConnectString(f"{connect_string!r}: port {port} is not between 1 and 65535")
    return match["host"].strip("[]"), port
