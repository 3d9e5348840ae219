"""The victims of the attacks, and the final table.

Each attack has a fresh broker with its own memory and log; all brokers share one ZooKeeper by chroots.
"""

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from kafka_zk.testing.zookeeper import Chroot
from tests.attack.bounds import Quiet
from tests.attack.cluster import PROBED_TOPIC, Victim
from tests.attack.report import Row, table, write_json
from tests.attack.siege import Siege, quiet_window

QUIET_WINDOW_S = 10.0
_numbers = itertools.count(1)
_rows = pytest.StashKey[list[Row]]()
_bounds = pytest.StashKey[str]()

MakeSiege = Callable[..., Siege]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("attack")
    group.addoption("--attack-json", type=Path, metavar="PATH", help="write the table of the attacks there, too")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    nothing: list[Row] = []
    found = config.stash.get(_rows, nothing)
    rows = sorted(found, key=lambda row: row.attack[0])  # by section
    if not rows:
        return
    bounds = config.stash[_bounds]
    terminalreporter.section("attacks")
    for line in table(rows, bounds):
        terminalreporter.line(line)
    path: Path | None = config.getoption("attack_json", None)
    if path is not None:
        write_json(path, rows, bounds)


@pytest.fixture(scope="session")
def quiet(zookeeper_server, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Quiet:  # type: ignore[no-untyped-def]
    """The wait without an attack, measured once for the whole run."""
    victim = Victim(tmp_path_factory.mktemp("quiet"), Chroot(zookeeper_server, "/quiet").connect_string)
    try:
        victim.start()
        victim.create_topic(PROBED_TOPIC)
        measured = quiet_window(victim, QUIET_WINDOW_S)
    finally:
        victim.kill()
    request.config.stash[_bounds] = str(measured)
    return measured


@pytest.fixture
def make_siege(  # type: ignore[no-untyped-def]
    zookeeper_server, quiet: Quiet, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[MakeSiege]:
    """``make_siege(zookeeper_connect=None, **arguments of Victim)``: a siege of a started broker."""
    rows = request.config.stash.setdefault(_rows, [])
    with ExitStack() as victims:

        def make(zookeeper_connect: str | None = None, **arguments: Any) -> Siege:
            connect = zookeeper_connect or Chroot(zookeeper_server, f"/attack-{next(_numbers)}").connect_string
            victim = Victim(tmp_path_factory.mktemp("victim"), connect, **arguments)
            victims.callback(victim.kill)
            victim.start()
            victim.create_topic(PROBED_TOPIC)
            return Siege(victim, quiet, rows)

        yield make


@pytest.fixture
def siege(make_siege: MakeSiege) -> Siege:
    """A siege of a broker on a fresh chroot."""
    return make_siege()


@pytest.fixture
def znodes(siege: Siege) -> Iterator[KazooClient]:
    """A client that writes to the broker's ZooKeeper like another tool."""
    client = KazooClient(siege.victim.zookeeper_connect)
    client.start()
    yield client
    client.stop()
    client.close()
