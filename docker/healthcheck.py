#!/usr/bin/env python3
"""Health check of a broker in a container: exit code 0 if it responds to Metadata and knows the controller.

If all listeners have TLS or logins, it is enough that the broker responds to ApiVersions, the only request before a
login, or to the handshake of a listener that authenticates clients by certificates. The check needs no password, and
does not verify the broker's certificate.

It runs every few seconds for every broker, so it imports only the standard library. It sends one request. The response
(Metadata version 1, MetadataResponse.json@3.9) contains the brokers (id int32, host string, port int32, rack nullable
string), then the controller's id, int32.
"""

import re
import socket
import struct
import sys
from pathlib import Path

PROPERTIES = Path("/tmp/server.properties")
TIMEOUT_S = 4
PROTOCOLS = ("PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL", "SSL")
"""Protocols of listeners, the most useful first: only PLAINTEXT shows whether the broker knows the controller; at SSL,
the broker may log that the check has no certificate.
"""
NO_TOPICS = struct.pack(">hhih6si", 3, 1, 0, 6, b"health", 0)  # key, version, correlation id, client id, topics
API_VERSIONS = struct.pack(">hhih6s", 18, 0, 0, 6, b"health")


def main() -> int:
    try:
        protocol, port = listener(PROPERTIES.read_text())
        is_healthy = controller_id(port) >= 0 if protocol == "PLAINTEXT" else serves(protocol, port)
    except (OSError, EOFError, struct.error) as error:
        print(f"no answer: {error}", file=sys.stderr)
        return 1
    return 0 if is_healthy else 1


def listener(properties: str) -> tuple[str, int]:
    """Protocol and port of the listener to ask. The entry point always writes ``listeners``."""
    keys = dict(re.findall(r"^([\w.]+)=(.*)$", properties, re.MULTILINE))
    entries = keys.get("listener.security.protocol.map", "").upper().replace(" ", "").split(",")
    protocols = dict(entry.split(":", 1) for entry in entries if ":" in entry)
    found = re.findall(r"([^,\s]+)://[^,]*:(\d+)", keys["listeners"])
    known = [(protocols.get(name.upper(), name.upper()), int(port)) for name, port in found]
    return min(known, key=lambda each: PROTOCOLS.index(each[0]))


def controller_id(port: int) -> int:
    with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as connection:
        answer = asked(connection, NO_TOPICS)
    position = 8  # after the correlation id and the count
    (brokers,) = struct.unpack_from(">i", answer, 4)
    for _ in range(brokers):
        position = after_string(answer, position + 4) + 4
        position = after_string(answer, position)
    (controller,) = struct.unpack_from(">i", answer, position)
    return int(controller)


def serves(protocol: str, port: int) -> bool:
    """Whether a listener with TLS or logins responds. Raises: OSError, EOFError."""
    with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as connection:
        if protocol == "SASL_PLAINTEXT":
            return answers_versions(connection)
        import ssl  # imported here, because most brokers do not need it

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            with context.wrap_socket(connection) as encrypted:
                return protocol == "SSL" or answers_versions(encrypted)
        except ssl.SSLError as error:
            return "ALERT" in (error.reason or "")  # the broker requires a certificate


def answers_versions(connection: socket.socket) -> bool:
    (error_code,) = struct.unpack_from(">h", asked(connection, API_VERSIONS), 4)  # after the correlation id
    return int(error_code) == 0


def asked(connection: socket.socket, request: bytes) -> bytes:
    """The response, without its size."""
    connection.settimeout(TIMEOUT_S)
    connection.sendall(struct.pack(">i", len(request)) + request)
    (size,) = struct.unpack(">i", receive(connection, 4))
    return receive(connection, size)


def after_string(answer: bytes, position: int) -> int:
    (length,) = struct.unpack_from(">h", answer, position)
    return position + 2 + max(0, int(length))


def receive(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        if not chunk:
            raise EOFError("the broker closed the connection")
        received += chunk
    return received


if __name__ == "__main__":
    sys.exit(main())
