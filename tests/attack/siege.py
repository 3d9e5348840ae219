"""Run one attack on a broker beside an honest client, and compare the results with the bounds.

The attack runs in a thread with lower priority; the honest client (``prober``) is its own process. Payloads are built
in advance, because on two cores the attacker itself could cause the waits.
"""

import json
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kafka_zk.embedded.process import python_command
from tests.attack.bounds import Outcome, Quiet, broken_bounds
from tests.attack.cluster import PROBED_TOPIC, Victim, complaints
from tests.attack.report import Row, summarize
from tests.attack.watch import MemoryWatch

SURVIVAL_MB = 2_500.0
"""A broker that uses more memory is killed, because the machine has other work."""
DEADLINE_S = 30.0
SETTLE_S = 0.5
ATTACKER_NICENESS = 10


class Probe:
    """The honest client's process."""

    def __init__(self, port: int) -> None:
        _, environ = python_command()
        command = [sys.executable, "-m", "tests.attack.prober", str(port), PROBED_TOPIC]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ)
        assert self._process.stdout
        assert self._process.stdout.readline() == "ready\n", "the prober did not start"

    def stop(self) -> Mapping[str, Any]:
        """Stop the client; returns its result."""
        output, _ = self._process.communicate("stop\n", timeout=10)
        result: Mapping[str, Any] = json.loads(output)
        return result

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


def quiet_window(victim: Victim, window_s: float) -> Quiet:
    """The wait of the honest client without an attack."""
    probe = Probe(victim.port)
    time.sleep(window_s)
    result = probe.stop()
    assert not result["errors"], f"the honest client failed before any attack: {result['errors']}"
    return Quiet(result["longest_wait_ms"])


def side_by_side(actions: list[Callable[[], Any]]) -> list[Any]:
    """Run each function in its own thread; returns their results, in order."""
    with ThreadPoolExecutor(len(actions)) as pool:
        return [future.result() for future in [pool.submit(action) for action in actions]]


class Siege:
    """Attacks on one victim. Each becomes a row; if an attack breaks a bound, the test fails after the row is
    written.
    """

    def __init__(self, victim: Victim, quiet: Quiet, rows: list[Row]) -> None:
        self.victim = victim
        self._quiet = quiet
        self._rows = rows

    def __call__(
        self, name: str, attack: Callable[[], object], *, deadline_s: float = DEADLINE_S, waits: bool = True,
        p99_ms: float = math.inf,
    ) -> None:  # fmt: skip
        """Run ``attack``. Its assertions count as bounds of its own.

        Args:
            deadline_s: after this time the broker is killed and the attack has failed.
            waits: whether the honest client's waits are measured; not if the attack stops the broker, or has another
                target.
            p99_ms: 99 of 100 waits of the honest client take at most this much longer than its longest quiet wait.
        """
        victim = self.victim
        position = victim.log_size()
        killed = threading.Event()

        def kill() -> None:
            killed.set()
            victim.broker.kill()

        memory = MemoryWatch(lambda: victim.broker.pid, SURVIVAL_MB, kill)
        probe = Probe(victim.port) if waits else None
        runner = _Runner(attack)
        started_s = time.monotonic()
        memory.start()
        runner.start()
        runner.join(deadline_s)
        duration_s = time.monotonic() - started_s
        broken = []
        if runner.is_alive():
            broken.append(f"not over after {deadline_s:g} s")
        elif not killed.is_set():
            time.sleep(SETTLE_S)
        honest = probe.stop() if probe else None
        memory.stop()
        if killed.is_set():
            broken.append(f"the broker was killed when it took more than {SURVIVAL_MB:,.0f} MB")
        elif waits and not victim.broker.alive:
            broken.append(victim.broker.process.describe_end())
        outcome = self._outcome(honest, memory.peak_mb, position)
        if runner.is_alive():
            self._end_by_force(runner)
        elif runner.failure is not None:
            broken.append(_sentence(runner.failure))
        broken += broken_bounds(self._quiet, outcome)
        if honest and honest["p99_wait_ms"] > self._quiet.longest_wait_ms + p99_ms:
            broken.append(f"one of 100 waits of another client took {honest['p99_wait_ms']:,.0f} ms or more")
        said = summarize(complaints(outcome.log))
        self._rows.append(Row(name, outcome.longest_wait_ms, outcome.peak_mb, duration_s, said, broken))
        assert not broken, f"{name}: " + "; ".join(broken)

    def _outcome(self, honest: Mapping[str, Any] | None, peak_mb: float, position: int) -> Outcome:
        victim = self.victim
        alive = victim.broker.alive  # the broker's end closes all connections, and is reported separately
        return Outcome(
            longest_wait_ms=honest["longest_wait_ms"] if honest else None,
            errors=honest["errors"] if honest else {},
            peak_mb=peak_mb,
            waiting=[connection.name for connection in victim.connections if connection.waiting],
            refused=[connection.name for connection in victim.connections if connection.refused and alive],
            log=victim.log(position),
        )

    def _end_by_force(self, runner: "_Runner") -> None:
        self.victim.broker.kill()
        for connection in self.victim.connections:
            connection.shut_down()
        runner.join(10)


class _Runner(threading.Thread):
    """Runs the attack with lower priority than the broker and the honest client."""

    def __init__(self, attack: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._attack = attack
        self.failure: BaseException | None = None

    def run(self) -> None:
        if sys.platform == "linux":  # where each thread has a priority of its own, which its child threads inherit
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), ATTACKER_NICENESS)
        try:
            self._attack()
        except BaseException as error:
            self.failure = error


def _sentence(error: BaseException) -> str:
    """The error's first line is the assertion's message; pytest's explanation follows it."""
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
