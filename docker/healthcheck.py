#!/usr/bin/env python3
"""Health check of a broker in a container: exit code 0 if it responds to Metadata and knows the controller.

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
NO_TOPICS = struct.pack(">hhih6si", 3, 1, 0, 6, b"health", 0)  # key, version, correlation id, client id, topics


def main() -> int:
    match = re.search(r"^listeners=[^,\n]*:(\d+)", PROPERTIES.read_text(), re.MULTILINE)
    assert match is not None, "the entry point always writes listeners"
    try:
        return 0 if controller_id(int(match[1])) >= 0 else 1
    except (OSError, EOFError, struct.error) as error:
        print(f"no answer: {error}", file=sys.stderr)
        return 1


def controller_id(port: int) -> int:
    with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as connection:
        connection.settimeout(TIMEOUT_S)
        connection.sendall(struct.pack(">i", len(NO_TOPICS)) + NO_TOPICS)
        (size,) = struct.unpack(">i", receive(connection, 4))
        answer = receive(connection, size)
    position = 8  # after the correlation id and the count
    (brokers,) = struct.unpack_from(">i", answer, 4)
    for _ in range(brokers):
        position = after_string(answer, position + 4) + 4
        position = after_string(answer, position)
    (controller,) = struct.unpack_from(">i", answer, position)
    return int(controller)


def after_string(answer: bytes, position: int) -> int:
    (length,) = struct.unpack_from(">h", answer, position)
    return position + 2 + max(0, length)


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
