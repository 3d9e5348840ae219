"""The address that a text stands for, as ``getpeername`` writes it."""

import socket


def address_of(text: str) -> str | None:
    """An IP address in its shortest form, or the first address of a host's name; None for anything else. May block."""
    import ipaddress  # few brokers have quotas of addresses

    try:
        return ipaddress.ip_address(text).compressed
    except ValueError:
        pass
    try:
        found = socket.getaddrinfo(text, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    return str(found[0][4][0]) if found else None
