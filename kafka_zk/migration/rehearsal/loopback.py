"""Replaces the addresses in the copy of a cluster's znodes, so that a rehearsal reaches no cluster. Pure.

The host becomes 127.0.0.1 and the port NO_PORT, because the cluster may run on this machine.
ACLs keep the hosts to which they apply, and quotas the IP addresses: nothing connects to these.
"""

import ipaddress
import json
import re
from typing import Any

LOOPBACK = "127.0.0.1"
NO_PORT = 1
"""A port at which no program listens."""

_URL = re.compile(
    r"(?P<scheme>\b(?!file:)[A-Za-z][\w+.-]*://)(?P<user>[^\s/@,;]*@)?(?:\[[^\]\s]*\]|[^\s/:,;?#]*)(?::[0-9]+)?"
)
_HOST_AND_PORT = re.compile(
    r"(?<![\w.:/\]-])(?P<id>[0-9]+@)?(?:\[[0-9A-Fa-f:.%]+\]|(?=[^\s:,]*[A-Za-z.])[\w.-]+):[0-9]{1,5}(?![\w.:])"
)
_PERHAPS_IP = re.compile(r"(?<![\w:.\[])[0-9A-Fa-f:.]{3,39}(?![\w:.\]])")
_HOST_KEY = re.compile(r"(^|\.)host(\.?name)?$")
_KEPT_KEY = re.compile(r"(?i)password$|jaas\.config$|^SCRAM-|secret$|\.version$")
"""Secrets, and releases: 0.10.2.1 looks like an address."""
_CONFIGS = "/config/"
_CLIENTS_ADDRESSES = ("/kafka-acl", "/config/ips/")


def with_loopback(path: str, data: bytes | None) -> bytes | None:
    """The data of the znode at ``path`` (without the chroot); the same bytes if they contain no address."""
    if not data or path.startswith(_CLIENTS_ADDRESSES):
        return data
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data
    is_config = path.startswith(_CONFIGS)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return without_addresses(text, is_config).encode()
    changed = _changed(document, is_config)
    return data if changed == document else json.dumps(changed, separators=(",", ":"), ensure_ascii=False).encode()


def _changed(value: Any, is_config: bool, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _changed(each, is_config, name) for name, each in value.items()}
    if isinstance(value, list):
        return [_changed(each, is_config, key) for each in value]
    if not isinstance(value, str) or _KEPT_KEY.search(key):
        return value
    if value and _HOST_KEY.search(key):
        return LOOPBACK
    return without_addresses(value, is_config)


def without_addresses(value: str, has_hosts: bool) -> str:
    """``has_hosts``: HOST:PORT is an address, too, not only a URL. A principal such as User:42 is not."""
    value = _URL.sub(lambda found: f"{found['scheme']}{found['user'] or ''}{LOOPBACK}:{NO_PORT}", value)
    if has_hosts:
        value = _HOST_AND_PORT.sub(lambda found: f"{found['id'] or ''}{LOOPBACK}:{NO_PORT}", value)
        value = _PERHAPS_IP.sub(lambda found: LOOPBACK if _is_ip(found[0]) else found[0], value)
    return value


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
