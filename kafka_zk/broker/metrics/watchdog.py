"""Detects turns of the reactor of a second or more, logs what they did, and counts them.

A broker's only thread serves all clients, so a long turn blocks all. A timer on the reactor records when it runs, and
another thread checks that time. If the last run was too long ago, the thread finds the request on the reactor's stack,
so requests need no bookkeeping. The measurement is exact even on a busy machine, and also detects pauses of the
process.

``registry.client.pulse`` lets a frozen process's ZooKeeper session expire.
Tests: tests/integration/brokers/test_frozen_broker.py.
"""

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from twisted.logger import Logger

from kafka_zk.base.clock import monotonic_s
from kafka_zk.network.connection import BrokerConnection
from kafka_zk.protocol.api_keys import ApiKey

_log = Logger()

LONG_TURN_S = 1.0
CHECK_INTERVAL_S = 0.25
"""Interval of the timer and of the thread's checks. A turn is measured from the timer's last run, so a turn that is
this much shorter than LONG_TURN_S may be counted."""

_STACK_DEPTH = 4
_STEP = BrokerConnection._step.__code__


class Watchdog:
    """Watches the reactor whose thread calls ``start``.

    ``long_turn_count``, ``long_turns_s``: number and total length of long turns.
    """

    def __init__(self, reactor: Any, seconds: Callable[[], float] = monotonic_s) -> None:
        self.long_turn_count = 0
        self.long_turns_s = 0.0
        self._reactor = reactor
        self._seconds = seconds
        self._thread_id = 0
        self._ran_s = 0.0
        self._reported_s: float | None = None  # ``_ran_s`` at the last logged turn
        self._seen: dict[str, object] = {}
        self._timer: Any = None
        self._stopped = threading.Event()

    def start(self) -> None:
        self._thread_id = threading.get_ident()
        self._ran_s = self._seconds()
        self._timer = self._reactor.callLater(CHECK_INTERVAL_S, self._run)
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()
        if self._timer is not None and self._timer.active():
            self._timer.cancel()

    def _run(self) -> None:
        """Measure, on the reactor, the time since the last run."""
        now_s = self._seconds()
        took_s = now_s - self._ran_s
        self._ran_s = now_s
        if took_s >= LONG_TURN_S:
            self.long_turn_count += 1
            self.long_turns_s += took_s
            seen, self._seen = self._seen, {}
            _log.warn("event loop was blocked for {took_s:.1f} s", took_s=took_s, **seen)
        self._timer = self._reactor.callLater(CHECK_INTERVAL_S, self._run)

    def _watch(self) -> None:
        while not self._stopped.wait(CHECK_INTERVAL_S):
            self.check()

    def check(self) -> None:
        """Log a turn that is too long, once. Runs in the watchdog's thread."""
        ran_s = self._ran_s
        for_s = self._seconds() - ran_s
        if for_s < LONG_TURN_S or ran_s == self._reported_s:
            return
        self._reported_s = ran_s
        frame = sys._current_frames().get(self._thread_id)
        seen = describe(frame) if frame is not None else {}
        if ran_s == self._ran_s:  # otherwise the stack is that of a later turn
            self._seen = seen
            _log.warn("event loop blocked for {for_s:.1f} s so far; no client is served", for_s=for_s, **seen)


def describe(innermost: FrameType) -> dict[str, object]:
    """What the code on a stack is doing: ``api``, its version and ``peer`` for a request, and ``where`` in the code."""
    fields: dict[str, object] = {}
    frame: FrameType | None = innermost
    while frame is not None:
        if frame.f_code is _STEP:
            header, context = frame.f_locals["header"], frame.f_locals["self"].context
            fields["api"] = f"{ApiKey(header.api_key).name} v{header.api_version}"
            fields["peer"] = f"{context.peer_host}:{context.peer_port}"
            break
        frame = frame.f_back
    fields["where"] = " < ".join(_places(innermost))
    return fields


def _places(innermost: FrameType) -> list[str]:
    places: list[str] = []
    frame: FrameType | None = innermost
    while frame is not None and len(places) < _STACK_DEPTH:
        path = Path(frame.f_code.co_filename)
        places.append(f"{frame.f_code.co_name} ({path.parent.name}/{path.name}:{frame.f_lineno})")
        frame = frame.f_back
    return places
