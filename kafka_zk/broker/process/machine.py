"""A broker's interface to its machine, which simulations replace."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from kafka_zk.base.clock import Clock, SystemClock
from kafka_zk.base.randomness import SYSTEM_RANDOM
from kafka_zk.base.threads import DaemonThreads, ReactorThreads, RunInThread
from kafka_zk.broker.replica.log_cleaner import StartHelper, WhenReadable
from kafka_zk.network.client import Connect, connect
from kafka_zk.network.listener import OpenPort
from kafka_zk.network.readable import when_readable
from kafka_zk.network.transport import FramePort
from kafka_zk.storage.files.helper_process import Helper


@dataclass(frozen=True, slots=True)
class Machine:
    """Reactor, time, randomness, threads, sockets and helper processes.

    ``daemon_threads``: creates a pool from a name and a maximum number of threads, see ``DaemonThreads``.
    """

    reactor: Any
    clock: Clock
    run_in_thread: RunInThread
    daemon_threads: Callable[[str, int], RunInThread]
    when_readable: WhenReadable
    random: Random = SYSTEM_RANDOM
    connect: Connect = connect
    open_port: OpenPort = FramePort
    start_helper: StartHelper = Helper

    @classmethod
    def of(cls, reactor: Any) -> "Machine":
        """The real machine, with the reactor's threads and sockets."""
        return cls(reactor, SystemClock(reactor), ReactorThreads(reactor), partial(DaemonThreads, reactor),
                   partial(when_readable, reactor))  # fmt: skip
