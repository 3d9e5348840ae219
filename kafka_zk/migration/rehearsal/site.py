"""The processes of one run: ZooKeeper with the copy, KRaft controllers, and the brokers."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from kafka_zk.base.clock import monotonic_s
from kafka_zk.clients.connection.errors import broker_error
from kafka_zk.clients.connection.reactor_thread import reactor_thread
from kafka_zk.embedded.interrupts import held
from kafka_zk.embedded.java import Java
from kafka_zk.embedded.kafka_jars import RELEASE, KafkaJars
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper
from kafka_zk.migration.nodes import PROTOCOL
from kafka_zk.migration.rehearsal.broker_settings import Settings, of_controllers, secrets
from kafka_zk.migration.rehearsal.controller_log import ControllerLog
from kafka_zk.migration.rehearsal.controllers import PLAIN, Controllers, controller_ids
from kafka_zk.migration.rehearsal.copied_tree import CopiedTree, meaning
from kafka_zk.migration.rehearsal.fleet import Fleet, RealFleet, StandInFleet
from kafka_zk.migration.rehearsal.stand_ins import UNREACHED, StandIns
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.registry.client.errors import NoNode
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.client.pipeline import READS_AT_ONCE, read_all
from kafka_zk.registry.znodes import brokers
from kafka_zk.storage.files.metadata_version import feature_level

_POLL_MS = 50
_CALL_TIMEOUT_S = 30
_SESSION_TIMEOUT_MS = 40_000
_MOST_EXAMPLES = 5

Progress = Callable[[str, float], AbstractContextManager[None]]
"""Shows the condition that the run waits for, and the maximum wait in seconds."""


class Copy(NamedTuple):
    """``write`` writes the copied tree's snapshot into a ``dataDir``."""

    tree: CopiedTree
    chroot: str
    write: Callable[[Path], None]


class Equipment(NamedTuple):
    """``broker_settings``: the settings of real brokers, by id; empty for stand-ins."""

    copy: Copy
    java: Java
    jars: KafkaJars
    progress: Progress
    controller_count: int
    broker_settings: Mapping[int, Settings]


class Site:
    """A context manager that ends all processes at its exit. ``folder`` is not removed."""

    def __init__(self, folder: Path, equipment: Equipment) -> None:
        self._equipment = equipment
        self._folder = folder
        self._cleanup = ExitStack()
        self._thread = reactor_thread()
        tree, settings = equipment.copy.tree, equipment.broker_settings
        self.broker_ids = sorted(tree.broker_ids)
        hidden = sorted({secret for each in settings.values() for secret in secrets(each)})
        self.controllers = Controllers(
            folder, controller_ids(tree.broker_ids, equipment.controller_count), equipment.java, equipment.jars,
            of_controllers(next(iter(settings.values()))) if settings else PLAIN, hidden,
        )  # fmt: skip
        self._zookeeper = EmbeddedZooKeeper(folder / "zookeeper", force_sync=False)
        level = feature_level(RELEASE)
        assert level is not None
        self._stand_ins = StandIns(
            self._thread.reactor, () if settings else self.broker_ids, tree.cluster_id, level,
            self.controllers.ports.values(),
        )  # fmt: skip
        self._real: RealFleet | None = None
        if settings:
            quorum = self.controllers.quorum
            self._real = RealFleet(folder, settings, equipment.java, equipment.jars, quorum, hidden)

    def __enter__(self) -> "Site":
        self._folder.mkdir(mode=0o700)
        self._equipment.copy.write(self._folder / "zookeeper" / "data")
        try:
            with held():
                self._cleanup.callback(self._zookeeper.kill_if_started)
                self._cleanup.callback(self.controllers.kill)
                if self._real is not None:
                    self._cleanup.callback(self._real.kill)
            self._zookeeper.start()
            self.client = KazooBlockingClient(self.connect_string, _SESSION_TIMEOUT_MS)
            self.client.start()
            self._cleanup.callback(self.client.close)
            self._call(self._stand_ins.open)
            self._cleanup.callback(self._call, self._stand_ins.close)
            self.fleet: Fleet = self._fleet()
            self.controllers.format(self._equipment.copy.tree.cluster_id, self._release())
        except BaseException:
            self._cleanup.close()
            raise
        return self

    def _fleet(self) -> Fleet:
        if self._real is None:
            return StandInFleet(self._stand_ins, self._call, self.client)
        self._real.connect(self.connect_string, lambda broker_id: self.exists(brokers.broker_path(broker_id)))
        return self._real

    def _release(self) -> str | None:
        """The brokers' protocol version, which metadata.version must equal."""
        return next((each[PROTOCOL] for each in self._equipment.broker_settings.values() if PROTOCOL in each), None)

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    @property
    def connect_string(self) -> str:
        return f"{self._zookeeper.connect_string}{self._equipment.copy.chroot}"

    @property
    def orders(self) -> Mapping[str, int]:
        """The number of orders that controllers sent to the stand-ins, by API."""
        return dict(self._stand_ins.orders)

    def until(self, is_reached: Callable[[ControllerLog], bool], limit_s: float, what: str) -> str:
        """Wait until the condition is true. Returns why it did not become true (a process ended, or the limit passed),
        or an empty string."""
        end_s = monotonic_s() + limit_s
        with self._equipment.progress(what, limit_s):
            while not is_reached(self.controllers.read_log()):
                if ended := self._ended():
                    return ended
                if monotonic_s() > end_s:
                    waits = self.controllers.log.waits_for
                    return f"not reached within {limit_s:g} s" + (f"; the controller says: {waits}" if waits else "")
                self.client.process(_POLL_MS)
        return ""

    def _ended(self) -> str:
        """The processes that have ended but should run, as a sentence."""
        return "; ".join(filter(None, (self.controllers.ended(), self.fleet.ended())))

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self._thread.call(function, *arguments, timeout_s=_CALL_TIMEOUT_S)

    # --- topics ---

    def create_topic(self, name: str) -> str:
        """Ask the controller for a topic with one partition. Returns why it refused, or an empty string."""
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
        """``name``: the field of the response that contains its only result."""
        refusal = ""
        for _ in self.controllers.ports:
            try:
                answers = getattr(self._call(self._stand_ins.ask, api_key, message), name)
            except UNREACHED as error:
                return f"no response: {str(error) or type(error).__name__}"
            if len(answers) != 1:
                return f"the response has {len(answers)} results instead of one"
            answer = answers[0]
            if answer.error_code == ErrorCode.NONE:
                return ""
            refusal = str(broker_error(answer.error_code, answer.error_message or "no reason given"))
            if answer.error_code != ErrorCode.NOT_CONTROLLER:
                return refusal
            self._call(self._stand_ins.try_another_controller)
        return refusal

    # --- znodes ---

    def exists(self, path: str) -> bool:
        async def read() -> bool:
            return await self.client.exists(path) is not None

        return run_blocking(read())

    def delete(self, path: str) -> None:
        """Delete a znode, if it exists."""
        try:
            run_blocking(self.client.delete(path))
        except NoNode:
            return

    def losses(self, expected: Mapping[str, Any]) -> tuple[str, ...]:
        """A sentence about the znodes that are lost, and one about znodes whose content is not as ``expected``."""
        lost, changed = run_blocking(_compared(self.client, expected))
        found = []
        if lost:
            found.append(f"{_znodes(lost, 'is', 'are')} lost from ZooKeeper: {_examples(lost)}")
        if changed:
            found.append(f"{_znodes(changed, 'has', 'have')} different content: {_examples(changed)}")
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
