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
    numbers = iter([5000, 5000, 5001, 5001, 5000, 5002])

    class Bound(socket.socket):
        def bind(self, address: object) -> None:
            self.number = next(numbers)

        def getsockname(self) -> tuple[str, int]:
            return LOCALHOST, self.number

    monkeypatch.setattr(ports, "_given", type(ports._given)(maxlen=2))
    monkeypatch.setattr(socket, "socket", Bound)
    assert ports.free_port() == 5000
    assert ports.free_port() == 5001
    assert ports.free_ports(1) == [5002]
