"""The processes of one run: ZooKeeper with the copy, a KRaft controller, and the stand-ins with their znodes."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from kafka_zk.base.clock import monotonic_s, wall_ms
from kafka_zk.clients.connection.errors import broker_error
from kafka_zk.clients.connection.reactor_thread import reactor_thread
from kafka_zk.embedded.interrupts import held
from kafka_zk.embedded.java import Java
from kafka_zk.embedded.kafka_jars import RELEASE, KafkaJars
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper
from kafka_zk.migration.rehearsal.controller import Controller, controller_id
from kafka_zk.migration.rehearsal.controller_log import ControllerLog
from kafka_zk.migration.rehearsal.copied_tree import CopiedTree, meaning
from kafka_zk.migration.rehearsal.loopback import LOOPBACK
from kafka_zk.migration.rehearsal.stand_in import State
from kafka_zk.migration.rehearsal.stand_ins import LISTENER, UNREACHED, StandIns
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.registry.client.errors import NodeExists, NoNode
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.client.pipeline import READS_AT_ONCE, read_all
from kafka_zk.registry.znodes import brokers
from kafka_zk.registry.znodes.brokers import BrokerInfo, EndPoint
from kafka_zk.storage.files.metadata_version import feature_level

_POLL_MS = 50
_CALL_TIMEOUT_S = 30
_SESSION_TIMEOUT_MS = 40_000
_MOST_EXAMPLES = 5

Progress = Callable[[str, float], AbstractContextManager[None]]
"""Shows what is waited for, and for how many seconds at most."""


class Equipment(NamedTuple):
    """``write_copy`` writes the copied tree's snapshot into a ``dataDir``."""

    tree: CopiedTree
    chroot: str
    write_copy: Callable[[Path], None]
    java: Java
    jars: KafkaJars
    progress: Progress


class Site:
    """A context manager; at the end all processes are gone. ``folder`` is not removed."""

    def __init__(self, folder: Path, equipment: Equipment) -> None:
        self._equipment = equipment
        self._folder = folder
        self._cleanup = ExitStack()
        self._thread = reactor_thread()
        tree = equipment.tree
        self.broker_ids = sorted(tree.broker_ids)
        self.controller = Controller(
            folder / "controller", controller_id(tree.broker_ids), equipment.java, equipment.jars
        )
        self._zookeeper = EmbeddedZooKeeper(folder / "zookeeper", force_sync=False)
        level = feature_level(RELEASE)
        assert level is not None
        self._stand_ins = StandIns(self._thread.reactor, self.broker_ids, tree.cluster_id, level, self.controller.port)

    def __enter__(self) -> "Site":
        self._folder.mkdir(mode=0o700)
        self._equipment.write_copy(self._folder / "zookeeper" / "data")
        try:
            with held():
                self._cleanup.callback(self._zookeeper.kill_if_started)
                self._cleanup.callback(self.controller.kill)
            self._zookeeper.start()
            self.client = KazooBlockingClient(self.connect_string, _SESSION_TIMEOUT_MS)
            self.client.start()
            self._cleanup.callback(self.client.close)
            self._call(self._stand_ins.open)
            self._cleanup.callback(self._call, self._stand_ins.close)
            self.controller.format(self._equipment.tree.cluster_id)
        except BaseException:
            self._cleanup.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    @property
    def connect_string(self) -> str:
        return f"{self._zookeeper.connect_string}{self._equipment.chroot}"

    @property
    def orders(self) -> Mapping[str, int]:
        return dict(self._stand_ins.orders)

    def until(self, is_reached: Callable[[ControllerLog], bool], limit_s: float, what: str) -> str:
        """Why it was not reached: the controller ended, or the limit passed; empty if it was."""
        end_s = monotonic_s() + limit_s
        with self._equipment.progress(what, limit_s):
            while not is_reached(self.controller.read_log()):
                if not self.controller.is_running:
                    return self.controller.describe_end()
                if monotonic_s() > end_s:
                    waits = self.controller.log.waits_for
                    return f"not reached within {limit_s:g} s" + (f"; the controller says: {waits}" if waits else "")
                self.client.process(_POLL_MS)
        return ""

    # --- stand-ins ---

    def start_brokers(self, broker_ids: Iterable[int], *, is_migrating: bool) -> None:
        """Brokers in migration mode need a znode, too (``register``)."""
        for broker_id in broker_ids:
            self._call(self._stand_ins.start, broker_id, is_migrating)

    def stop_broker(self, broker_id: int) -> None:
        self._call(self._stand_ins.stop, broker_id)

    def deregister(self, broker_id: int) -> None:
        self.delete(brokers.broker_path(broker_id))

    def are_all(self, state: State, broker_ids: Iterable[int]) -> bool:
        found = self._call(self._stand_ins.states)
        return all(found[broker_id][0] is state for broker_id in broker_ids)

    def heartbeats(self) -> dict[int, int]:
        """How many heartbeats of each stand-in the controller has confirmed."""
        found: dict[int, int] = self._call(self._stand_ins.heartbeats)
        return found

    def refusals(self) -> tuple[str, ...]:
        """Why the controller refused the last request of a stand-in."""
        found = self._call(self._stand_ins.states)
        return tuple(f"broker {broker_id} was refused: {error}" for broker_id, (_, error) in found.items() if error)

    def register(self, broker_ids: Iterable[int]) -> None:
        """Create the znodes of brokers that use ZooKeeper."""
        for broker_id in broker_ids:
            self._register(broker_id)

    def _register(self, broker_id: int) -> None:
        endpoint = EndPoint(LISTENER, "PLAINTEXT", LOOPBACK, self._stand_ins.port)
        data = brokers.encode(BrokerInfo.of(broker_id, (endpoint,), timestamp_ms=wall_ms()))
        for parent in ("/brokers", brokers.BROKER_IDS):
            try:
                run_blocking(self.client.create(parent))
            except NodeExists:
                continue
        run_blocking(self.client.create(brokers.broker_path(broker_id), data, ephemeral=True))

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self._thread.call(function, *arguments, timeout_s=_CALL_TIMEOUT_S)

    # --- topics ---

    def create_topic(self, name: str) -> str:
        """With one partition, by the controller. Returns why it was refused, or an empty text."""
        request = codec.request(ApiKey.CREATE_TOPICS)
        topic = request.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        return self._refusal(ApiKey.CREATE_TOPICS, request(topics=[topic]), "topics")

    def delete_topic(self, name: str) -> str:
        """Like ``create_topic``."""
        request = codec.request(ApiKey.DELETE_TOPICS)
        message = request(
            topics=[request.DeleteTopicState(name=name)], topic_names=[name], timeout_ms=_CALL_TIMEOUT_S * 1000
        )
        return self._refusal(ApiKey.DELETE_TOPICS, message, "responses")

    def _refusal(self, api_key: ApiKey, message: Any, name: str) -> str:
        """``name``: of the field with the only result."""
        try:
            answers = getattr(self._call(self._stand_ins.ask, api_key, message), name)
        except UNREACHED as error:
            return f"no response: {str(error) or type(error).__name__}"
        if len(answers) != 1:
            return f"the response has {len(answers)} results instead of one"
        answer = answers[0]
        if answer.error_code == ErrorCode.NONE:
            return ""
        return str(broker_error(answer.error_code, answer.error_message or "no reason given"))

    # --- znodes ---

    def exists(self, path: str) -> bool:
        async def read() -> bool:
            return await self.client.exists(path) is not None

        return run_blocking(read())

    def delete(self, path: str) -> None:
        """Also if it does not exist."""
        try:
            run_blocking(self.client.delete(path))
        except NoNode:
            return

    def losses(self, expected: Mapping[str, Any]) -> tuple[str, ...]:
        """One sentence for the znodes that are lost, and one for those with another meaning than ``expected``."""
        lost, changed = run_blocking(_compared(self.client, expected))
        found = []
        if lost:
            found.append(f"{_znodes(lost, 'is', 'are')} lost from ZooKeeper: {_examples(lost)}")
        if changed:
            found.append(f"{_znodes(changed, 'has', 'have')} another content: {_examples(changed)}")
        return tuple(found)


async def _compared(client: KazooBlockingClient, expected: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    lost, changed = [], []
    paths = sorted(expected)
    for start in range(0, len(paths), READS_AT_ONCE):
        window = paths[start : start + READS_AT_ONCE]
        for path, answer in zip(window, await read_all(client, window), strict=True):
            if not isinstance(answer, tuple):
                lost.append(path)
            elif meaning(path, answer[0]) != expected[path]:
                changed.append(path)
    return lost, changed


def _znodes(paths: list[str], one: str, many: str) -> str:
    return f"1 znode {one}" if len(paths) == 1 else f"{len(paths)} znodes {many}"


def _examples(paths: list[str]) -> str:
    more = len(paths) - _MOST_EXAMPLES
    return ", ".join(paths[:_MOST_EXAMPLES]) + (f" and {more} more" if more > 0 else "")
