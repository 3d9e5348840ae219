"""The host name that a broker registers for a listener."""

import socket

_ALL_INTERFACES = ("", "0.0.0.0", "::")


def advertised_host(host: str) -> str:
    """The host itself; as in Kafka, a listener on all interfaces is advertised under the machine's name."""
    return socket.getfqdn() if host in _ALL_INTERFACES else host
