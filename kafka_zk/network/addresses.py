"""Addresses in Java's format (Inet6Address.getHostAddress, Java 17), for quotas, limits and ACLs.

An IPv4-mapped IPv6 address becomes an IPv4 address. An IPv6 address keeps all its zeros (``0:0:0:0:0:0:0:1``).
"""

import socket
import struct

_MAPPED = "::ffff:"
_GROUPS = struct.Struct(">8H")


def peer_address(host: str) -> str:
    """Convert from ``getpeername`` to Java's format; other text, which an ACL may contain, is unchanged."""
    if ":" not in host:
        return host
    if host.startswith(_MAPPED) and "." in host:
        return host.removeprefix(_MAPPED)
    address, percent, scope = host.partition("%")
    try:
        groups = _GROUPS.unpack(socket.inet_pton(socket.AF_INET6, address))
    except (OSError, ValueError):  # ValueError: the string has a NUL character
        return host
    return ":".join(f"{group:x}" for group in groups) + percent + scope


def address_of(text: str) -> str | None:
    """An IP address, or the first one of a host name, in Java's format; None if the name has none. May block."""
    import ipaddress  # imported here, because few brokers have quotas by address

    try:
        address = ipaddress.ip_address(text)
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        return peer_address((mapped or address).compressed)
    except ValueError:
        pass
    if "\0" in text:  # a C resolver would read the string up to the NUL
        return None
    try:
        found = socket.getaddrinfo(text, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    return peer_address(str(found[0][4][0])) if found else None
