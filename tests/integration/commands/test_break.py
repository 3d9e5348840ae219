"""Each action of ``kafka-zk break`` on a cluster of ``up``, from another process, and its refusals."""

import itertools
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest
from kafka import KafkaProducer

from kafka_zk.embedded.ports import free_ports
from kafka_zk.embedded.probe import ask_broker
from tests.integration.processes import kafka_zk, kafka_zk_json, running, start, wait_for

pytestmark = [pytest.mark.integration, pytest.mark.long]

SESSION_S = 4


class Cluster:
    """An ``up --json`` in the background, and ``break`` on its cluster."""

    def __init__(self, data: Path, brokers: int, *options: str) -> None:
        zookeeper_port = free_ports(1)[0]
        self.data = data
        self.process: Popen[str] = start(
            "up", "--json", "--brokers", str(brokers), "--port", "0", "--zookeeper-port", str(zookeeper_port),
            "--data", data, "-o", f"zookeeper.session.timeout.ms={SESSION_S * 1000}", *options,
        )  # fmt: skip
        self.pids: dict[int, int] = {}
        self.ports: dict[int, int] = {}
        while (event := self.next_event())["event"] != "ready":
            if event["event"] == "broker":
                self.pids[event["id"]], self.ports[event["id"]] = event["pid"], event["port"]
        self.zookeeper: str = event["zookeeper"]

    def next_event(self) -> dict[str, Any]:
        """The next line that ``up`` prints."""
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        event: dict[str, Any] = json.loads(line)
        return event

    def broken(self, *words: str) -> str:
        """The output of ``break``."""
        done = kafka_zk("break", *words, "--data", self.data)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout.strip()

    def refusal(self, *words: str) -> str:
        done = kafka_zk("break", *words, "--data", self.data)
        assert (done.returncode, done.stdout) == (1, ""), done
        return done.stderr.strip()

    def session(self, broker_id: int) -> str | None:
        """The session in which a broker is registered."""
        nodes = kafka_zk_json("znodes", "/brokers/ids", "--zookeeper", self.zookeeper)
        return next((node["ephemeralOwner"] for node in nodes if node["path"] == f"/brokers/ids/{broker_id}"), None)

    def members(self, group: str) -> list[str]:
        """The ids of the members of a ZooKeeper group; its first member creates the znodes."""
        path = f"/consumers/{group}/ids/"
        nodes = kafka_zk_json("znodes", "/consumers", "--zookeeper", self.zookeeper)
        return sorted(node["path"].removeprefix(path) for node in nodes if node["path"].startswith(path))

    def wait_registered(self, broker_id: int, other_than: str | None = None) -> None:
        wait_for(lambda: self.session(broker_id) not in (None, other_than), f"broker {broker_id} in a session")

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=60)
        return self.process.returncode


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two brokers behind proxies, which write traces; their sessions can expire."""
    folder = tmp_path_factory.mktemp("cluster")
    cluster = Cluster(folder / "data", 2, "--proxies", "--no-supervise", "--trace", str(folder / "trace"))
    try:
        yield cluster
        assert cluster.end() == 0
    finally:
        cluster.process.kill()
        cluster.process.communicate()


def test_a_killed_broker_is_started_again(cluster: Cluster) -> None:
    old = cluster.session(1)
    assert cluster.broken("kill", "1") == (
        f"broker 1 was killed; its session ends in at most {SESSION_S} s, then others lead its partitions: "
        "kafka-zk watch --cluster shows it; kafka-zk break restart 1 starts it again"
    )
    assert not running(cluster.pids[1])
    assert cluster.next_event() == {"event": "kill", "id": 1, "pid": cluster.pids[1]}
    assert cluster.refusal("pause", "1") == (
        "Error: broker 1 has already ended; kafka-zk break restart 1 starts it again"
    )
    told = cluster.broken("restart", "1")
    event = cluster.next_event()  # ``up`` reported no death, because ``break`` killed the broker
    assert (event["event"], event["id"]) == ("restart", 1)
    assert told.startswith(f"broker 1 starts as pid {event['pid']}; it registers once its old session is over")
    assert cluster.refusal("restart", "1") == f"Error: broker 1 is already running, as pid {event['pid']}"
    cluster.wait_registered(1, old)
    cluster.pids[1] = event["pid"]


def test_a_paused_broker_goes_on(cluster: Cluster) -> None:
    assert "broker 0 is paused; its session ends in 4 s unless kafka-zk break resume 0" in cluster.broken("pause", "0")
    assert cluster.next_event()["event"] == "pause"
    assert ") T " in Path(f"/proc/{cluster.pids[0]}/stat").read_text()
    assert cluster.refusal("pause", "0") == "Error: broker 0 is already paused"
    assert cluster.broken("resume", "0").startswith("broker 0 continues; ")
    assert cluster.next_event()["event"] == "resume"
    assert cluster.refusal("resume", "0") == "Error: broker 0 is not paused"
    wait_for(lambda: ask_broker("127.0.0.1", cluster.ports[0]), "an answer of broker 0")
    cluster.wait_registered(0)


def test_an_expired_broker_registers_in_a_new_session(cluster: Cluster) -> None:
    old = cluster.session(1)
    assert "of broker 1 is over, and its znodes are gone" in cluster.broken("expire", "1")
    cluster.wait_registered(1, old)


def test_a_session_of_the_dead_ends_at_once(cluster: Cluster) -> None:
    cluster.broken("kill", "1")
    cluster.broken("expire", "1")
    assert cluster.session(1) is None
    assert cluster.refusal("expire", "1") == "Error: broker 1 is not registered in ZooKeeper: it has no session"
    cluster.broken("restart", "1")
    cluster.wait_registered(1)
    assert [cluster.next_event()["event"] for _ in range(2)] == ["kill", "restart"]


def test_a_broker_that_is_cut_off_answers_its_clients_and_loses_its_session(cluster: Cluster) -> None:
    old = cluster.session(0)
    told = cluster.broken("cut", "0")
    assert told.startswith(f"broker 0 is cut off from ZooKeeper and the other brokers; its session ends in {SESSION_S}")
    assert cluster.refusal("cut", "0", "--from", "brokers") == "Error: broker 0 is already cut off"
    wait_for(lambda: cluster.session(0) is None, "the end of its session")
    assert ask_broker("127.0.0.1", cluster.ports[0]) is not None
    assert "broker 0 can connect again" in cluster.broken("mend", "0")
    cluster.wait_registered(0, old)
    assert cluster.refusal("mend", "0") == "Error: broker 0 is not cut off"
    assert [cluster.next_event()["event"] for _ in range(2)] == ["cut", "mend"]


def test_a_slow_connection_is_mended(cluster: Cluster) -> None:
    """Responses are late until ``mend``. The trace contains both actions."""
    told = cluster.broken("delay", "1", "--ms", "300", "--from", "brokers")
    assert told.startswith("traffic between broker 1 and the other brokers is delayed by 300 ms each way: ")
    cluster.broken("mend", "1")
    assert cluster.refusal("mend", "1") == "Error: broker 1 is not cut off"
    assert [cluster.next_event()["event"] for _ in range(2)] == ["delay", "mend"]
    lines = (cluster.data.parent / "trace" / "operator.jsonl").read_text().splitlines()
    acts = [(each["action"], each["target"]) for each in map(json.loads, lines)]
    assert acts[-2:] == [("delay", "broker 1"), ("mend", "broker 1")]


def test_a_broker_whose_disk_is_full_gives_up_its_log_directory(cluster: Cluster) -> None:
    """The next record makes the broker give up its only log directory; it ends, and can be started again."""
    told = cluster.broken("fill-disk", "1")
    assert told.startswith("the disk of broker 1 is full. Its files cannot grow any more")
    assert cluster.refusal("fill-disk", "1") == "Error: the disk of broker 1 is already full"
    old = cluster.pids[1]
    address = f"127.0.0.1:{cluster.ports[1]}"
    producer = start("produce", "--topic", "full", "--rate", "50", "--bootstrap-server", address)
    try:
        wait_for(lambda: not running(old), "its end")
    finally:
        producer.kill()
        producer.communicate()
    wait_for(lambda: cluster.session(1) is None, "the end of its session")
    cluster.broken("restart", "1")
    cluster.wait_registered(1)
    assert cluster.refusal("free-disk", "1") == "Error: the disk of broker 1 is not full"
    told_events = [cluster.next_event() for _ in range(2)]
    assert [each["event"] for each in told_events] == ["fill-disk", "restart"]
    cluster.pids[1] = told_events[1]["pid"]


def test_members_and_producers_come_and_go(cluster: Cluster) -> None:
    """Members of both types of groups join and leave; they are child processes of ``up``."""
    assert cluster.broken("produce", "--rate", "20").startswith("20 records a second to flights. Records come in")
    assert cluster.broken("join", "board").startswith("board/anna starts as pid ")
    assert cluster.broken("join", "board").startswith("board/ben starts as pid ")
    joined = json.loads(cluster.broken("join", "loader", "--type", "broker", "--json"))
    assert (joined["member"], joined["topic"], joined["state"]) == ("loader/anna", "flights", "running")
    wait_for(lambda: cluster.members("board") == ["board_anna", "board_ben"], "both members")
    bootstrap = f"127.0.0.1:{cluster.ports[0]}"

    def lag() -> bool:
        done = kafka_zk("groups", "describe", "--group", "loader", "--bootstrap-server", bootstrap)
        return "anna" in done.stdout

    wait_for(lag, "the member of the broker's group")
    assert cluster.broken("leave", "board/anna").startswith("board/anna leaves. It commits")
    wait_for(lambda: cluster.members("board") == ["board_ben"], "one to leave")
    assert cluster.broken("crash", "board/ben").startswith("board/ben was killed. It leaves without notice")
    assert cluster.refusal("leave", "board/ben").startswith("Error: board/ben was not started by kafka-zk break join")
    assert cluster.refusal("join", "a/b").startswith("Error: 'a/b' cannot be the group: letters, digits")
    assert cluster.broken("produce", "flights", "--rate", "0").startswith("0 records a second to flights")
    cluster.broken("leave", "loader/anna")
    events = [cluster.next_event() for _ in range(8)]
    assert [(each["event"], each["of"]) for each in events[:2]] == [("produce", "flights"), ("join", "board/anna")]


def test_the_controller_is_a_broker_too(cluster: Cluster) -> None:
    wait_for(lambda: _controller(cluster) is not None, "a controller")
    controller_id = _controller(cluster)
    assert cluster.broken("pause", "controller").startswith(f"broker {controller_id} is paused")
    cluster.broken("resume", str(controller_id))
    assert [cluster.next_event()["id"] for _ in range(2)] == [controller_id] * 2


def _controller(cluster: Cluster) -> int | None:
    nodes = kafka_zk_json("znodes", "/controller", "--zookeeper", cluster.zookeeper)
    claims = [json.loads(node["data"]) for node in nodes if node["path"] == "/controller"]
    return claims[0]["brokerid"] if claims else None


def test_watching_the_cluster_shows_who_did_what_after_a_death(cluster: Cluster) -> None:
    """The output covers everything from the session's end to the new controller and its requests; the command finds the
    traces through ``up``.
    """
    wait_for(lambda: _controller(cluster) is not None, "a controller")
    old = _controller(cluster)
    watch = start("watch", "--cluster", "--zookeeper", cluster.zookeeper)
    try:
        assert watch.stdout
        lines = (line[14:].strip() for line in watch.stdout)
        first = [next(lines) for _ in range(2)]
        assert first == ["znodes        /brokers/ids: 0, 1 registered", f"znodes        /controller names broker {old}"]
        cluster.broken("kill", str(old))
        cluster.broken("expire", str(old))
        new = 1 - (old or 0)
        seen = list(itertools.takewhile(lambda line: "UpdateMetadata" not in line, lines))
        assert f"znodes        /brokers/ids: {old} gone, with its session" in seen
        fired = seen.index(f"controller {new}  watch on /controller fired: deleted")
        written = f"controller {new}  is elected controller, epoch "
        assert [line for line in seen[fired:] if line.startswith(written)], seen
        cluster.broken("restart", str(old))
        back = list(itertools.takewhile(lambda line: line != f"controller {new}  finds broker {old} started", lines))
        assert f"controller {new}  watch on /brokers/ids fired: child" in back
    finally:
        watch.terminate()
        watch.communicate(timeout=60)
    assert [cluster.next_event()["event"] for _ in range(2)] == ["kill", "restart"]


def test_brokers_and_clusters_that_are_not_there(cluster: Cluster, tmp_path: Path) -> None:
    assert cluster.refusal("kill", "7") == "Error: there is no broker 7: it must be 0, 1 or controller"
    done = kafka_zk("break", "kill", "0", "--data", tmp_path)
    assert (done.returncode, done.stderr) == (1, f"Error: no kafka-zk up cluster is running in {tmp_path}\n")
    done = kafka_zk("break", "kill", "0", "--zookeeper", "127.0.0.1:1")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: no kafka-zk up cluster with ZooKeeper 127.0.0.1:1 is running here, only ")


def test_a_cluster_is_found_by_its_zookeeper(cluster: Cluster) -> None:
    done = kafka_zk("break", "resume", "0", "--zookeeper", cluster.zookeeper)
    assert (done.returncode, done.stderr) == (1, "Error: broker 0 is not paused\n")


def test_up_lives_on_when_its_only_broker_is_killed_by_request(tmp_path: Path) -> None:
    """This cluster has no proxies, so ``break`` cannot cut off its broker."""
    alone = Cluster(tmp_path, 1)
    try:
        refused = "brokers can be cut off only in a cluster that was started with kafka-zk up --proxies"
        assert alone.refusal("cut", "0") == f"Error: {refused}"
        assert alone.broken("kill", "0").startswith("broker 0 was killed; its session is closed at once, then others")
        wait_for(lambda: alone.session(0) is None, "the end of its session", 2)
        assert alone.refusal("expire", "0") == "Error: broker 0 is not registered in ZooKeeper: it has no session"
        assert "; it registers and catches up with the leaders" in alone.broken("restart", "0")
        alone.wait_registered(0)
        assert alone.end() == 0
    finally:
        alone.process.kill()
        alone.process.communicate()
    done = kafka_zk("break", "kill", "0", "--data", tmp_path)
    assert done.stderr == f"Error: no kafka-zk up cluster is running in {tmp_path}\n"


def test_named_faults_begin_fire_and_end(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, 1, "--faults")
    try:
        assert cluster.refusal("fault", "error", "api=Produce") == "Error: error needs 'code'"
        assert cluster.refusal("fault", "disk_full") == "Error: disk_full needs --broker"
        leaderless = cluster.refusal("fault", "leader_moves", "topic=t", "partition=0")
        assert leaderless == "Error: partition t-0 does not exist"
        said = cluster.broken("fault", "error", "api=Produce", "code=NOT_LEADER_OR_FOLLOWER", "topic=t", "times=2")
        assert said.startswith("broker 0: fault 2, error api=PRODUCE code=NOT_LEADER_OR_FOLLOWER topic=t times=2, has")
        with KafkaProducer(bootstrap_servers=f"127.0.0.1:{cluster.ports[0]}") as producer:
            assert producer.send("t", b"a").get(timeout=20).offset == 0
        assert cluster.broken("faults").endswith("has fired 2 times")
        assert cluster.broken("end-faults").endswith("has fired 2 times")
        assert cluster.broken("faults") == "there are no faults"
        assert cluster.end() == 0
    finally:
        cluster.process.kill()
        cluster.process.communicate()
