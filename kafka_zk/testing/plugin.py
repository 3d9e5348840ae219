"""pytest plugin: a real ZooKeeper and kafka-zk clusters as fixtures, and faults to test with.

    def test_my_consumer(kafka_zk_cluster, make_topic):
        topic = make_topic(partitions=4)
        ...connect to kafka_zk_cluster.bootstrap

Session-wide and shared: ``zookeeper_server``, ``kafka_zk_cluster``, ``kafka_zk_secured_cluster``,
``certificate_authority``. Per test: ``zookeeper`` (a new chroot on the shared server), ``zk_client``. Factories, whose
products stop at the end of the test: ``make_zookeeper``, ``make_cluster``, ``make_zk_client``, ``make_topic``,
``make_proxy``. ``expire_session`` ends any session. All servers listen on free ports of 127.0.0.1. Their logs are in
pytest's temporary folder; warnings in the logs are attached to a failed test. ZooKeepers tick every 200 ms, so sessions
last up to 4 s. docs/how-to/testing.md describes every fixture and option.

With ``--containers`` the same fixtures run the servers in containers (see ``containers``). If no Docker engine
responds, the tests are skipped, with the reason.

This module imports only pytest and little else, so a run without these fixtures costs nothing.
"""

import itertools
import sys
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from kafka_zk.base.operating_system.support import unsupported
from kafka_zk.testing import options
from kafka_zk.testing.timings import SESSION_TIMEOUT_MS

if TYPE_CHECKING:
    from kafka_zk.embedded.cluster import EmbeddedCluster
    from kafka_zk.embedded.proxy import TcpProxy
    from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper
    from kafka_zk.registry.client.client import RegistryClient
    from kafka_zk.testing.backend import Backend
    from kafka_zk.testing.certificates import CertificateAuthority
    from kafka_zk.testing.server_logs import ServerLogs
    from kafka_zk.testing.sharing import Keeper, SharedCluster
    from kafka_zk.testing.variants import Variant
    from kafka_zk.testing.zookeeper import Chroot

_numbers = itertools.count(1)


class MakeZooKeeper(Protocol):
    def __call__(self, variant: "Variant" = "open") -> "EmbeddedZooKeeper": ...


class MakeCluster(Protocol):
    def __call__(
        self,
        broker_count: int = 1,
        properties: Mapping[str, str] | None = None,
        zookeeper: "str | EmbeddedZooKeeper | None" = None,
        *,
        security: bool = False,
    ) -> "EmbeddedCluster": ...


class MakeZkClient(Protocol):
    def __call__(
        self, connect_string: str | None = None, session_timeout_ms: int = SESSION_TIMEOUT_MS
    ) -> "RegistryClient": ...


class MakeTopic(Protocol):
    def __call__(
        self,
        name: str | None = None,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
        cluster: "EmbeddedCluster | None" = None,
    ) -> str: ...


def pytest_addoption(parser: pytest.Parser) -> None:
    options.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    if reason := unsupported():
        raise pytest.UsageError(f"{reason}; -p no:kafka_zk runs the tests that do not need it")
    options.broker_count(config)
    options.properties(config)
    options.shares_cluster(config)


# --- one cluster for all workers of pytest-xdist ----------------------------------------------------------------------

_KEEPER: "pytest.StashKey[Keeper]" = pytest.StashKey()
_SHARED = "kafka_zk_shared_cluster"


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Runs in the controller for each worker, and passes it the address of the shared cluster's keeper."""
    config: pytest.Config = node.config
    if not options.shares_cluster(config):
        return
    if _KEEPER not in config.stash:
        from kafka_zk.testing.cluster import Cluster
        from kafka_zk.testing.sharing import Keeper

        keys = options.properties(config)
        config.stash[_KEEPER] = Keeper(lambda: Cluster(options.broker_count(config), properties=keys).start())
    node.workerinput[_SHARED] = config.stash[_KEEPER].address


def pytest_unconfigure(config: pytest.Config) -> None:
    if _KEEPER in config.stash:
        config.stash[_KEEPER].close()


def _of_worker(config: pytest.Config) -> dict[str, Any]:
    """The controller's values for this worker; empty without pytest-xdist."""
    values: dict[str, Any] = getattr(config, "workerinput", {})
    return values


# --- logs of the servers ----------------------------------------------------------------------------------------------

_LOGS: "pytest.StashKey[ServerLogs]" = pytest.StashKey()


@pytest.fixture(scope="session")
def _server_logs(request: pytest.FixtureRequest) -> "ServerLogs":
    from kafka_zk.testing.server_logs import ServerLogs

    return request.config.stash.setdefault(_LOGS, ServerLogs())


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if _LOGS in item.config.stash:
        item.config.stash[_LOGS].begin_test()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """End the test's faults. A fault that never fired fails the test, unless the test has already failed."""
    try:
        result = yield
    except BaseException:
        _end_faults(check=False)
        raise
    _end_faults(check=True)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """End the faults of fixtures, also if the test did not run because another fixture failed."""
    _end_faults(check=False)
    try:
        return (yield)
    finally:
        _end_faults(check=False)


def _end_faults(*, check: bool) -> None:
    faults = sys.modules.get("kafka_zk.embedded.faults")  # loaded only if a test uses faults
    if faults is not None:
        faults.end_all(check=check)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach the servers' warnings to a failed test."""
    report = yield
    logs = item.config.stash.get(_LOGS, None) if "_server_logs" in getattr(item, "fixturenames", ()) else None
    if logs and report.failed and (said := logs.report()):
        report.sections.append(("WARN and worse in the logs of kafka-zk and ZooKeeper", said))
    return report


@pytest.fixture(scope="session")
def kafka_zk_backend(request: pytest.FixtureRequest) -> "Iterator[Backend]":
    """Creates the servers of the other fixtures: in processes, or with ``--containers`` in containers."""
    from kafka_zk.testing.backend import Processes

    if not request.config.getoption("containers"):
        yield Processes()
        return
    try:
        from kafka_zk.testing.containers import Containers, why_no_engine
    except ImportError as error:
        pytest.skip(f"--containers: {error.name} is not installed; pip install 'kafka-zk[containers]'")
    if reason := why_no_engine():
        pytest.skip(f"--containers: {reason}")
    with Containers(**options.images(request.config)) as containers:
        yield containers


# --- ZooKeeper --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def _while_zookeeper_starts() -> "list[Callable[[EmbeddedZooKeeper], None]]":
    """Called while ``zookeeper_server`` starts, and again if it needs another port."""
    return []


@pytest.fixture(scope="session")
def zookeeper_server(
    kafka_zk_backend: "Backend",
    _while_zookeeper_starts: "list[Callable[[EmbeddedZooKeeper], None]]",
    _server_logs: "ServerLogs",
    tmp_path_factory: pytest.TempPathFactory,
) -> "Iterator[EmbeddedZooKeeper]":
    """One real ZooKeeper for all tests of this process."""

    def meanwhile() -> None:
        for call in _while_zookeeper_starts:
            call(server)

    server = kafka_zk_backend.zookeeper(tmp_path_factory.mktemp("zookeeper"))
    with _server_logs.watched(server, shared=True, start=lambda server: server.start(meanwhile=meanwhile)):
        yield server


@pytest.fixture
def zookeeper(zookeeper_server: "EmbeddedZooKeeper") -> "Chroot":
    """A chroot on the shared server for this test: ``connect_string``, ``restart()``, ``expire_session(id)``."""
    from kafka_zk.testing.zookeeper import Chroot

    return Chroot(zookeeper_server, f"/test-{next(_numbers)}")


@pytest.fixture
def make_zookeeper(
    kafka_zk_backend: "Backend", _server_logs: "ServerLogs", tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MakeZooKeeper]:
    """``make_zookeeper(variant="open")``: a server that this test may stop, kill, pause and restart. The variants
    digest, sasl, tls and mtls secure it; clusters created with it, and its ``client_properties``, have access.
    """
    with ExitStack() as servers:

        def make(variant: "Variant" = "open") -> "EmbeddedZooKeeper":
            server = kafka_zk_backend.zookeeper(tmp_path_factory.mktemp("zookeeper"), variant)
            return servers.enter_context(_server_logs.watched(server))

        yield make


@pytest.fixture
def make_zk_client(zookeeper: "Chroot") -> Iterator[MakeZkClient]:
    """``make_zk_client(connect_string=None, session_timeout_ms=4000)``: a blocking registry client, by default on the
    test's chroot. Its operations are awaitables for ``kafka_zk.registry.run_blocking``."""
    from kafka_zk.testing.clients import blocking_client

    with ExitStack() as clients:

        def make(connect_string: str | None = None, session_timeout_ms: int = SESSION_TIMEOUT_MS) -> "RegistryClient":
            return clients.enter_context(
                blocking_client(connect_string or zookeeper.connect_string, session_timeout_ms)
            )

        yield make


@pytest.fixture
def zk_client(make_zk_client: MakeZkClient) -> "RegistryClient":
    """A blocking registry client on the test's chroot."""
    return make_zk_client()


@pytest.fixture
def expire_session(zookeeper_server: "EmbeddedZooKeeper") -> Callable[[int], None]:
    """``expire_session(session_id)``: end any session of the shared server."""
    from kafka_zk.embedded.ports import LOCALHOST
    from kafka_zk.embedded.session_expiry import expire_session as expire

    return lambda session_id: expire(LOCALHOST, zookeeper_server.port, session_id)


# --- clusters ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def kafka_zk_properties(request: pytest.FixtureRequest) -> dict[str, str]:
    """Kafka's keys for every broker that the fixtures start: the ini option of this name."""
    from kafka_zk.broker.config.kafka_config import KafkaConfig

    keys = options.properties(request.config)
    _, unknown = KafkaConfig.from_properties({"zookeeper.connect": "127.0.0.1:2181"}, keys)
    for warning in unknown:
        warnings.warn(f"{options.PROPERTIES}: {warning}", pytest.PytestConfigWarning, stacklevel=1)
    return keys


@pytest.fixture(scope="session")
def kafka_zk_cluster(
    request: pytest.FixtureRequest,
    kafka_zk_backend: "Backend",
    kafka_zk_properties: dict[str, str],
    _while_zookeeper_starts: "list[Callable[[EmbeddedZooKeeper], None]]",
    _server_logs: "ServerLogs",
    tmp_path_factory: pytest.TempPathFactory,
) -> "Iterator[EmbeddedCluster | SharedCluster]":
    """The brokers that all tests of this process share, three by default (ini option ``kafka_zk_brokers``); with
    ``--share-cluster``, all tests of all workers. Leave them unchanged; use ``make_cluster`` for faults.
    """
    from kafka_zk.testing.early_cluster import EarlyCluster
    from kafka_zk.testing.zookeeper import Chroot

    if _SHARED in _of_worker(request.config):
        from kafka_zk.testing.sharing import SharedCluster

        yield SharedCluster(_of_worker(request.config)[_SHARED])
        return
    count, folder = options.broker_count(request.config), tmp_path_factory.mktemp("cluster")
    path = f"/cluster-{next(_numbers)}"

    def make(server: "EmbeddedZooKeeper") -> "EmbeddedCluster":
        return kafka_zk_backend.cluster(folder, count, Chroot(server, path).connect_string, kafka_zk_properties)

    early = EarlyCluster(make)
    _while_zookeeper_starts.append(early.load)
    try:
        cluster = early.take(request.getfixturevalue("zookeeper_server"))
    finally:
        early.kill()
    with _server_logs.watched(cluster, shared=True):
        yield cluster


@pytest.fixture(scope="session")
def kafka_zk_secured_cluster(
    kafka_zk_backend: "Backend",
    kafka_zk_properties: dict[str, str],
    zookeeper_server: "EmbeddedZooKeeper",
    _server_logs: "ServerLogs",
    tmp_path_factory: pytest.TempPathFactory,
) -> "Iterator[EmbeddedCluster]":
    """One broker with SASL_SSL, shared like ``kafka_zk_cluster``. ``cluster.security`` has the keys for clients:
    ``properties()`` for Java's and kafka-zk's, ``librdkafka_properties()``, ``client_file``, ``truststore``.
    ``cluster.add_user("alice")`` adds a user and returns the user's keys.
    """
    from kafka_zk.testing.zookeeper import Chroot

    chroot = Chroot(zookeeper_server, f"/cluster-{next(_numbers)}")
    folder = tmp_path_factory.mktemp("secured")
    cluster = kafka_zk_backend.cluster(folder, 1, chroot.connect_string, kafka_zk_properties, secured=True)
    with _server_logs.watched(cluster, shared=True):
        yield cluster


@pytest.fixture(scope="session")
def certificate_authority() -> "CertificateAuthority":
    """Signs certificates for a test's servers and clients: ``write_keystore(path, name, hosts)`` and, for their peers,
    ``write_truststore(path)``."""
    from kafka_zk.testing.certificates import CertificateAuthority

    return CertificateAuthority()


@pytest.fixture
def make_cluster(
    kafka_zk_backend: "Backend",
    kafka_zk_properties: dict[str, str],
    zookeeper_server: "EmbeddedZooKeeper",
    _server_logs: "ServerLogs",
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[MakeCluster]:
    """``make_cluster(broker_count=1, properties=None, zookeeper=None, security=False)``: a cluster for this test, by
    default on a new chroot of the shared ZooKeeper. With ``security`` it is like ``kafka_zk_secured_cluster``."""
    from kafka_zk.testing.zookeeper import Chroot

    with ExitStack() as clusters:

        def make(
            broker_count: int = 1,
            properties: Mapping[str, str] | None = None,
            zookeeper: "str | EmbeddedZooKeeper | None" = None,
            *,
            security: bool = False,
        ) -> "EmbeddedCluster":
            where = zookeeper or Chroot(zookeeper_server, f"/cluster-{next(_numbers)}").connect_string
            keys = {**kafka_zk_properties, **(properties or {})}
            folder = tmp_path_factory.mktemp("cluster")
            cluster = kafka_zk_backend.cluster(folder, broker_count, where, keys, secured=security)
            return clusters.enter_context(_server_logs.watched(cluster))

        yield make


@pytest.fixture
def make_topic(request: pytest.FixtureRequest, _server_logs: "ServerLogs") -> MakeTopic:
    """``make_topic(name=None, partitions=1, config=None, cluster=None)``: create a topic, by default with a unique name
    in the shared cluster, and return its name."""
    from kafka_zk.testing.clients import create_topic

    def make(
        name: str | None = None,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
        cluster: "EmbeddedCluster | None" = None,
    ) -> str:
        cluster = cluster or request.getfixturevalue("kafka_zk_cluster")
        worker = _of_worker(request.config).get("workerid", "")
        name = name or f"topic-{worker}{next(_numbers)}"
        create_topic(cluster.bootstrap, name, partitions, config or {}, cluster.login)
        return name

    return make


# --- the network ------------------------------------------------------------------------------------------------------


@pytest.fixture
def make_proxy() -> "Iterator[Callable[[str, int], TcpProxy]]":
    """``make_proxy(host, port)``: a TCP proxy that cuts, freezes and delays connections."""
    from kafka_zk.embedded.proxy import TcpProxy

    with ExitStack() as proxies:
        yield lambda host, port: proxies.enter_context(TcpProxy(host, port))
