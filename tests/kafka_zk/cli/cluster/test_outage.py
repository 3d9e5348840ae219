"""``kafka-zk outage`` on the logs of a real outage, and on invalid folders."""

import json
import re
import shutil
from pathlib import Path

import pytest

from kafka_zk.cli.main import run
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.web.api import RecordingApi
from kafka_zk.recorder.web.sampled import to_ask
from kafka_zk.recorder.web.sources import LogSource
from tests.kafka_zk.recorder.outages import DATA
from tests.kafka_zk.recorder.zookeeper_files.test_transaction_log import HEADER, created, record

OUTAGE = DATA / "broker-killed"
ZOOKEEPER, BROKERS = ("--zookeeper-log", str(OUTAGE / "zookeeper")), ("--broker-logs", str(OUTAGE))


def outage(*arguments: str) -> int:
    return run(["outage", *arguments])


def test_both_logs_are_told_by_time_in_their_zone(capsys: pytest.CaptureFixture[str]) -> None:
    assert outage(*ZOOKEEPER, *BROKERS, "--log-time-zone", "UTC") == 0
    output = capsys.readouterr()
    lines = output.out.splitlines()
    assert [line[:23] for line in lines] == sorted(line[:23] for line in lines)
    begin = next(number for number, line in enumerate(lines) if "the session of broker 1 expired" in line)
    expired, elected, told, *_ = (line[25:] for line in lines[begin:])
    assert lines[begin].startswith("2026-11-30 00:21:33.570  znodes")
    assert expired.endswith("expired (ZooKeeper heard nothing from it for 4 s), with 2 ephemeral znodes")
    assert elected.endswith("broker 2 is the controller instead of 1, epoch 2, 15 ms after /controller was gone")
    assert told == "broker 2      is elected controller, epoch 2"
    assert sum("sent no heartbeat within its session timeout" in line for line in lines) == 1
    assert "the cluster is below /kafka" in output.err


def test_the_zone_moves_the_brokers_times_only(capsys: pytest.CaptureFixture[str]) -> None:
    """With another zone, the displayed times of the brokers' lines stay, and those of ZooKeeper's lines change."""
    assert outage(*ZOOKEEPER, *BROKERS, "--log-time-zone", "Asia/Tokyo") == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("2026-11-30 09:21:33.570  znodes") for line in lines)
    assert any(line.startswith("2026-11-30 00:21:33.596  broker 2      is elected controller") for line in lines)


def test_json_has_every_event(capsys: pytest.CaptureFixture[str]) -> None:
    assert outage("--zookeeper-log", str(DATA / "migration" / "zookeeper"), "--json") == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["phase"] for each in events if each["event"] == "MigrationPhaseReached"][-1] == "brokers moved"


def test_a_copy_of_the_files_alone_is_enough_and_damage_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(OUTAGE / "zookeeper" / "version-2" / "log.1", tmp_path / "log.1")
    content = bytearray((tmp_path / "log.1").read_bytes())
    content[9_000] ^= 1
    (tmp_path / "log.1").write_bytes(content)
    assert outage("--zookeeper-log", str(tmp_path)) == 0
    output = capsys.readouterr()
    assert "log.1 is damaged at byte" in output.err and "is the controller, epoch 1" in output.out


def test_clusters_that_share_a_zookeeper_are_chosen_by_chroot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = ("/a/brokers/ids/1", "/brokers/ids/2", "/other/data")
    records = b"".join(record(zxid, 1, created(path, ephemeral=True)) for zxid, path in enumerate(paths, 1))
    (tmp_path / "log.1").write_bytes(HEADER + records + record(4, -11, b""))
    assert outage("--zookeeper-log", str(tmp_path)) == 1
    assert "choose one with --chroot (/, /a)" in capsys.readouterr().err
    for chroot, owner in (("/a/", "broker 1"), ("/", "broker 2")):
        assert outage("--zookeeper-log", str(tmp_path), "--chroot", chroot) == 0
        assert f"the session of {owner} expired" in capsys.readouterr().out


def test_numbers_that_cannot_be_are_read_without_a_bug(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The log has ids of thousands of digits, and a time beyond the range of ``datetime``."""
    digits = "1" * 5_000
    paths = (
        f"/brokers/ids/{digits}",
        f"/brokers/topics/t/partitions/{digits}/state",
        f"/consumers/g/offsets/t/{digits}",
    )
    records = [record(zxid, 1, created(path)) for zxid, path in enumerate(paths, 1)]
    later = [record(1 << 61, 1, created("/brokers/ids/1", ephemeral=True)), record((1 << 61) + 1, -11, b"")]
    (tmp_path / "log.1").write_bytes(HEADER + b"".join([*records, *later]))
    assert outage("--zookeeper-log", str(tmp_path)) == 0
    told = capsys.readouterr()
    assert f"{(1 << 61) + 1_001} ms  znodes" in told.out and "bug" not in told.err
    source, recording = LogSource(tmp_path), Recording()
    recording.add([], source.read()[:3])
    assert recording.entries.count == 3
    assert RecordingApi(recording).state({})["cluster"]["topics"] == []
    assert to_ask(recording).in_zookeeper == {}


DOCUMENT = Path(__file__).parents[4] / "docs" / "explanation" / "outages.md"
_KINDS_OF_OUTAGES = 10


def test_the_documented_lines_are_those_of_the_recordings(capsys: pytest.CaptureFixture[str]) -> None:
    for folder in sorted(DATA.iterdir()):
        logs = ("--broker-logs", str(folder)) if any(folder.glob("broker-*")) else ()
        assert outage("--zookeeper-log", str(folder / "zookeeper"), *logs, "--log-time-zone", "UTC") == 0
    told = re.sub(r"(?m)^\S+ (\S{8})\.\d{3}", r"\1", capsys.readouterr().out)
    sections = DOCUMENT.read_text().split("\n## ")[1:]
    documented = [re.findall(r"(?m)^\d\d:\d\d:\d\d  .*", section) for section in sections]
    assert len(documented) == _KINDS_OF_OUTAGES and all(documented)
    for line in (line for lines in documented for line in lines):
        pattern = ".*".join(map(re.escape, line.split("…")))
        assert re.search(f"(?m)^{pattern}", told), line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name --zookeeper-log, --broker-logs or both"),
        (("--zookeeper-log", "{empty}"), "expected version-2/log.*; name the server's dataLogDir"),
        (("--zookeeper-log", "{empty}/none"), "does not exist"),
        ((*ZOOKEEPER, *ZOOKEEPER), "expected version-2/log.* of one server only"),
        (("--broker-logs", "{empty}"), "have no server.log, controller.log or state-change.log"),
        ((*BROKERS, "--log-time-zone", "Mars/Dust"), "'Mars/Dust' is not a time zone"),
        ((*ZOOKEEPER, "--chroot", "kafka"), "must begin with /"),
    ],
)  # fmt: skip
def test_a_wrong_folder_or_zone_is_one_sentence(
    arguments: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outage(*(each.replace("{empty}", str(tmp_path)) for each in arguments)) != 0
    output = capsys.readouterr()
    assert said in " ".join(output.err.split()) and not output.out
