"""Decimal integers in user input, files and znodes: one parser, and one sentence for invalid ones."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from kafka_zk.base.integers import INT32, INT64, decimal_integer
from kafka_zk.broker.config.dynamic_config import DynamicBrokerConfig
from kafka_zk.broker.config.kafka_config import InvalidBrokerConfig, KafkaConfig
from kafka_zk.broker.handlers.configs import config_resources
from kafka_zk.cli import consume, topics
from kafka_zk.cli.groups import group_reset, offsets_file
from kafka_zk.cli.main import run
from kafka_zk.cli.terminal.durations import parse_time_ms
from kafka_zk.clients.connection.config import ClientConfig, parse_bootstrap_servers
from kafka_zk.clients.connection.errors import ConfigError
from kafka_zk.protocol.errors import ApiError
from kafka_zk.registry.znodes.json_codec import number_of
from kafka_zk.spark_jobs.errors import OptionError, WronglyAsked
from kafka_zk.spark_jobs.extraction.preflight import check_master
from kafka_zk.spark_jobs.source import offset_specs, options
from kafka_zk.storage.files import checkpoints
from kafka_zk.storage.files.errors import CorruptCheckpoint, CorruptMetaProperties, InvalidConfig
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.manager import dump, meta_properties
from kafka_zk.testing import options as plugin_options

MANY_DIGITS = "9" * 5_000  # Python's int() refuses this many
NUMBERS = {"superscript": "²", "digits of another script": "٣", "many digits": MANY_DIGITS, "underscore": "1_0"}
MINIMAL = {"zookeeper.connect": "z:2181", "listeners": "PLAINTEXT://h:9092", "log.dirs": "/logs"}


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("-0", 0), ("007", 7), ("-5", -5), (str(2**31 - 1), 2**31 - 1), (str(-(2**31)), -(2**31)),
     (str(2**31), None), ("", None), ("-", None), ("+5", None), (" 5", None), ("5\n", None), ("0x5", None)],
)  # fmt: skip
def test_what_is_a_decimal_integer(text: str, number: int | None) -> None:
    assert decimal_integer(text, INT32) == number


@pytest.mark.parametrize("text", NUMBERS.values(), ids=NUMBERS)
def test_what_only_python_takes_for_one_or_fails_over(text: str) -> None:
    assert decimal_integer(text, INT64) is None and number_of(text, INT64) is None


def _broker_config(key: str, value: str) -> Callable[[str], object]:
    return lambda text: KafkaConfig.from_properties({**MINIMAL, key: value % text})


def _plugin_broker_count(text: str) -> object:
    config: Any = SimpleNamespace(getini=lambda name: text)
    return plugin_options.broker_count(config)


def _dynamic_overrides(text: str) -> None:
    DynamicBrokerConfig(MINIMAL).validate({"max.connections.per.ip.overrides": f"h:{text}"}, per_broker=False)


def _check_broker(text: str) -> object:
    services: Any = SimpleNamespace(broker_id=1)
    return config_resources.check_broker(services, text)


SOURCE = {"kafka.bootstrap.servers": "h:9092", "subscribe": "t"}
ENTRY_POINTS: dict[str, tuple[Callable[[str], object], type[Exception]]] = {
    "listeners": (_broker_config("listeners", "PLAINTEXT://h:%s"), InvalidBrokerConfig),
    "advertised.listeners": (_broker_config("advertised.listeners", "PLAINTEXT://h:%s"), InvalidBrokerConfig),
    "max.connections.per.ip.overrides": (
        _broker_config("max.connections.per.ip.overrides", "h:%s"), InvalidBrokerConfig
    ),
    "max.connections.per.ip.overrides of a running broker": (_dynamic_overrides, ApiError),
    "replicas that are throttled": (
        lambda text: LogConfig.from_properties({"leader.replication.throttled.replicas": f"0:{text[:200]}x"}),
        InvalidConfig,
    ),
    "a broker's name in DescribeConfigs": (_check_broker, ApiError),
    "bootstrap.servers": (lambda text: parse_bootstrap_servers(f"h:{text}"), ConfigError),
    "a client's number": (lambda text: ClientConfig.from_properties({"request.timeout.ms": text}), ConfigError),
    "consume --offset": (lambda text: consume._start(text, False, None), click.UsageError),
    "consume --from-timestamp": (parse_time_ms, click.UsageError),
    "groups reset --topic": (
        lambda text: group_reset.parse_topics([f"t:{text}"], {"t": [0, 3, 10]}), click.ClickException
    ),
    "groups import": (
        lambda text: offsets_file.parse([f"/consumers/g/offsets/t/{text}:5"]), click.ClickException
    ),
    "topics create --replica-assignment": (lambda text: topics._parse_assignment(f"0:{text}"), click.UsageError),
    "--master": (lambda text: check_master(f"spark://h:{text}"), WronglyAsked),
    "startingTimestamp": (lambda text: offset_specs.parse_time("startingTimestamp", text), OptionError),
    "a partition in startingOffsets": (
        lambda text: offset_specs.parse_word_or_json("startingOffsets", json.dumps({"t": {text: 5}})), OptionError
    ),
    "an offset in startingOffsets": (
        lambda text: offset_specs.parse_word_or_json("startingOffsets", f'{{"t":{{"0":{text}}}}}'), OptionError
    ),
    "a partition in assign": (lambda text: offset_specs.parse_assign(f'{{"t":[{text}]}}'), OptionError),
    "minPartitions": (lambda text: options.parse({**SOURCE, "minPartitions": text}), OptionError),
    "kafka.request.timeout.ms": (
        lambda text: options.kafka_number({"request.timeout.ms": text}, "request.timeout.ms", 1), OptionError
    ),
    "kafka_zk_brokers": (_plugin_broker_count, pytest.UsageError),
    "a checkpoint": (lambda text: checkpoints.parse_number(text, 2**63 - 1, "file"), CorruptCheckpoint),
}  # fmt: skip


@pytest.mark.parametrize("text", [*NUMBERS.values(), str(2**64)], ids=[*NUMBERS, "beyond 64 bits"])
@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_it_is_refused_in_one_sentence(entry_point: str, text: str) -> None:
    take, refusal = ENTRY_POINTS[entry_point]
    with pytest.raises(refusal) as raised:
        take(text)
    told = str(raised.value)
    assert "\n" not in told and "Exceeds the limit" not in told  # not Python's own message


@pytest.mark.parametrize("text", NUMBERS.values(), ids=NUMBERS)
def test_a_zoo_cfg_with_a_port_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    zoo_cfg = tmp_path / "zoo.cfg"
    zoo_cfg.write_text(f"dataDir={tmp_path}\nclientPort={text}\n")
    assert run(["zookeeper", str(zoo_cfg)]) == 1
    assert re.search(r"clientPort=.* is not a port number", capsys.readouterr().err)


@pytest.mark.parametrize("text", NUMBERS.values(), ids=NUMBERS)
def test_a_broker_id_in_meta_properties(tmp_path: Path, text: str) -> None:
    (tmp_path / "meta.properties").write_text(f"version=0\nbroker.id={text}\n")
    with pytest.raises(CorruptMetaProperties, match=r"broker.id=.* is not a broker's id"):
        meta_properties.read_meta_properties(str(tmp_path))


@pytest.mark.parametrize("text", ["x", *NUMBERS.values()], ids=["letters", *NUMBERS])
@pytest.mark.parametrize(
    ("name", "row"), [("leader-epoch-checkpoint", "%s 4"), ("recovery-point-checkpoint", "t 0 %s")]
)
def test_a_checkpoint_that_is_dumped(tmp_path: Path, name: str, row: str, text: str) -> None:
    (tmp_path / name).write_text(f"0\n1\n{row % text}\n")
    [told] = dump.dump_file(tmp_path / name)
    assert "is not a" in told["problem"]


@pytest.mark.parametrize(
    "command",
    ["topics create --topic t --partitions", "topics create --topic t --partitions 1 --replication-factor",
     "produce --topic t --partition", "consume --topic t --partition", "offsets --topic t --partition"],
)  # fmt: skip
def test_a_number_that_the_protocol_has_no_room_for(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The command fails before it sends a request."""
    assert run([*command.split(), str(2**31)]) == 2
    assert "is not in the range" in capsys.readouterr().err
