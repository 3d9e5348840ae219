"""Configuration files for Java: we and ZooKeeper read the same values that were written."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.cli.terminal.properties import parse_properties
from kafka_zk.embedded.broker import BrokerProcess
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.embedded.errors import UnusableDataDir
from kafka_zk.embedded.properties_file import escape, properties_text
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper

TEXTS = st.text(st.characters(codec="utf-8"))


@given(st.dictionaries(st.sampled_from(["dataDir", "log.dirs", "a.b"]), TEXTS))
def test_values_come_back(settings: dict[str, str]) -> None:
    """The file is ASCII, which Java's ISO 8859-1 and our UTF-8 decode alike."""
    text = properties_text(settings)
    assert text.isascii() and len(text.splitlines()) == len(settings)
    assert parse_properties(text) == settings


def test_escapes_are_javas() -> None:
    r"""Each UTF-16 unit is one ``\uXXXX``. Source: java.util.Properties.store."""
    assert escape("Jürgen") == r"J\u00fcrgen"
    assert escape("back\\slash 😀") == r"back\\slash \ud83d\ude00"
    assert escape("  two") == r"\ \ two"


@pytest.mark.parametrize("name", ["a,b", "bad\udcff"])
def test_a_path_that_log_dirs_cannot_hold_is_refused(name: str, tmp_path: Path) -> None:
    """The error is one sentence and comes before any file is created; if log directories are elsewhere, the path is
    valid.
    """
    with pytest.raises(UnusableDataDir, match="a data directory"):
        EmbeddedCluster(tmp_path / name)
    assert list(tmp_path.iterdir()) == []
    EmbeddedCluster(tmp_path / name, properties={"log.dirs": str(tmp_path / "logs")})


def test_a_brokers_file_holds_any_folder(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "Jürgen\\ö", 0, 9092, "127.0.0.1:1", {})
    broker.folder.mkdir()
    broker.process.command[:] = ["true"]
    broker.start()
    broker.stop()
    assert parse_properties(broker.properties_file.read_text())["log.dirs"] == str(broker.log_dir)


@pytest.mark.integration
@pytest.mark.embedded
@pytest.mark.parametrize("name", ["Jürgen 💾", "back\\slash", "a,b"])
def test_zookeepers_data_lies_in_its_folder(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This includes the locale of a bare shell, in which Java writes ``?`` for letters beyond ASCII."""
    monkeypatch.setenv("LC_ALL", "C")
    with EmbeddedZooKeeper(tmp_path / name, force_sync=False) as zookeeper:
        assert (zookeeper.data_dir / "data" / "version-2").is_dir()
    assert [path.name for path in tmp_path.iterdir()] == [name]
