"""The page's daily work on real clusters, over HTTP: what it shows and changes, as whom, and who is refused."""

import http.client
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.config.authorizer_class import ACL_AUTHORIZER
from kafka_zk.clients.admin.admin import NewTopic
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.admin.group_admin import CommittedOffset
from kafka_zk.clients.consumer.blocking_consumer import BlockingConsumer
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.cluster_security import ADMIN, CLIENT, FOLDER, ClusterSecurity
from kafka_zk.registry.client.kazoo_blocking import run_blocking
from kafka_zk.registry.offsets import OffsetRegistry
from kafka_zk.security.acl import Acl, Operation, Pattern, PatternType, Permission, ResourceType
from kafka_zk.testing.plugin import MakeCluster, MakeTopic, MakeZkClient
from tests.integration.processes import start, wait_for

pytestmark = [pytest.mark.integration, pytest.mark.embedded]

TIMEOUT_S = 60
T0 = TopicPartition("orders", 0)
VALUE = b"the value of a record"


class OpenedPage:
    """The page of a ``kafka-zk web``. ``may_act``, ``shows_values``: it printed an address for that."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        self._port = urlsplit(told["url"]).port
        self._read = parse_qs(urlsplit(told["url"]).fragment)["token"][0]
        self.may_act = bool(told["break_url"])
        self.shows_values = bool(told["values_url"])
        self._values = parse_qs(urlsplit(told["values_url"]).fragment)["values"][0] if self.shows_values else "guessed"
        self._act = parse_qs(urlsplit(told["break_url"]).fragment)["break"][0] if self.may_act else "guessed"

    def ask(self, question: str) -> tuple[int, Any]:
        return self._answer("GET", f"/api-{question}{'&' if '?' in question else '?'}token={self._read}", "", {})

    def act(self, **request: Any) -> tuple[int, Any]:
        return self._answer("POST", "/api-break", json.dumps(request), {"x-kafka-zk-token": self._act})

    def records(self, query: str) -> tuple[int, Any]:
        """A question with the token for records."""
        token = {"x-kafka-zk-token": self._values}
        return self._answer("GET", f"/api-messages?{query}&token={self._read}", "", token)

    def acts(self) -> list[str]:
        """What the person has done, by the page's list."""
        told = self.ask(f"episodes?from_ms=0&to_ms={9 * 10**12}")[1]["episodes"]
        return [each["text"] for each in told if each["subject"] == "you"]

    def lag(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.ask(f"lag?time_ms={9 * 10**12}")[1]["rows"]
        return rows

    def _answer(self, method: str, path: str, body: str, headers: dict[str, str]) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT_S)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        document = json.loads(answer.read())
        connection.close()
        return answer.status, document


@contextmanager
def page(*arguments: str | Path) -> Iterator[OpenedPage]:
    process = start("web", "--port", "0", "--json", *arguments)
    try:
        yield OpenedPage(process)
    finally:
        process.terminate()
        process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 0


class Secured:
    """A cluster with SASL_SSL and ACLs, a topic with five records, and the group g, which has committed offset 3."""

    def __init__(self, data: Path, bootstrap: str) -> None:
        self.data, self.bootstrap = data, bootstrap
        self.login = ClusterSecurity.prepared(data / FOLDER).login
        with self.admin() as admin:
            admin.create_topics([NewTopic("orders", assignment={0: [0]}, configs={"retention.ms": "3600000"})])
            with BlockingProducer(bootstrap_servers=bootstrap, security=self.login(ADMIN)) as producer:
                for future in [producer.send("orders", VALUE, partition=0) for _ in range(5)]:
                    future.result()
            admin.groups.commit("g", {T0: CommittedOffset(3)})

    def admin(self) -> BlockingAdmin:
        return BlockingAdmin(bootstrap_servers=self.bootstrap, security=self.login(ADMIN))

    def committed(self) -> int:
        with self.admin() as admin:
            return admin.groups.committed("g")[T0].offset

    def client_file(self, user: str) -> tuple[str, Path]:
        return "--command-config", self.data / FOLDER / f"{user}.properties"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    data = tmp_path_factory.mktemp("web-operations") / "data"
    keys = {
        "authorizer.class.name": ACL_AUTHORIZER,
        "super.users": f"User:{ADMIN}",
        "offsets.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
    options = [part for key, value in keys.items() for part in ("-o", f"{key}={value}")]
    process = start("up", "--secure", "--brokers", "1", "--port", "0", "--json", "--data", data, *options)
    assert process.stdout is not None
    told = next(line for line in map(json.loads, process.stdout) if line["event"] == "ready")
    try:
        yield Secured(data, told["bootstrap"])
    finally:
        process.terminate()
        process.communicate(timeout=TIMEOUT_S)


def test_over_sasl_ssl_it_acts_as_its_principal_and_says_so(secured: Secured) -> None:
    with page("--data", secured.data, *secured.client_file(ADMIN)) as opened:
        told = opened.ask("configs?topic=orders")[1]
        assert "orders" in told["topics"] and told["principal"] == "User:admin"
        retention = next(each for each in told["configs"] if each["name"] == "retention.ms")
        assert (retention["value"], retention["source"]) == ("3600000", "DYNAMIC_TOPIC_CONFIG")
        row = wait_for(lambda: next((each for each in opened.lag() if each["group"] == "g"), None), "the group")
        assert (row["partition"], row["committed"], row["end"], row["lag"]) == ("orders-0", 3, 5, 2)
        check_reset(secured, opened)
        check_config(secured, opened)


def check_reset(secured: Secured, opened: OpenedPage) -> None:
    """The plan changes nothing; a live member is a refusal with Kafka's error; then the act is recorded."""
    asked = {"action": "plan-reset", "group": "g", "type": "", "topics": [], "to": "earliest"}
    status, plan = opened.act(**asked)
    assert (status, plan["principal"]) == (200, "User:admin"), plan
    assert plan["rows"] == [{"topic": "orders", "partition": 0, "current": 3, "new": 0}]
    assert secured.committed() == 3 and opened.acts() == []
    member = BlockingConsumer(
        ["orders"], group_id="g", bootstrap_servers=secured.bootstrap, security=secured.login(ADMIN),
        enable_auto_commit=False,
    )  # fmt: skip
    with member:
        member.start()
        wait_for(lambda: "NON_EMPTY_GROUP" in opened.act(**asked)[1].get("error", ""), "the refusal of a new plan")
        status, refused = opened.act(action="reset-offsets", plan=plan["plan"])
        assert status == 409 and "NON_EMPTY_GROUP" in refused["error"] and "stop them first" in refused["error"]
    again = wait_for(lambda: opened.act(**asked)[1].get("plan"), "the group without members")
    status, done = opened.act(action="reset-offsets", plan=again)
    assert (status, done["count"], done["principal"]) == (200, 1, "User:admin")
    assert secured.committed() == 0
    [act] = wait_for(opened.acts, "the recorded act")
    assert act == "reset-offsets group g. Expect: its members start at the new offsets of orders (as User:admin)"
    wait_for(lambda: [each["lag"] for each in opened.lag() if each["group"] == "g"] == [5], "the new lag")


def check_config(secured: Secured, opened: OpenedPage) -> None:
    plan = opened.act(action="plan-config", topic="orders", key="retention.ms", value="x")[1]
    status, refused = opened.act(action="set-config", plan=plan["plan"])
    assert status == 409 and "INVALID_CONFIG" in refused["error"], "the brokers check the value"
    plan = opened.act(action="plan-config", topic="orders", key="retention.ms", value="7200000")[1]
    assert (plan["current"]["value"], plan["new"]) == ("3600000", "7200000")
    assert opened.act(action="set-config", plan=plan["plan"])[0] == 200
    with secured.admin() as admin:
        entries = {each.name: each.value for each in admin.describe_topic_configs(["orders"])["orders"]}
    assert entries["retention.ms"] == "7200000"
    expected = "set-config topic orders. Expect: retention.ms becomes 7200000 (as User:admin)"
    wait_for(lambda: expected in opened.acts(), "the recorded act")


def test_records_need_their_token_and_are_in_no_recording(secured: Secured, tmp_path: Path) -> None:
    written = "a value that only its readers see"
    recording = tmp_path / "recording.sqlite"
    options = ("--data", secured.data, *secured.client_file(ADMIN), "--record", recording)
    with page(*options) as opened:
        assert not opened.shows_values
        assert opened.records("topic=orders")[0] == 404, "there is nothing that a token could open"
    with page(*options, "--allow-values") as opened:
        assert opened.ask("messages?topic=orders")[0] == 403
        planned = opened.act(action="plan-record", topic="orders", partition=0, value=written)[1]
        assert (planned["value_bytes"], planned["principal"]) == (len(written), "User:admin")
        status, sent = opened.act(action="send-record", plan=planned["plan"])
        assert (status, sent["partition"]) == (200, 0), sent
        status, told = opened.records("topic=orders")
        assert status == 200 and told["principal"] == "User:admin", told
        last = told["records"][-1]
        assert (last["offset"], last["key"], last["value"]["text"]) == (sent["offset"], None, written)
        place = f"the record has offset {sent['offset']} in orders-0 (as User:admin)"
        expected = f"send-record topic orders. Expect: {place}"
        wait_for(lambda: expected in opened.acts(), "the recorded act")
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"send-record" in kept and written.encode() not in kept and VALUE not in kept


def test_acls_hold_for_the_page_as_for_any_client(secured: Secured) -> None:
    """A principal that may only describe sees the plan, and Kafka refuses its act."""
    before = secured.committed()
    may_describe = [Acl(f"User:{CLIENT}", "*", Operation.DESCRIBE, Permission.ALLOW)]
    with page("--data", secured.data, *secured.client_file(CLIENT)) as opened:
        assert opened.ask("configs")[1]["topics"] == []
        status, refused = opened.ask("configs?topic=orders")
        assert status == 409 and "no topic orders" in refused["error"]
        asked = {"action": "plan-reset", "group": "g", "type": "broker", "topics": [], "to": "latest"}
        assert "there is no group g" in opened.act(**asked)[1]["error"]
        with secured.admin() as admin:
            admin.acls.add_acls(
                {
                    Pattern(ResourceType.TOPIC, "orders", PatternType.LITERAL): may_describe,
                    Pattern(ResourceType.GROUP, "g", PatternType.LITERAL): may_describe,
                }
            )
        plan = wait_for(lambda: opened.act(**asked)[1].get("plan"), "the right to describe")
        status, refused = opened.act(action="reset-offsets", plan=plan)
        assert status == 409 and "AUTHORIZATION_FAILED" in refused["error"], refused
        assert opened.acts() == [] and secured.committed() == before
        assert "TOPIC_AUTHORIZATION_FAILED" in opened.ask("configs?topic=orders")[1]["error"]


def test_a_cluster_that_up_did_not_start_is_changed_only_if_that_is_allowed(
    make_cluster: MakeCluster, make_topic: MakeTopic, make_zk_client: MakeZkClient
) -> None:
    """ZooKeeper's groups, too; there, the page is anyone."""
    cluster = make_cluster()
    tp = TopicPartition(make_topic("letters", cluster=cluster), 0)
    offsets = OffsetRegistry(make_zk_client(cluster.zookeeper_connect), "old")
    run_blocking(offsets.store({tp: 7}))
    asked = {"action": "plan-reset", "group": "old", "type": "zookeeper", "topics": [], "to": "earliest"}
    with page("--zookeeper", cluster.zookeeper_connect) as opened:
        assert not opened.may_act
        assert opened.act(**asked)[0] == 403
        assert tp.topic in opened.ask("configs")[1]["topics"], "it may read"
        recording = opened.ask("recording")[1]
        assert (recording["can_ask"], recording["can_act"], recording["can_break"]) == (True, False, False)
    with page("--zookeeper", cluster.zookeeper_connect, "--allow-changes") as opened:
        assert opened.may_act
        plan = opened.act(**asked)[1]
        assert plan["rows"] == [{"topic": tp.topic, "partition": 0, "current": 7, "new": 0}]
        assert opened.act(action="reset-offsets", plan=plan["plan"])[1]["principal"] == "world:anyone"
        assert run_blocking(offsets.fetch([tp]))[tp].offset == 0
        wait_for(lambda: "group old" in "".join(opened.acts()), "the recorded act")
        status, refused = opened.act(action="kill", broker=0)
        assert status == 409 and "only a kafka-zk up cluster can be broken" in refused["error"]
