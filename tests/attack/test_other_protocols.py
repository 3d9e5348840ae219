"""C: TLS and HTTP on a listener for plain-text Kafka."""

import socket

import pytest

from tests.attack.siege import Siege

pytestmark = [pytest.mark.attack, pytest.mark.embedded]

CONNECTIONS = 100
TLS_HELLO = bytes.fromhex("1603010200010001fc0303") + bytes(500)


@pytest.mark.parametrize(
    ("name", "hello"), [("TLS", TLS_HELLO), ("HTTP", b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")]
)
def test_a_hello_of_another_protocol(siege: Siege, name: str, hello: bytes) -> None:
    victim = siege.victim

    def attack() -> None:
        for _ in range(CONNECTIONS):
            with socket.create_connection(("127.0.0.1", victim.port), 5) as connection:
                connection.sendall(hello)
                try:
                    assert connection.recv(1) == b""
                except ConnectionResetError:
                    continue
        told = victim.logged("closed")
        assert len(told) == 1 and f"looks like {name}" in told[0], told

    siege(f"C {name} on the port of Kafka", attack)
