"""The page's tables of clients in a real Chromium: connected clients, denied requests with the reasons, and throttled
clients."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_zk.broker.config.authorizer_class import ACL_AUTHORIZER
from kafka_zk.clients.admin.admin import NewTopic
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.connection.errors import BrokerError
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.cluster_security import ADMIN, CLIENT, FOLDER, ClusterSecurity
from kafka_zk.security.acl import Acl, Operation, Pattern, PatternType, Permission, ResourceType
from tests.peers.web.web_browser import Page, UpCluster, cluster_with_page, until

pytestmark = pytest.mark.peers

_KEYS = {
    "authorizer.class.name": ACL_AUTHORIZER,
    "super.users": f"User:{ADMIN}",
    "quota.window.num": "2",
}
_BYTE_RATE = 50_000

_OVERFLOWS = """
    const panel = document.querySelector("table[data-clients]").closest(".wide");
    return panel.scrollWidth > panel.clientWidth;
"""


class Clients:
    """The clients of a secured cluster, whose files are in ``data``."""

    def __init__(self, up: UpCluster, data: Path) -> None:
        self._up = up
        self._security = ClusterSecurity.prepared(data / FOLDER)

    def admin(self) -> BlockingAdmin:
        return BlockingAdmin(bootstrap_servers=self._up.bootstrap, security=self._security.login(ADMIN))

    def producer(self) -> BlockingProducer:
        return BlockingProducer(
            bootstrap_servers=self._up.bootstrap,
            security=self._security.login(CLIENT),
            client_id="letters-app",
            enable_idempotence=False,
        )


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[UpCluster, Clients]]:
    data = tmp_path_factory.mktemp("web-clients") / "cluster"
    options = ["--secure", "--brokers", "2", *(part for each in _KEYS.items() for part in ("-o", "=".join(each)))]
    with cluster_with_page(data, *options) as up:
        yield up, Clients(up, data)


@pytest.fixture
def page(secured: tuple[UpCluster, Clients]) -> Iterator[Page]:
    opened = Page(secured[0].url)
    yield opened
    opened.close()


def rows(page: Page, title: str) -> list[list[str]]:
    """The cells of a table of the panel, without its head."""
    script = (
        "return [...document.querySelectorAll(`table[data-clients='${arguments[0]}'] tr`)].slice(1)"
        ".map((row) => [...row.children].map((cell) => cell.textContent))"
    )
    return list(page.driver.execute_script(script, title))


def test_who_is_connected_denied_and_throttled(secured: tuple[UpCluster, Clients], page: Page) -> None:
    """Each table says what happened, names the ACL, can be filtered, and has no violation according to axe-core."""
    _, clients = secured
    with clients.admin() as admin, clients.producer() as producer:
        admin.create_topics([NewTopic("letters", assignment={0: [1]})])
        connected = until(lambda: rows(page, "Who is connected as whom"), "the clients")
        assert {"User:admin"} <= {row[0] for row in connected} <= {"User:admin", "User:client"}
        assert {row[2] for row in connected} <= {"SASL_SSL", "REPLICATION (SASL_SSL)"}
        with pytest.raises(BrokerError):
            producer.send("letters", b"a", partition=0).result()
        denied = until(lambda: rows(page, "Who was denied what"), "the denial")
        assert denied[0][1:5] == [
            "User:client at 127.0.0.1", "Describe on Topic letters (Metadata)", "no ACL applies to it", "1"
        ]  # fmt: skip
        admin.acls.add_acls(
            {
                Pattern(ResourceType.TOPIC, "letters", PatternType.LITERAL): [
                    Acl(f"User:{CLIENT}", "*", Operation.WRITE, Permission.ALLOW)
                ]
            }
        )
        admin.alter_client_quotas({"user": CLIENT}, {"producer_byte_rate": float(_BYTE_RATE)})
        until(lambda: _is_sent(producer), "the ACL at the leader")

        def send_and_look() -> list[list[str]]:
            """The leader may read the quota late, so records that were sent before do not count."""
            for future in [producer.send("letters", bytes(10_000), partition=0) for _ in range(10)]:
                future.result()
            return rows(page, "Who is throttled")

        (throttled,) = until(send_and_look, "the throttle")
        assert throttled[:3] == ["client", "any", "producer_byte_rate"]
        assert throttled[4] == "50,000" and throttled[5].endswith(" ms")
        assert not page.driver.execute_script(_OVERFLOWS), "a table is wider than its panel"
    assert page.violations() == []
    page.type("#filter", "User:nothing-like-it")
    until(lambda: not page.count("table[data-clients]"), "no row of another name")
    page.type("#filter", "letters")
    until(lambda: rows(page, "Who was denied what") and not rows(page, "Who is connected as whom"), "the filter")
    assert page.errors() == []


def _is_sent(producer: BlockingProducer) -> bool:
    try:
        producer.send("letters", b"a", partition=0).result()
    except BrokerError:
        return False
    return True
