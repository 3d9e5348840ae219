"""C: one server of zookeeper.connect drops packets."""

from collections.abc import Callable, Iterator

import pytest
from kazoo.client import KazooClient

from kafka_zk.embedded.proxy import TcpProxy
from kafka_zk.testing.zookeeper import Chroot
from tests.attack.cluster import wait_for
from tests.attack.siege import Siege
from tests.black_hole import black_hole
from tests.integration.processes import kafka_zk

pytestmark = [pytest.mark.attack, pytest.mark.embedded]

BREAKS = 10
COMMANDS = 6
RESUMED_WITHIN_S = 20.0


@pytest.fixture
def hole() -> Iterator[str]:
    with black_hole() as address:
        yield address


def test_a_broker_keeps_its_session_and_commands_connect(
    make_siege: Callable[..., Siege],
    zookeeper: Chroot,
    hole: str,
    make_proxy: Callable[[str, int], TcpProxy],
) -> None:
    servers, _, chroot = zookeeper.connect_string.partition("/")
    proxies = [make_proxy("127.0.0.1", zookeeper.server.port) for _ in range(2)]
    connect = ",".join([hole, *(proxy.address for proxy in proxies)]) + f"/{chroot}"
    siege = make_siege(connect)
    onlooker = KazooClient(zookeeper.connect_string)
    onlooker.start()

    def connections() -> int:
        return sum(proxy.connection_count() for proxy in proxies)

    def attack() -> None:
        registered = onlooker.get("/brokers/ids/0")[1].czxid
        for _ in range(BREAKS):
            for proxy in proxies:
                proxy.drop_connections()
            wait_for(connections, "the broker is connected again", RESUMED_WITHIN_S)
        siege.victim.create_topic("after-the-breaks", timeout_s=RESUMED_WITHIN_S)
        assert onlooker.get("/brokers/ids/0")[1].czxid == registered, "the broker lost its session"
        for _ in range(COMMANDS):
            done = kafka_zk("znodes", "/brokers/ids", "--zookeeper", f"{hole},{servers}/{chroot}")
            assert done.returncode == 0, done.stderr

    try:
        siege("C a ZooKeeper server that drops packets", attack, deadline_s=120)
    finally:
        onlooker.stop()
        onlooker.close()
