"""The supervisor's time limit of one second, for a server name with several addresses."""

import socket
import time

import pytest

from kafka_zk.registry.client.close_session import close_session


def test_a_name_with_many_addresses_costs_no_more_than_the_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    full = socket.socket()
    full.bind(("127.0.0.1", 0))
    full.listen(0)
    clients = []
    for _ in range(4):  # the listen queue is full: further connections hang
        client = socket.socket()
        client.setblocking(False)
        client.connect_ex(full.getsockname())
        clients.append(client)
    address = full.getsockname()
    entry = (socket.AF_INET, socket.SOCK_STREAM, 6, "", address)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [entry] * 6)
    begun_s = time.monotonic()
    assert not close_session([("zookeeper", address[1])], 7, b"p" * 16)
    took_s = time.monotonic() - begun_s
    for client in (*clients, full):
        client.close()
    assert 0.9 < took_s < 1.5
