"""Addresses as Java writes them, which is how quotas, limits and ACLs name them: an IPv4 address is one also where it
came over a socket for IPv6, and of an IPv6 address no zero is left out (``0:0:0:0:0:0:0:1``).

Source: Inet6Address.getHostAddress (Java 17).
"""

import socket
import struct

_MAPPED = "::ffff:"
_GROUPS = struct.Struct(">8H")


def peer_address(host: str) -> str:
    """The address of a peer whom ``getpeername`` calls so; anything else as it is: a client may write anything into
    an ACL."""
    if ":" not in host:
        return host
    if host.startswith(_MAPPED) and "." in host:
        return host.removeprefix(_MAPPED)
    address, percent, scope = host.partition("%")
    try:
        groups = _GROUPS.unpack(socket.inet_pton(socket.AF_INET6, address))
    except (OSError, ValueError):  # as Python has it, a text with a NUL is another kind of mistake
        return host
    return ":".join(f"{group:x}" for group in groups) + percent + scope


def address_of(text: str) -> str | None:
    """An IP address, or the first address of a host's name; None for anything else. May block."""
    import ipaddress  # few brokers have quotas of addresses

    try:
        address = ipaddress.ip_address(text)
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        return peer_address((mapped or address).compressed)
    except ValueError:
        pass
    if "\0" in text:  # a resolver in C would see its beginning only
        return None
    try:
        found = socket.getaddrinfo(text, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    return peer_address(str(found[0][4][0])) if found else None
