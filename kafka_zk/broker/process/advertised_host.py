"""The host name that a broker registers for a listener."""

import socket

_ALL_INTERFACES = ("", "0.0.0.0", "::")


def advertised_host(host: str) -> str:
    """``host``, or the machine's name for a listener on all interfaces, as in Kafka."""
    return socket.getfqdn() if host in _ALL_INTERFACES else host
