"""Blocking facades share one reactor thread. Each test has its own process, since a reactor runs only once."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

SHARED = """
import threading
from twisted.internet import reactor
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.connection.errors import KafkaError, NoBrokersAvailable
from kafka_zk.clients.connection.reactor_thread import reactor_thread
from kafka_zk.clients.producer.blocking import BlockingProducer

for _ in range(3):
    with BlockingAdmin(bootstrap_servers="127.0.0.1:1") as admin:
        try:
            admin.list_topics()
        except NoBrokersAvailable as error:
            print(error)
    BlockingProducer(bootstrap_servers="127.0.0.1:1").close()
print(sum(thread.name == "kafka-zk reactor" for thread in threading.enumerate()))

async def inside():
    try:
        BlockingProducer()
    except KafkaError as error:
        print(error)

reactor_thread().call(inside)
"""

OWN = """
from twisted.internet import reactor
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.connection.errors import KafkaError

def start():
    try:
        BlockingAdmin()
    except KafkaError as error:
        print(error)
    reactor.stop()

reactor.callWhenRunning(start)
reactor.run()
try:
    BlockingAdmin()
except KafkaError as error:
    print(error)
"""


STOPPED = """
import threading
from twisted.internet import reactor
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.connection.errors import KafkaError

admin = BlockingAdmin(bootstrap_servers="127.0.0.1:1")
(thread,) = [each for each in threading.enumerate() if each.name == "kafka-zk reactor"]
reactor.callFromThread(reactor.stop)
thread.join()
for ask in (admin.list_topics, admin.close):
    try:
        ask()
    except KafkaError as error:
        print(error)
"""


TOLD = """
from kafka_zk.clients.connection.reactor_thread import reactor_thread

thread = reactor_thread()
told = []

async def inside():
    thread.run_soon(told.append, "inside")
    print(*told)

async def later():
    print(*told)

thread.call(inside)
thread.run_soon(told.append, "from another thread")
thread.call(later)
"""


SET_BACK = """
import socket
import time
from twisted.internet.base import ReactorBase

set_back_s = 0.0
ReactorBase.seconds = staticmethod(lambda: time.time() - set_back_s)  # the wall clock

from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.connection.errors import KafkaError
from kafka_zk.clients.connection.reactor_thread import reactor_thread

with socket.create_server(("127.0.0.1", 0)) as silent:
    with BlockingAdmin(
        bootstrap_servers=f"127.0.0.1:{silent.getsockname()[1]}", request_timeout_ms=500, default_api_timeout_ms=500
    ) as admin:
        reactor = reactor_thread().reactor
        reactor.callFromThread(reactor.callLater, 0.1, lambda: globals().update(set_back_s=3600.0))
        try:
            admin.list_topics()
        except KafkaError:
            print("timed out")
"""

PENDING = """
from twisted.internet import reactor
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin

reactor.callLater(0.01, print, "called", flush=True)
with BlockingAdmin(bootstrap_servers="127.0.0.1:1"):
    while reactor.getDelayedCalls():
        pass
"""


def _lines(program: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.splitlines()


def test_any_number_of_clients_share_one_thread_and_refuse_to_wait_for_themselves() -> None:
    """Clients are created, fail and are closed three times: they share one reactor thread, and on that thread a call is
    an error.
    """
    *unreachable, count, refusal = _lines(SHARED)
    assert len(unreachable) == 3
    assert all(line.startswith("cannot reach any of 127.0.0.1:1: ") for line in unreachable)
    assert count == "1"
    assert "would wait for itself" in refusal


def test_a_program_with_its_own_reactor_is_told() -> None:
    """The error is raised both on the reactor's thread and after the reactor was stopped."""
    inside, after = _lines(OWN)
    assert "would wait for itself" in inside
    assert "stopped and cannot be started again" in after


def test_a_client_whose_reactor_was_stopped_does_not_wait_for_ever() -> None:
    """Neither requests nor closing wait."""
    asked, closed = _lines(STOPPED)
    assert asked == closed
    assert "was stopped: this client can no longer be used" in asked


def test_what_the_reactors_thread_is_told_has_happened_before_what_it_does_next() -> None:
    assert _lines(TOLD) == ["inside", "inside from another thread"]


def test_timeouts_pass_though_the_machines_clock_is_set_back() -> None:
    """The reactor that clients start uses a monotonic clock, as a broker's does."""
    assert _lines(SET_BACK) == ["timed out"]


def test_timers_that_a_program_set_before_are_due_all_the_same() -> None:
    """The timers are on the wall clock, so the reactor keeps it."""
    assert _lines(PENDING) == ["called"]
