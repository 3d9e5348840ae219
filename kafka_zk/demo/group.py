"""The demo's group: consumers that join, one that is killed, and a line for each rebalance."""

import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kafka_zk.demo.errors import DemoFailed
from kafka_zk.embedded.process import ChildProcess, python_command
from kafka_zk.registry.events import Event
from kafka_zk.registry.kazoo_blocking import KazooBlockingClient
from kafka_zk.registry.znodes.consumers import consumer_of
from kafka_zk.storage.types import TopicPartition
from kafka_zk.timeline.events import OwnersGone, OwnersSeen
from kafka_zk.timeline.group_observer import GroupObserver
from kafka_zk.timeline.rebalances import GroupRebalance
from kafka_zk.timeline.summary import Summaries
from kafka_zk.timeline.timeline import Timeline
from kafka_zk.timeline.trace_file import Traced, TraceFollower

GROUP = "counters"
SESSION_TIMEOUT_MS = 4_000  # the shortest that ZooKeeper grants with its default tick
SETTLE_TIMEOUT_S = 45
STOP_TIMEOUT_S = 20
_STEP_MS = 50
_WIDTH = 77  # of a line, on a terminal of 80 columns


class DemoGroup:
    """Members as processes, which wait for a topic's newest records; ``tell`` gets a line for each rebalance.

    Raises: ProcessFailed when a member ends by itself, DemoFailed when the group does not settle.
    """

    def __init__(
        self, data_dir: Path, zookeeper: str, topic: str, partitions: int, tell: Callable[[str], None]
    ) -> None:
        self._folder = data_dir / "group"
        self._trace = self._folder / "trace"
        self._trace.mkdir(parents=True)
        self._zookeeper = zookeeper
        self._topic = topic
        self._partitions = partitions
        self._tell = tell
        self._members: dict[str, ChildProcess] = {}
        self._owners: dict[TopicPartition, str] = {}
        self._timeline = Timeline()
        self._summaries = Summaries(GROUP)
        self._follower = TraceFollower(self._trace)
        self._client: KazooBlockingClient | None = None

    @property
    def rebalances(self) -> list[GroupRebalance]:
        """Those that were seen so far."""
        return self._timeline.summaries

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Follow the group within the block; the members end with it."""
        with KazooBlockingClient(self._zookeeper) as client, ExitStack() as cleanup:
            self._client = client
            observer = GroupObserver(client, GROUP, self._seen)
            cleanup.callback(observer.close)
            cleanup.callback(self._stop_members)
            yield

    def join(self, *names: str) -> None:
        """Start members and wait until the partitions are shared by all there are."""
        for name in names:
            command, environ = python_command(
                "consume", "--group", GROUP, "--topic", self._topic, "--zookeeper", self._zookeeper,
                "--name", name, "--trace", self._trace,
                "--consumer-property", "partition.assignment.strategy=cooperative",
                "--consumer-property", f"zookeeper.session.timeout.ms={SESSION_TIMEOUT_MS}",
            )  # fmt: skip
            self._members[name] = ChildProcess(f"consumer {name}", command, self._folder / f"{name}.log", environ)
            self._members[name].start()
        self._settle()

    def kill(self, name: str) -> None:
        """SIGKILL, and wait until the others have its partitions: nobody knows before the session has timed out."""
        self._members.pop(name).kill()
        self._settle()

    def _settle(self) -> None:
        deadline_s = time.monotonic() + SETTLE_TIMEOUT_S
        wanted = {f"{GROUP}_{name}" for name in self._members}
        while len(self._owners) < self._partitions or set(self._owners.values()) != wanted or not self._timeline.calm:
            if time.monotonic() > deadline_s:
                raise DemoFailed(f"the group {GROUP} did not settle in {SETTLE_TIMEOUT_S} s; see {self._folder}")
            for member in self._members.values():
                member.check_alive()
            assert self._client is not None, "the group is followed first"
            self._client.process(_STEP_MS)
            self._show(int(time.time() * 1000))
        self._show(None)

    def _seen(self, event: Event) -> None:
        if isinstance(event, OwnersSeen):
            self._owners |= dict.fromkeys(event.offsets, consumer_of(event.owner))
        elif isinstance(event, OwnersGone):
            for tp in event.partitions:
                self._owners.pop(tp, None)
        self._timeline.add(Traced(event, None))

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
