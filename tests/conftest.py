"""Fixtures for all tests: the project's own pytest plugin, and seeds for the long campaigns.

A test that takes ``campaign_seed`` runs once per seed: ``--rounds`` times, counted from ``--seed``. ``make test`` runs
a slice, ``make soak`` hundreds. One that takes ``process_campaign_seed`` starts and kills processes, so it runs a tenth
as often. A failing round prints how to repeat it. ``make test-fast``, which has no integration tests, runs one round,
and a quarter of the examples of property tests and of tests with a list of seeds.
"""

import gc
import signal
import threading
from collections.abc import Callable, Generator, Iterator
from importlib.metadata import entry_points
from typing import cast

import pytest
from hypothesis import HealthCheck, settings
from twisted.logger import ILogObserver, globalLogPublisher

from kafka_zk.native.loading import Native
from tests.bytecode import keep_bytecode
from tests.fresh_environment import TEMPORARY_ROOT
from tests.native_module import native_or_skip

# Slow generation of examples on a busy machine is not a failure of the tested code.
settings.register_profile("busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fast", settings.get_profile("busy machine"), max_examples=25)
settings.load_profile("busy machine")

DEFAULT_ROUNDS = 3
FAST_ROUNDS = 1
SEED_FIXTURES = {"campaign_seed": 1, "process_campaign_seed": 10}
"""Fixture -> the number by which ``--rounds`` is divided."""

# If kafka-zk is installed, its entry point loads the plugin; in a bare checkout, this does.
pytest_plugins = ["tests.file_order", "tests.slices"]
if not entry_points(group="pytest11", name="kafka_zk"):
    pytest_plugins += ["kafka_zk.testing.plugin"]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("campaigns")
    group.addoption("--rounds", type=int, help=f"seeds per campaign (default {DEFAULT_ROUNDS})")
    group.addoption("--seed", type=int, default=0, help="first seed of every campaign (default %(default)s)")
    group.addoption("--first-parameters", action="store_true", help="run each test with its first parameters only")
    group.addoption("--from-commit", default="HEAD", help="what brokers are upgraded from (default %(default)s)")


def _let_children_hear_signals() -> None:
    """Undo ignored signals, which child processes would inherit: ``nohup`` ignores SIGHUP, and a shell's ``&`` ignores
    SIGINT. A handler is set instead, because ``exec`` resets handlers."""
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    _let_children_hear_signals()
    keep_bytecode()
    from kafka_zk.broker.process.logs import to_logging  # pytest rewrites the assertions of the whole package

    globalLogPublisher.addObserver(cast(ILogObserver, to_logging))  # so that caplog receives our modules' log lines
    fast = _is_fast(config)
    if config.option.rounds is None:
        config.option.rounds = FAST_ROUNDS if fast else DEFAULT_ROUNDS
    if fast and config.getoption("--hypothesis-profile", None) is None:
        settings.load_profile("fast")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exempt the collected tests from garbage collection: they stay until the end, and would be examined again and
    again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for fixture, divisor in SEED_FIXTURES.items():
        if fixture in metafunc.fixturenames:
            first: int = metafunc.config.getoption("seed")
            rounds: int = metafunc.config.getoption("rounds")
            metafunc.parametrize(fixture, range(first, first + max(1, rounds // divisor)))


def _is_fast(config: pytest.Config) -> bool:
    return "not integration" in config.option.markexpr


def _select(config: pytest.Config, items: list[pytest.Item], is_wanted: Callable[[pytest.Item], bool]) -> None:
    others = [item for item in items if not is_wanted(item)]
    items[:] = [item for item in items if is_wanted(item)]
    config.hook.pytest_deselected(items=others)


def _is_one_of_four_seeds(item: pytest.Item) -> bool:
    return not hasattr(item, "callspec") or item.callspec.indices.get("seed", 0) % 4 == 0


def _with_first_parameters(items: list[pytest.Item]) -> set[pytest.Item]:
    first: dict[str, pytest.Item] = {}
    for item in items:
        first.setdefault(item.nodeid.partition("[")[0], item)
    return set(first.values())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("containers"):  # a test that uses none of the plugin's servers would only run twice
        _select(config, items, lambda item: "kafka_zk_backend" in getattr(item, "fixturenames", ()))
    if _is_fast(config):
        _select(config, items, _is_one_of_four_seeds)
    if config.getoption("first_parameters"):
        _select(config, items, _with_first_parameters(items).__contains__)
    for item in items:
        if SEED_FIXTURES.keys() & set(getattr(item, "fixturenames", ())):
            item.add_marker("campaign")


@pytest.fixture(scope="session", autouse=True)
def pytests_of_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A pytest that a test starts keeps its temporary folders below a separate folder. In the common one, it would
    remove the folders of earlier runs before its summary, which takes minutes after ``make test``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(TEMPORARY_ROOT, str(tmp_path_factory.mktemp("pytests")))
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    for fixture in SEED_FIXTURES.keys() & parameters:
        if report.failed:
            test = item.nodeid.partition("[")[0]
            command = f"python -m pytest {test} --rounds 1 --seed {parameters[fixture]}"
            report.sections.append(("to repeat this round", command))
    return report


@pytest.fixture(scope="session")
def native() -> Native:
    """The native module."""
    return native_or_skip()
