"""The plugin's ini options: how many brokers, with which keys, of which versions; nonsense is refused at the start."""

from pathlib import Path

import pytest

from kafka_zk.testing.options import images
from tests.kafka_zk.testing.runs import run_pytest

pytestmark = pytest.mark.integration

INI = """
[pytest]
kafka_zk_brokers = 2
kafka_zk_properties =
    num.partitions=7
    log.retentoin.hours=1
"""
TESTS = """
def read(folder):
    return dict(line.split("=", 1) for line in (folder / "server.properties").read_text().splitlines())

def test_shared(kafka_zk_cluster):
    assert [read(broker.folder)["num.partitions"] for broker in kafka_zk_cluster.brokers] == ["7", "7"]

def test_own(make_cluster):
    [broker] = make_cluster(properties={"num.partitions": "3"}).brokers
    assert read(broker.folder)["num.partitions"] == "3"
"""


def test_brokers_have_the_count_and_the_keys_of_the_ini_file(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(INI)
    (tmp_path / "test_it.py").write_text(TESTS)
    shown = run_pytest(tmp_path, "-W", "default::pytest.PytestConfigWarning")
    assert "2 passed" in shown, shown
    assert "kafka_zk_properties: log.retentoin.hours: unknown configuration key, ignored" in shown


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("kafka_zk_brokers=three", "kafka_zk_brokers = three: not a number of brokers"),
        ("kafka_zk_brokers=0", "kafka_zk_brokers = 0: not a number of brokers"),
        ("kafka_zk_properties=num.partitions", "kafka_zk_properties: 'num.partitions' is not key=value"),
    ],
)
def test_nonsense_is_refused_in_one_sentence(tmp_path: Path, option: str, sentence: str) -> None:
    (tmp_path / "test_it.py").write_text("def test_one(): pass\n")
    shown = run_pytest(tmp_path, "-o", option)
    assert f"ERROR: {sentence}" in shown and "Traceback" not in shown, shown


def test_the_command_line_wins_over_the_ini_file(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> None:
    ini = {"kafka_zk_zookeeper_image": "zookeeper:3.8.4", "kafka_zk_broker_image": ""}
    options = {"zookeeper_image": None, "broker_image": "kafka-zk:mine"}
    monkeypatch.setattr(pytestconfig, "getini", ini.__getitem__)
    monkeypatch.setattr(pytestconfig, "getoption", options.__getitem__)
    chosen = images(pytestconfig)
    monkeypatch.undo()
    assert chosen == {"zookeeper_image": "zookeeper:3.8.4", "broker_image": "kafka-zk:mine"}
