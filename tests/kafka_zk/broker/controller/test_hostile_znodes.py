"""An invalid znode harms at most its own partition, never another topic. The partition recovers when the znode is
repaired.
"""

import json
import logging
from collections.abc import Iterator

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.registry.client.client import Create
from kafka_zk.registry.client.errors import NoAuth
from kafka_zk.registry.client.pipeline import create_with_parents
from kafka_zk.registry.controller import ControllerRegistry, Elected
from kafka_zk.registry.faults import TOLD_COUNT
from kafka_zk.registry.groups import delete_tree
from kafka_zk.registry.znodes import json_codec
from kafka_zk.registry.znodes.controller import CONTROLLER, CONTROLLER_EPOCH
from kafka_zk.registry.znodes.topics import LeaderIsrAndControllerEpoch, encode_state, state_path, topic_path
from tests.kafka_zk.broker.controller.world import Cluster, led_by

BEYOND_INT32 = 3_000_000_000
HEALING_MS = 25_000


@pytest.fixture(autouse=True)
def no_event_fails(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


def put(cluster: Cluster, path: str, data: bytes) -> None:
    """Write the znode, whether or not it exists, like a tool or an administrator."""
    if cluster.zookeeper.tree.exists(path) is None:
        cluster.scheduler.run(create_with_parents(cluster.tool, Create(path, data)))
    else:
        cluster.set(path, data)


def errors_about(caplog: pytest.LogCaptureFixture, path: str) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR and path in r.getMessage()]


def big(partitions: object) -> bytes:
    return json_codec.encode({"version": 1, "partitions": partitions})


def fail_over(cluster: Cluster) -> None:
    cluster.scheduler.run(cluster.tool.delete(CONTROLLER))
    cluster.settle()


def test_a_partition_id_beyond_32_bits_keeps_no_topic_from_its_leader(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    put(cluster, topic_path("big"), big({"0": [1], str(BEYOND_INT32): [0], "1": [BEYOND_INT32]}))
    cluster.settle()
    cluster.create("later", {0: [0], 1: [1], 2: [2]})
    cluster.settle()
    assert led_by(cluster, "later") == {0: 0, 1: 1, 2: 2}
    assert led_by(cluster, "big") == {0: 1}
    assert len(errors_about(caplog, topic_path("big"))) == 2
    assert all(sorted(broker.metadata.topics) == ["big", "later"] for broker in cluster.brokers)


@pytest.mark.parametrize("partitions", [{str(BEYOND_INT32): [0]}, {"0": [0, BEYOND_INT32]}, "garbage", {"0": None}])
def test_existing_topics_are_served_after_a_failover_with_it(cluster: Cluster, partitions: object) -> None:
    cluster.create("old", {0: [0], 1: [1]})
    put(cluster, topic_path("big"), big(partitions))
    cluster.settle()
    cluster.kill(0)
    cluster.settle(10_000)
    broker = cluster.restart(0)
    cluster.settle()
    assert led_by(cluster, "old") == {0: 0, 1: 1}
    assert "old" in broker.metadata.topics
    cluster.create("later", {0: [2]})
    cluster.settle()
    assert led_by(cluster, "later") == {0: 2}


def test_a_topic_that_is_mended_is_led(cluster: Cluster) -> None:
    """The controller leads the topic even if it was elected while the znode could not be decoded."""
    cluster.create("t", {0: [1], 1: [2]})
    cluster.settle()
    good, _ = cluster.zookeeper.tree.get(topic_path("t"))
    assert good is not None
    put(cluster, topic_path("t"), b"\xff")
    fail_over(cluster)
    put(cluster, topic_path("t"), good)
    cluster.settle()
    assert led_by(cluster, "t") == {0: 1, 1: 2}
    assert {tp: state.leader for tp, state in cluster.controller.context.leadership.items()} == {
        TopicPartition("t", 0): 1,
        TopicPartition("t", 1): 2,
    }


@pytest.mark.parametrize(
    "garbage", [b"", b"{}", b"\xff", b'{"leader":1,"isr":[1],"leader_epoch":3000000000,"controller_epoch":1}']
)
def test_a_state_that_is_mended_is_taken_up_without_another_event(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, garbage: bytes
) -> None:
    cluster.create("t", {0: [1], 1: [1]})
    cluster.settle()
    good, _ = cluster.zookeeper.tree.get(state_path("t", 0))
    assert good is not None
    put(cluster, state_path("t", 0), garbage)
    for broker in cluster.brokers:
        broker.replicas.clear()
    fail_over(cluster)
    cluster.settle(4 * HEALING_MS)
    assert led_by(cluster, "t") == {1: 1}
    assert len(errors_about(caplog, state_path("t", 0))) == 1
    put(cluster, state_path("t", 0), good)
    cluster.settle(HEALING_MS)
    assert led_by(cluster, "t") == {0: 1, 1: 1}


def test_a_leader_epoch_that_cannot_grow_harms_its_partition_only(cluster: Cluster) -> None:
    cluster.create("t", {0: [2, 1], 1: [2, 1]})
    cluster.settle()
    state = LeaderIsrAndControllerEpoch(2, [2, 1], 2**31 - 1, 1)
    put(cluster, state_path("t", 0), encode_state(state))
    cluster.kill(2)
    cluster.settle(10_000)
    assert led_by(cluster, "t") == {1: 1}
    cluster.create("later", {0: [0]})
    cluster.settle()
    assert led_by(cluster, "later") == {0: 0}


def test_a_controller_epoch_of_the_future_is_not_believed_for_ever(cluster: Cluster) -> None:
    """The state of one partition claims a later controller epoch; the partition is led again when the state is
    repaired.
    """
    cluster.create("t", {0: [2, 1], 1: [2, 1]})
    cluster.settle()
    put(cluster, state_path("t", 0), encode_state(LeaderIsrAndControllerEpoch(2, [2, 1], 0, 2**31 - 1)))
    cluster.kill(2)
    cluster.settle(10_000)
    assert led_by(cluster, "t") == {1: 1}
    put(cluster, state_path("t", 0), encode_state(LeaderIsrAndControllerEpoch(2, [2, 1], 0, 1)))
    cluster.settle(HEALING_MS)
    assert led_by(cluster, "t") == {0: 1, 1: 1}


@pytest.mark.parametrize("garbage", [b"", b"x", b"-1", b"3000000000", b"2147483647", b"\xff\xff"])
def test_garbage_in_the_controller_epoch_delays_the_election_until_it_is_mended(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, garbage: bytes
) -> None:
    cluster.create("old", {0: [1]})
    cluster.settle()
    put(cluster, CONTROLLER_EPOCH, garbage)
    cluster.scheduler.run(cluster.tool.delete(CONTROLLER))
    cluster.settle(HEALING_MS)
    assert cluster.active == []
    assert len(errors_about(caplog, CONTROLLER_EPOCH)) == len(cluster.brokers)  # each broker sends one
    put(cluster, CONTROLLER_EPOCH, b"7")
    cluster.settle(500)
    assert cluster.controller.controller_epoch == 8
    cluster.create("later", {0: [2]})
    cluster.settle()
    assert (led_by(cluster, "old"), led_by(cluster, "later")) == ({0: 1}, {0: 2})


@pytest.mark.parametrize("garbage", [b"", b"x", b'{"brokerid":3000000000}'])
def test_garbage_in_the_controllers_claim_delays_the_election_until_it_is_gone(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, garbage: bytes
) -> None:
    cluster.scheduler.run(cluster.tool.delete(CONTROLLER))
    put(cluster, CONTROLLER, garbage)
    cluster.settle(HEALING_MS)
    cluster.scheduler.run(cluster.tool.delete(CONTROLLER))
    cluster.settle()
    cluster.create("later", {0: [2]})
    cluster.settle()
    assert led_by(cluster, "later") == {0: 2}


def test_an_epoch_that_went_back_is_passed_again(cluster: Cluster) -> None:
    """Brokers refuse a controller whose epoch is below the one they know."""
    for _ in range(3):
        fail_over(cluster)
    put(cluster, CONTROLLER_EPOCH, b"0")
    cluster.settle(2000)
    cluster.create("later", {0: [2]})
    cluster.settle()
    assert led_by(cluster, "later") == {0: 2}


@pytest.mark.parametrize("name", ["3000000000", "00", "-1", "a", "9" * 5000])
def test_a_registration_under_a_name_that_is_no_broker_id_is_ignored(cluster: Cluster, name: str) -> None:
    data, _ = cluster.zookeeper.tree.get("/brokers/ids/1")
    assert data is not None
    put(cluster, f"/brokers/ids/{name}", data)
    cluster.create("later", {0: [2]})
    cluster.settle()
    assert led_by(cluster, "later") == {0: 2}
    assert all(sorted(broker.metadata.brokers) == [0, 1, 2] for broker in cluster.brokers)


@pytest.mark.parametrize("name", ["a b", "x" * 250, "x" * 40_000, "ü"])
def test_a_topic_of_an_illegal_name_is_ignored(cluster: Cluster, caplog: pytest.LogCaptureFixture, name: str) -> None:
    """Not every version of every response could contain the name, nor could a file name."""
    put(cluster, topic_path(name), big({"0": [1]}))
    cluster.settle()
    cluster.create("later", {0: [2]})
    cluster.settle()
    assert led_by(cluster, "later") == {0: 2}
    assert all(sorted(broker.metadata.topics) == ["later"] for broker in cluster.brokers)
    assert len(errors_about(caplog, topic_path(name)[:80])) == 1


def test_a_topic_id_that_is_none_is_replaced(cluster: Cluster) -> None:
    put(cluster, topic_path("t"), b'{"version":3,"partitions":{"0":[1]},"topic_id":"garbage"}')
    cluster.settle()
    assert led_by(cluster, "t") == {0: 1}
    assert cluster.assignment("t").topic_id == cluster.controller.context.topic_ids["t"]


def test_elections_do_not_come_faster_with_every_garbage_that_is_written(cluster: Cluster) -> None:
    put(cluster, CONTROLLER_EPOCH, b"x")
    cluster.scheduler.run(cluster.tool.delete(CONTROLLER))
    cluster.settle()
    before = cluster.zookeeper.counts.total()
    cluster.settle(HEALING_MS)
    in_peace = cluster.zookeeper.counts.total() - before
    for number in range(30):
        put(cluster, CONTROLLER_EPOCH, b"x%d" % number)
        cluster.settle(37)
    before = cluster.zookeeper.counts.total()
    cluster.settle(HEALING_MS)
    assert cluster.zookeeper.counts.total() - before <= in_peace * 1.2


@pytest.mark.parametrize("listed", [{"0": [1], "1": "2"}, {"0": [1], "3000000000": [2]}])
def test_an_entry_that_cannot_be_understood_stays_in_the_znode_for_whoever_mends_it(
    cluster: Cluster, listed: object
) -> None:
    """The entry stays even when the controller adds the topic id that the old tool had omitted."""
    put(cluster, topic_path("t"), big(listed))
    cluster.settle()
    assert led_by(cluster, "t") == {0: 1}
    data, _ = cluster.zookeeper.tree.get(topic_path("t"))
    stored = json.loads(data or b"")
    assert stored["partitions"] == listed
    fail_over(cluster)
    assert led_by(cluster, "t") == {0: 1}


def test_a_refusal_is_told_again_for_another_topic_of_the_name(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    def warnings() -> int:
        lines = [record.getMessage() for record in caplog.records]
        return sum("is impossible for" in line and "t-0" in line for line in lines)

    for expected in (1, 2, 3):
        cluster.create("t", {0: [7]})
        cluster.settle()
        assert warnings() == expected
        cluster.scheduler.run(delete_tree(cluster.tool, topic_path("t")))
        cluster.settle()


def test_many_partitions_without_a_live_replica_are_one_line(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create("t", {number: [7] for number in range(1_200)})
    cluster.settle()
    lines = [record.getMessage() for record in caplog.records if "is impossible for" in record.getMessage()]
    assert len(lines) == 1 and "t-0, t-1, t-2, t-3, t-4 and 1195 more" in lines[0]


def test_many_entries_that_cannot_be_parsed_are_a_few_lines(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    put(cluster, topic_path("t"), big({"0": [1], **{f"x{number}": [1] for number in range(100)}}))
    cluster.settle()
    assert led_by(cluster, "t") == {0: 1}
    told = errors_about(caplog, topic_path("t"))
    assert len(told) == TOLD_COUNT + 1 and "95 more" in told[-1]


@pytest.mark.parametrize("name", ["t", "a b"])
def test_garbage_is_told_again_for_another_topic_of_the_name(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    for expected in (1, 2):
        put(cluster, topic_path(name), b"garbage")
        cluster.settle()
        assert len(errors_about(caplog, topic_path(name))) == expected
        cluster.scheduler.run(cluster.tool.delete(topic_path(name)))
        cluster.settle()


def test_an_election_that_an_acl_forbids_is_tried_again_until_it_is_allowed(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forbidden(*_: object) -> Elected:
        raise NoAuth(f"{CONTROLLER_EPOCH}: its ACL does not allow this")

    with monkeypatch.context() as forbidding:
        forbidding.setattr(ControllerRegistry, "elect", forbidden)
        cluster.scheduler.run(cluster.tool.delete(CONTROLLER))
        cluster.settle(HEALING_MS)
        assert cluster.active == []
        assert len(errors_about(caplog, CONTROLLER_EPOCH)) == len(cluster.brokers)
    cluster.settle(2000)
    assert cluster.controller.is_active
