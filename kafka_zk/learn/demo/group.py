"""Consumers that join, leave and are killed."""

import textwrap
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.embedded.process import ChildProcess, python_command
from kafka_zk.embedded.supervisor import Supervisor
from kafka_zk.learn.demo.errors import DemoFailed
from kafka_zk.recorder.timeline.broker_timeline import BrokerTimeline
from kafka_zk.recorder.timeline.events import OwnersGone, OwnersSeen
from kafka_zk.recorder.timeline.group_observer import GroupObserver
from kafka_zk.recorder.timeline.rebalances import GroupRebalance
from kafka_zk.recorder.timeline.summary import Summaries
from kafka_zk.recorder.timeline.timeline import Timeline
from kafka_zk.recorder.timeline.trace_file import Traced, TraceFollower
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient
from kafka_zk.registry.znodes.consumers import consumer_of

GROUP = "counters"
BROKER_GROUP = "readers"
SESSION_TIMEOUT_MS = 4_000  # ZooKeeper's minimum with the default tick
SETTLE_TIMEOUT_S = 45
STOP_TIMEOUT_S = 20
_HEARTBEAT_MS = 500
_STEP_MS = 50
_WIDTH = 77  # width of a line, for terminals with 80 columns


class DemoGroup(ABC):
    """Members are processes; ``tell`` is called with a line for each rebalance.

    Raises: ProcessFailed if a member ends by itself, DemoFailed if the group does not settle.
    """

    def __init__(
        self,
        group_id: str,
        data_dir: Path,
        topic: str,
        partitions: int,
        tell: Callable[[str], None],
        timeline: Timeline,
        trace: Path,
    ) -> None:
        self._group_id = group_id
        self._folder = data_dir / "group"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._topic = topic
        self._partitions = partitions
        self._tell = tell
        self._members: dict[str, ChildProcess] = {}
        self._timeline = timeline
        self._summaries = Summaries(group_id)
        self._follower = TraceFollower(trace, from_start=False)

    @property
    def rebalances(self) -> list[GroupRebalance]:
        return self._timeline.summaries

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Follow the group within the block; the members stop at its end."""
        with ExitStack() as cleanup:
            self._follow(cleanup)
            cleanup.callback(self._stop_members)
            yield

    def join(self, *names: str) -> None:
        """Wait until the members share the partitions."""
        self.start(*names)
        self.settle()

    def start(self, *names: str) -> None:
        """Start the members without waiting for them."""
        for name in names:
            arguments = ("--group", self._group_id, "--topic", self._topic, "--name", name, *self._options())
            command, environ = python_command("consume", *arguments)
            log = self._folder / f"{self._group_id}-{name}.log"
            supervisor = self._supervisor()
            self._members[name] = ChildProcess(f"consumer {name}", command, log, environ, supervisor=supervisor)
            self._members[name].start()

    def kill(self, name: str) -> None:
        """SIGKILL; wait until the others have the member's partitions."""
        self._members.pop(name).kill()
        self.settle()

    def leave(self, name: str) -> None:
        """SIGTERM; wait until the others have the member's partitions."""
        self._members.pop(name).stop(STOP_TIMEOUT_S)
        self.settle()

    def settle(self) -> None:
        """Wait until all members share the partitions and no rebalance is in progress. Raises DemoFailed."""
        deadline_s = time.monotonic() + SETTLE_TIMEOUT_S
        wanted = {self._consumer_id(name) for name in self._members}
        while not self._is_shared_by(wanted) or not self._timeline.calm:
            if time.monotonic() > deadline_s:
                raise DemoFailed(
                    f"the group {self._group_id} did not settle in {SETTLE_TIMEOUT_S} s; see {self._folder}"
                )
            for member in self._members.values():
                member.check_alive()
            self._wait(_STEP_MS)
            self._show(int(time.time() * 1000))
        self._show(None)

    @abstractmethod
    def _follow(self, cleanup: ExitStack) -> None:
        """Begin to follow the group."""

    @abstractmethod
    def _options(self) -> tuple[str | Path, ...]:
        """Options of ``kafka-zk consume`` for this kind of group."""

    def _supervisor(self) -> Supervisor | None:
        """Return the supervisor that closes a killed member's ZooKeeper session."""
        return None

    @abstractmethod
    def _consumer_id(self, name: str) -> str:
        """The member's id, as ``_owners`` returns it."""

    @abstractmethod
    def _owners(self) -> Mapping[TopicPartition, str]:
        """The owner of each partition."""

    @abstractmethod
    def _wait(self, timeout_ms: int) -> None:
        """Process events for about ``timeout_ms``."""

    def _is_shared_by(self, wanted: set[str]) -> bool:
        owners = self._owners()
        return len(owners) == self._partitions and set(owners.values()) == wanted

    def _show(self, now_ms: int | None) -> None:
        for traced in self._follower.read():
            self._timeline.add(traced)
        for told in self._timeline.due(now_ms):
            if isinstance(told, GroupRebalance):
                for part in textwrap.wrap(self._summaries.line(told), _WIDTH, subsequent_indent="  "):
                    self._tell(part)

    def _stop_members(self) -> None:
        for member in self._members.values():
            member.terminate()
        for member in self._members.values():
            member.stop(STOP_TIMEOUT_S)


def members_trace(data_dir: Path) -> Path:
    return data_dir / "group" / "trace"


class ZookeeperDemoGroup(DemoGroup):
    """Coordinated by znodes and watches; the members write traces."""

    def __init__(
        self, data_dir: Path, zookeeper: str, topic: str, partitions: int, tell: Callable[[str], None]
    ) -> None:
        self._trace = members_trace(data_dir)
        self._trace.mkdir(parents=True)
        super().__init__(GROUP, data_dir, topic, partitions, tell, Timeline(), self._trace)
        self._zookeeper = zookeeper
        self._owned_by: dict[TopicPartition, str] = {}
        self._client: KazooBlockingClient | None = None

    def _follow(self, cleanup: ExitStack) -> None:
        self._client = cleanup.enter_context(KazooBlockingClient(self._zookeeper))
        cleanup.callback(GroupObserver(self._client, GROUP, self._seen).close)

    def _options(self) -> tuple[str | Path, ...]:
        return (
            "--zookeeper", self._zookeeper, "--trace", self._trace,
            "--consumer-property", "partition.assignment.strategy=cooperative",
            "--consumer-property", f"zookeeper.session.timeout.ms={SESSION_TIMEOUT_MS}",
        )  # fmt: skip

    def _supervisor(self) -> Supervisor | None:
        return Supervisor.on(self._zookeeper, {})

    def _consumer_id(self, name: str) -> str:
        return f"{GROUP}_{name}"

    def _owners(self) -> Mapping[TopicPartition, str]:
        return self._owned_by

    def _wait(self, timeout_ms: int) -> None:
        assert self._client is not None, "the group is followed first"
        self._client.process(timeout_ms)

    def _seen(self, event: Event) -> None:
        if isinstance(event, OwnersSeen):
            self._owned_by |= dict.fromkeys(event.offsets, consumer_of(event.owner))
        elif isinstance(event, OwnersGone):
            for tp in event.partitions:
                self._owned_by.pop(tp, None)
        self._timeline.add(Traced(event, None))


class BrokerDemoGroup(DemoGroup):
    """A group that a broker coordinates. The group is followed through the brokers' events in ``trace``."""

    def __init__(
        self, data_dir: Path, bootstrap: str, trace: Path, topic: str, partitions: int, tell: Callable[[str], None]
    ) -> None:
        super().__init__(BROKER_GROUP, data_dir, topic, partitions, tell, BrokerTimeline(BROKER_GROUP), trace)
        self._bootstrap = bootstrap

    def _follow(self, cleanup: ExitStack) -> None:
        pass  # the traces are always read

    def _options(self) -> tuple[str | Path, ...]:
        return (
            "--bootstrap-server", self._bootstrap,
            "--consumer-property", "partition.assignment.strategy=cooperative-sticky",
            "--consumer-property", f"heartbeat.interval.ms={_HEARTBEAT_MS}",
        )  # fmt: skip

    def _consumer_id(self, name: str) -> str:
        return name

    def _owners(self) -> Mapping[TopicPartition, str]:
        return self._timeline.rebalances.deliveries.by

    def _wait(self, timeout_ms: int) -> None:
        time.sleep(timeout_ms / 1000)
