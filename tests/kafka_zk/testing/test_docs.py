"""docs/how-to/testing.md names every fixture, option and method, and its examples run as printed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_zk.embedded.broker import BrokerProcess
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.embedded.proxy import TcpProxy
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper
from kafka_zk.testing import options, plugin
from kafka_zk.testing.zookeeper import Chroot
from tests.kafka_zk.testing.runs import ROOT, run_pytest

TEXT = (ROOT / "docs" / "how-to" / "testing.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)

NOT_FOR_TESTS = {
    "start_zookeeper": "a step of start",
    "start_brokers": "a step of start",
    "load_brokers": "a step of start",
    "view": "asks a broker",
    "login": "used by make_topic",
    "client_properties": "used by make_cluster",
    "kill_if_started": "used by a cluster",
    "serving": "used by start",
    "load": "used by a cluster",
    "process": "the log, the exit code",
    "tls_port": "in connect_string",
}
"""Public names that tests do not use."""


def names(kind: type) -> set[str]:
    """The public methods and properties of a class, without its fixed attributes."""
    return {name for name in vars(kind) if not name.startswith("_")} - NOT_FOR_TESTS.keys()


def is_named(name: str) -> bool:
    """True if the page has the name in a code span, not just in a sentence."""
    return any(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", span) for span in re.findall(r"`([^`\n]+)`", TEXT))


def test_every_fixture_is_named() -> None:
    fixtures = {name for name, value in vars(plugin).items() if type(value).__name__ == "FixtureFunctionDefinition"}
    assert "make_cluster" in fixtures
    assert not {name for name in fixtures if not name.startswith("_") and not is_named(name)}


def test_every_option_is_named() -> None:
    """The page names the options of the command line and of the ini file."""
    parser = pytest.Parser(_ispytest=True)
    options.add_options(parser)
    [group] = [group for group in parser._groups if group.name == "kafka-zk"]
    there = {name for option in group.options for name in option.names()} | set(parser._inidict)
    assert {"--containers", "kafka_zk_brokers"} <= there
    assert not {name for name in there if not is_named(name)}


@pytest.mark.parametrize("kind", [TcpProxy, EmbeddedCluster, BrokerProcess, EmbeddedZooKeeper, Chroot])
def test_every_fault_is_named(kind: type) -> None:
    assert not {name for name in names(kind) if not is_named(name)}


@pytest.mark.integration
def test_the_tests_that_are_shown_pass(tmp_path: Path) -> None:
    shown = [text for text in EXAMPLES if "def test_" in text]
    for number, text in enumerate(shown):
        (tmp_path / f"test_{number}.py").write_text(text)
    kafka_python = ("-W", "ignore::DeprecationWarning")  # its loader, on Python 3.11 and 3.12
    said = run_pytest(tmp_path, "-o", "kafka_zk_brokers=1", *kafka_python)
    assert f"{len(shown)} passed" in said, said


@pytest.mark.integration
def test_the_test_case_that_is_shown_passes_without_pytest(tmp_path: Path) -> None:
    [text] = [text for text in EXAMPLES if "unittest" in text]
    (tmp_path / "test_orders.py").write_text(text)
    environ = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-W", "error", "-m", "unittest", "test_orders"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environ, timeout=60, check=False)
    assert done.returncode == 0 and "Ran 1 test" in done.stderr, done.stderr


@pytest.mark.integration
def test_the_program_that_is_shown_runs(tmp_path: Path) -> None:
    [program] = [text for text in EXAMPLES if "def test_" not in text]
    environ = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environ, timeout=60, check=False)
    assert done.returncode == 0 and done.stdout.startswith("127.0.0.1:"), done.stderr
