"""`python -m tests.bench.quota_rate`: the rate of a client that always produces or fetches as much as its quota allows.

Both brokers are measured at the same time, over the seconds after the first window. The clients use next to no CPU: one
connection, one request in flight, the same batch again and again.
"""

from __future__ import annotations

import json
import struct
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import click

from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.fetch_request import FetchPartition, FetchRequest, FetchTopic, write_fetch_request
from kafka_zk.protocol.produce import PartitionData, ProduceRequest, TopicData, write_produce_request
from tests.bench.partition_wire import CLIENT_ID, Wire
from tests.kafka_zk.broker.conftest import batch
from tests.peers import apache_kafka, targets

WINDOW_S = 11
"""quota.window.num samples of a second: before the end of this window, a client may use its unused quota."""
WITHIN = 0.05
_TOPIC = "limited"
_BATCH_BYTES = 20_000
_FETCHED_BYTES = 60_000
_FETCH_VERSION, _PRODUCE_VERSION = 11, 8
_KEYS = {"produce": "producer_byte_rate", "fetch": "consumer_byte_rate"}
_HEADER_BYTES = 10 + len(CLIENT_ID)
_FRAME_BYTES = 8  # size and correlation id of a response


class Sample(NamedTuple):
    """A request that got its response ``at_s`` seconds after the start, and the bytes that the quota counts for it."""

    at_s: float
    size_bytes: int


def rate(samples: Iterable[Sample], seconds: float) -> float:
    """Bytes per second over ``seconds`` after the first window."""
    counted = sum(each.size_bytes for each in samples if WINDOW_S <= each.at_s < WINDOW_S + seconds)
    return counted / seconds


def _measure(port: int, kind: str, seconds: float) -> list[Sample]:
    """Send requests without a pause until the seconds after the first window are over."""
    samples: list[Sample] = []
    with Wire(port) as wire:
        ask: Callable[[Wire], int] = {"produce": _produce, "fetch": _fetch}[kind]
        begun_s = time.monotonic()
        while (at_s := time.monotonic() - begun_s) < WINDOW_S + seconds:
            size_bytes = ask(wire)
            samples.append(Sample(at_s, size_bytes))
    return samples


def _produce(wire: Wire) -> int:
    data = batch(b"x" * _BATCH_BYTES, timestamp_ms=int(time.time() * 1000))
    request = ProduceRequest(None, 1, 30_000, [TopicData(_TOPIC, [PartitionData(0, data)])])
    body = b"".join(map(bytes, write_produce_request(_PRODUCE_VERSION, request)))
    wire.send(ApiKey.PRODUCE, _PRODUCE_VERSION, body)
    answer = wire.receive()
    (code,) = struct.unpack_from(">h", answer, 4 + 2 + len(_TOPIC) + 4 + 4)
    assert code == 0, code
    return _HEADER_BYTES + len(body)


def _fetch(wire: Wire) -> int:
    topics = [FetchTopic(_TOPIC, None, [FetchPartition(0, 0, _FETCHED_BYTES)])]
    body = write_fetch_request(_FETCH_VERSION, FetchRequest(0, 1, topics, _FETCHED_BYTES))
    wire.send(ApiKey.FETCH, _FETCH_VERSION, body)
    answer = wire.receive()
    return _FRAME_BYTES + len(answer) if len(answer) > _BATCH_BYTES else 0  # an empty response does not count


def _prepare(broker: targets.Target, bound: float) -> None:
    """Create a topic with enough records to fetch, and the quotas."""
    broker.create_topic(_TOPIC)
    with Wire(broker.ports[0]) as wire:
        for _ in range(2 * _FETCHED_BYTES // _BATCH_BYTES):
            _produce(wire)
    with BlockingAdmin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_client_quotas({"client-id": CLIENT_ID.decode()}, dict.fromkeys(_KEYS.values(), bound))
    time.sleep(WINDOW_S)  # the records written without a quota leave the window


def run(folder: Path, names: Iterable[str], bound: float, seconds: float) -> dict[str, dict[str, float]]:
    """The rate for each broker and kind of request, divided by the quota."""
    zookeeper = apache_kafka.start_zookeeper(folder / "zookeeper", force_sync=False)
    started: list[targets.Target] = []
    try:
        for name in names:
            started.append(targets.start(name, zookeeper.connect_string, folder / name))
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda broker: _prepare(broker, bound), started))
            running = {
                (broker.name, kind): pool.submit(_measure, broker.ports[0], kind, seconds)
                for broker in started
                for kind in _KEYS
            }
            ratios: dict[str, dict[str, float]] = {}
            for (name, kind), measured in running.items():
                ratios.setdefault(name, {})[kind] = round(rate(measured.result(), seconds) / bound, 3)
            return ratios
    finally:
        for broker in started:
            broker.stop()
        zookeeper.stop()


@click.command()
@click.option("--bound", default=1_000_000, show_default=True, help="Bytes a second, of each kind.")
@click.option("--seconds", default=60, show_default=True, help="Measured after the first window.")
@click.option("--kafka/--no-kafka", default=True, help="Apache Kafka beside ours.")
@click.option("--json", "as_json", is_flag=True)
def main(bound: int, seconds: int, kafka: bool, as_json: bool) -> None:
    """Measure the rate of clients under a quota. The exit code is 1 if a rate of ours is not within 5 % of the quota.
    """
    names = targets.NAMES if kafka else (targets.KAFKA_ZK,)
    with tempfile.TemporaryDirectory() as folder:
        ratios = run(Path(folder), names, bound, seconds)
    if as_json:
        click.echo(json.dumps(ratios))
    else:
        for name, kinds in ratios.items():
            for kind, ratio in kinds.items():
                click.echo(f"{name:12} {kind:8} {ratio:.3f} of {bound:,} bytes a second")
    if any(abs(ratio - 1) > WITHIN for ratio in ratios[targets.KAFKA_ZK].values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
