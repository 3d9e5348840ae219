"""Addresses as quotas, limits and ACLs name them: an IPv4 address is one also where it came over a socket for IPv6, as
for Java."""

import socket

_MAPPED = "::ffff:"


def peer_address(host: str) -> str:
    """The address of a peer whom ``getpeername`` calls so."""
    return host.removeprefix(_MAPPED) if "." in host else host


def address_of(text: str) -> str | None:
    """An IP address in its shortest form, or the first address of a host's name; None for anything else. May block."""
    import ipaddress  # few brokers have quotas of addresses

    try:
        address = ipaddress.ip_address(text)
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        return (mapped or address).compressed
    except ValueError:
        pass
    try:
        found = socket.getaddrinfo(text, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    return peer_address(str(found[0][4][0])) if found else None
