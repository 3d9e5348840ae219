"""Brokers and group members that die under a supervisor: no one waits for their sessions, and their late requests do no
harm.

Requests of a dead process may still arrive after its session was closed. They are refused because of their broker
epoch, leader epoch or controller epoch. A paused process is not dead, and the cluster waits for the session of a
process without a supervisor.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.connection.reactor_thread import reactor_thread
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.embedded.process import ChildProcess, python_command
from kafka_zk.embedded.supervisor import Supervisor
from kafka_zk.learn.lesson.late_orders import late_leader_and_isr, late_write
from kafka_zk.network.client import KafkaConnection, connect
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch import read_fetch_response
from kafka_zk.protocol.fetch_request import FetchPartition, FetchRequest, FetchTopic, write_fetch_request
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.topics import TopicRegistry
from kafka_zk.registry.znodes.topics import LeaderIsrAndControllerEpoch
from kafka_zk.testing.clients import blocking_client
from kafka_zk.testing.plugin import MakeTopic
from kafka_zk.testing.timings import SESSION_TIMEOUT_MS
from kafka_zk.testing.zookeeper import Chroot, quick_cluster
from tests.integration.processes import wait_for

pytestmark = [pytest.mark.integration, pytest.mark.embedded]

SOON_S = 2.0
"""Half of the session timeout; most of it is reserve for a busy machine."""
FETCH_VERSION, ALTER_PARTITION_VERSION = 11, 1  # both versions name topics
TOPIC, PARTITIONS = "t", 6


class Watched(NamedTuple):
    """A cluster of three brokers, and a client of its ZooKeeper."""

    cluster: EmbeddedCluster
    client: KazooBlockingClient

    def broker_epoch(self, broker_id: int) -> int | None:
        async def look() -> int | None:
            stat = await self.client.exists(f"/brokers/ids/{broker_id}")
            return stat.czxid if stat else None

        return run_blocking(look())

    def version_of(self, path: str) -> int:
        async def look() -> int:
            return (await self.client.get(path))[1].version

        return run_blocking(look())

    def controller_epoch(self) -> int:
        async def look() -> int:
            return int((await self.client.get("/controller_epoch"))[0] or b"0")

        return run_blocking(look())

    def states(self) -> dict[TopicPartition, LeaderIsrAndControllerEpoch]:
        tps = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        return run_blocking(TopicRegistry(self.client).states(tps))

    def until_gone(self, broker_id: int) -> float:
        begun_s = time.monotonic()
        wait_for(lambda: self.broker_epoch(broker_id) is None, "the end of the session")
        return time.monotonic() - begun_s

    def ask(self, broker_id: int, question: Any) -> Any:
        thread, port = reactor_thread(), self.cluster.brokers[broker_id].port

        async def send() -> Any:
            connection = await connect(thread.reactor, "127.0.0.1", port)
            try:
                return await question(connection)
            finally:
                await connection.disconnect()

        return thread.call(send)


@pytest.fixture(scope="module")
def three(zookeeper_server: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """Every test leaves three running brokers."""
    where = Chroot(zookeeper_server, "/supervised").connect_string
    properties = {"replica.fetch.backoff.ms": "200"}
    with (
        quick_cluster(tmp_path_factory.mktemp("cluster"), 3, where, properties) as cluster,
        blocking_client(where) as client,
    ):
        with BlockingAdmin(bootstrap_servers=cluster.bootstrap) as admin:
            admin.create_topic(TOPIC, PARTITIONS, 3, {})
        watched = Watched(cluster, client)
        wait_for(lambda: all(len(state.isr) == 3 for state in watched.states().values()), "full ISRs", 20)
        yield watched


def late_alter_partition(
    three: Watched, to: int, sender: int, broker_epoch: int, tp: TopicPartition, old: LeaderIsrAndControllerEpoch
) -> ErrorCode:
    """Send the request that would make the dead broker the only member of the ISR."""
    cls = codec.request(ApiKey.ALTER_PARTITION)
    partition = cls.TopicData.PartitionData(
        partition_index=tp.partition, leader_epoch=old.leader_epoch, new_isr=[sender], leader_recovery_state=0,
        partition_epoch=old.zk_version,
    )  # fmt: skip
    topic = cls.TopicData(topic_name=tp.topic, partitions=[partition])
    message = cls(broker_id=sender, broker_epoch=broker_epoch, topics=[topic])

    async def question(connection: KafkaConnection) -> Any:
        return await connection.request(ApiKey.ALTER_PARTITION, message, version=ALTER_PARTITION_VERSION)

    return ErrorCode(three.ask(to, question).error_code)


def late_fetch(three: Watched, to: int, sender: int, tp: TopicPartition, leader_epoch: int) -> ErrorCode:
    partition = FetchPartition(
        partition=tp.partition, fetch_offset=0, partition_max_bytes=1000, current_leader_epoch=leader_epoch,
        log_start_offset=0,
    )  # fmt: skip
    request = FetchRequest(0, 0, [FetchTopic(tp.topic, None, [partition])], replica_id=sender)

    async def question(connection: KafkaConnection) -> Any:
        body = write_fetch_request(FETCH_VERSION, request)
        return read_fetch_response(FETCH_VERSION, await connection.send_raw(ApiKey.FETCH, FETCH_VERSION, [body]))

    ((_, (fetched,)),) = [(topic, topic.partitions) for topic in three.ask(to, question).topics]
    return ErrorCode(fetched.error_code)


def test_what_the_dead_have_sent_is_refused_after_their_session_was_closed(three: Watched) -> None:
    """The dead broker was controller, leader and follower. Its requests are refused even after it restarts with the
    same id.
    """
    cluster, client = three.cluster, three.client
    victim = cluster.controller_id()
    old_epoch, old_controller_epoch = three.broker_epoch(victim), three.controller_epoch()
    epoch_version, old = three.version_of("/controller_epoch"), three.states()
    assert old_epoch is not None
    led = next(tp for tp, state in old.items() if state.leader == victim)
    followed = next(tp for tp, state in old.items() if state.leader != victim)
    os.kill(cluster.brokers[victim].pid, signal.SIGKILL)
    assert three.until_gone(victim) < SOON_S < SESSION_TIMEOUT_MS / 1000

    def told() -> bool:
        return all(state.leader != victim and state.isr != [victim] for state in three.states().values())

    wait_for(lambda: told() and cluster.controller_id() not in (victim, -1), "other leaders", 20)
    cluster.wait_ready()
    now, controller = three.states(), cluster.controller_id()
    assert victim not in now[followed].isr
    living = now[led].leader

    def refusals() -> list[ErrorCode]:
        return [
            late_alter_partition(three, controller, victim, old_epoch or 0, led, old[led]),
            late_fetch(three, living, victim, led, old[led].leader_epoch),
            late_fetch(three, now[followed].leader, victim, followed, old[followed].leader_epoch),
            late_leader_and_isr(client, living, victim, old_controller_epoch, led, old[led]),
        ]

    fenced = [ErrorCode.STALE_BROKER_EPOCH, *[ErrorCode.FENCED_LEADER_EPOCH] * 2, ErrorCode.STALE_CONTROLLER_EPOCH]
    assert refusals() == fenced
    assert late_write(client, epoch_version, led, old[led])
    assert three.states() == now
    cluster.restart_broker(victim)
    assert (three.broker_epoch(victim) or 0) > old_epoch
    assert late_alter_partition(three, controller, victim, old_epoch, led, old[led]) is ErrorCode.STALE_BROKER_EPOCH


def test_a_restart_under_the_same_id_does_not_wait_for_the_session(three: Watched) -> None:
    """The end of the old session does not affect the new one either."""
    cluster = three.cluster
    victim = (cluster.controller_id() + 1) % 3
    before = three.broker_epoch(victim) or 0
    cluster.brokers[victim].kill()
    cluster.restart_broker(victim)
    after = three.broker_epoch(victim)
    assert after is not None and after > before
    assert "waits" not in cluster.brokers[victim].process.output()


def test_a_broker_that_is_paused_is_waited_for(three: Watched) -> None:
    """A paused broker may resume at any moment: only the end of its session proves that it cannot act."""
    cluster = three.cluster
    paused = (cluster.controller_id() + 1) % 3
    begun_s = time.monotonic()
    with cluster.brokers[paused].paused():
        three.until_gone(paused)
        assert time.monotonic() - begun_s > SESSION_TIMEOUT_MS / 1000 / 2
    wait_for(lambda: three.broker_epoch(paused) is not None, "the new registration", 20)
    cluster.wait_ready()


def test_a_session_that_was_renewed_is_the_one_that_is_closed(three: Watched, zookeeper_server: Any) -> None:
    cluster = three.cluster
    victim = (cluster.controller_id() + 1) % 3

    async def owner() -> int:
        stat = await three.client.exists(f"/brokers/ids/{victim}")
        return stat.ephemeral_owner if stat else 0

    first = wait_for(lambda: run_blocking(owner()), "a registration", 20)
    Chroot(zookeeper_server, "").expire_session(first)
    wait_for(lambda: run_blocking(owner()) not in (0, first), "the new session")
    cluster.brokers[victim].kill()
    assert three.until_gone(victim) < SOON_S
    cluster.restart_broker(victim)


def test_a_member_of_a_group_that_was_killed_holds_its_partitions_no_longer(
    kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, connect_string = make_topic(partitions=2), kafka_zk_cluster.zookeeper_connect
    member = ("consume", "--zookeeper", connect_string, "--group", "supervised", "--name", "anna", "--topic", topic)
    command, environ = python_command(*member)
    child = ChildProcess("anna", command, tmp_path / "log", environ, supervisor=Supervisor.on(connect_string, {}))
    with blocking_client(connect_string) as client:

        async def owned() -> int:
            if await client.exists(f"/consumers/supervised/owners/{topic}") is None:
                return 0
            return len((await client.children(f"/consumers/supervised/owners/{topic}"))[0])

        child.start()
        try:
            wait_for(lambda: run_blocking(owned()) == 2, "both partitions")
        finally:
            child.kill()
        begun_s = time.monotonic()
        wait_for(lambda: run_blocking(owned()) == 0, "the end of its claims")
        assert time.monotonic() - begun_s < SOON_S
