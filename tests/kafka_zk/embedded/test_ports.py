"""Free ports and occupied ports."""

import socket
from contextlib import closing

import pytest

from kafka_zk.embedded import ports
from kafka_zk.embedded.ports import LOCALHOST, can_listen


@pytest.mark.parametrize("address", [LOCALHOST, "::1", "localhost", ""])
def test_a_port_can_be_bound_unless_somebody_has_it(address: str) -> None:
    """This covers IPv4 and IPv6 addresses, names, and all interfaces."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    if address == "localhost":
        family = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)[0][0]
    with closing(socket.create_server((address, 0), family=family)) as server:
        port = server.getsockname()[1]
        assert not can_listen(port, address)
    assert can_listen(port, address)
    assert not can_listen(port, "no.such.host.invalid")


def test_no_port_is_given_again_before_its_server_may_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, a broker could get the port of a ZooKeeper that is still starting."""
    numbers = iter([25_000, 25_000, 25_001, 25_001, 25_000, 25_002])
    monkeypatch.setattr(ports, "_given", type(ports._given)(maxlen=2))
    monkeypatch.setattr(ports._random, "choice", lambda _: next(numbers))
    monkeypatch.setattr(ports, "_is_bound", lambda probe, address: True)
    assert ports.free_port() == 25_000
    assert ports.free_ports(1) == [25_001]
    assert ports.free_ports(1) == [25_002]


def test_ports_in_use_are_skipped_and_no_connection_can_take_the_others() -> None:
    assert all(port in ports.SERVER_PORTS for port in ports.free_ports(50))
    assert ports.free_ports(0) == []
    with closing(socket.create_server((LOCALHOST, ports.free_port()))) as server, socket.socket() as probe:
        assert not ports._is_bound(probe, server.getsockname())


def test_no_port_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_is_bound", lambda probe, address: False)
    monkeypatch.setattr(ports, "_MOST_TRIES", 10)
    with pytest.raises(OSError, match="no free port found from 20000 to 31999"):
        ports.free_port()
