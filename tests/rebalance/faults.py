"""Random faults and changes in a group, one at a time and chosen by a seed, and their end."""

from collections.abc import Callable, Sequence

from kafka_zk.registry.client.client import SessionState
from tests.rebalance.world import Group, Process

MEMBERS_MAX = 6


class Faults:
    """``strike`` causes one fault or change; ``heal`` ends all lasting faults. ``strategies``: what a new member may
    announce."""

    def __init__(self, group: Group, strategies: Sequence[Sequence[str]], *, static: bool = False) -> None:
        self._group = group
        self._random = group.random
        self._strategies = strategies
        self._static = static
        self._joined = 0
        self._away: list[str] = []  # static members that may come back
        self.kinds: dict[str, Callable[[], None]] = {
            "join": self.join,
            "leave": self._leave,
            "kill": self._kill,
            "pause": self._pause,
            "disconnect": lambda: self._someone().client.disconnect(),
            "cut": lambda: self._cut(silent=False),
            "silent cut": lambda: self._cut(silent=True),
            "expire": self._expire,
            "lose a request": self._lose_a_request,
            "lossy network": self._lossy,
            "restart ZooKeeper": self._restart_zookeeper,
            "grow": lambda: self._group.grow_topic(self._random.choice(["t", "u"]), 1),
            "brokers": self._brokers,
        }
        self._broker_up = False

    def strike(self) -> str:
        """Cause one fault or change, and return its name."""
        kind = self._random.choice(sorted(self.kinds))
        self.kinds[kind]()
        return kind

    def heal(self) -> None:
        """End all faults, and make sure that the group has at least one member."""
        self._group.zookeeper.loss_probability = 0.0
        for process in self._group.processes:
            if process.alive:
                process.client.heal()
                process.wake()
        if not self._group.live:
            self.join()

    def join(self) -> None:
        if len(self._group.live) >= MEMBERS_MAX:
            return
        if self._away and self._random.random() < 0.7:
            name = self._away.pop(self._random.randrange(len(self._away)))
        else:
            self._joined += 1
            name = f"m{self._joined}"
        strategies = self._random.choice(list(self._strategies))
        self._group.join(name, strategies, instance_timeout_ms=8000 if self._static else None)

    def _someone(self) -> Process:
        if not self._group.live:
            self.join()
        return self._random.choice(self._group.live)

    def _went(self, process: Process) -> None:
        if self._static:
            self._away.append(process.consumer_id.removeprefix("g_"))

    def _leave(self) -> None:
        process = self._someone()
        process.leave().addErrback(lambda failure: self._group.seen.append(f"leaving failed: {failure.value!r}"))
        self._went(process)

    def _kill(self) -> None:
        process = self._someone()
        process.kill()
        self._went(process)

    def _pause(self) -> None:
        process = self._someone()
        process.pause()
        self._later(12_000, lambda: process.wake() if process.alive else None)

    def _cut(self, *, silent: bool) -> None:
        process = self._someone()
        process.client.cut(silent=silent)
        self._later(12_000, process.client.heal)

    def _expire(self) -> None:
        """Expire a session by force. No lease can protect against this, so it happens only while the process knows
        that it is disconnected."""
        process = self._someone()
        process.client.cut()

        def expire() -> None:
            if process.client.state is SessionState.SUSPENDED:
                self._group.zookeeper.expire(process.client)

        self._later(300, expire)
        self._later(600, process.client.heal)

    def _lose_a_request(self) -> None:
        applied = self._random.random() < 0.5
        self._someone().client.lose_request(self._random.randrange(12), applied=applied)

    def _lossy(self) -> None:
        self._group.zookeeper.loss_probability = 0.02
        self._later(2000, lambda: setattr(self._group.zookeeper, "loss_probability", 0.0))

    def _restart_zookeeper(self) -> None:
        if self._group.zookeeper.running:
            self._group.zookeeper.stop()
            self._later(5000, self._group.zookeeper.start)

    def _brokers(self) -> None:
        if not self._group.zookeeper.running:
            return
        self._broker_up = not self._broker_up
        (self._group.start_broker if self._broker_up else self._group.stop_broker)(9)

    def _later(self, most_ms: float, call: Callable[[], None]) -> None:
        self._group.scheduler.clock.callLater(self._random.uniform(0, most_ms) / 1000, call)
