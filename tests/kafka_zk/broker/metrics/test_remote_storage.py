"""The values of the metrics of tiered storage."""

from pathlib import Path
from types import SimpleNamespace

from kafka_zk.broker.metrics.remote_storage import remote_storage_metrics
from kafka_zk.broker.tiered.broker_topic_stats import RequestRates
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.storage.tiered.object_store import ObjectStoreError
from kafka_zk.storage.tiered.segment_metadata import RemoteLogSegmentMetadata
from kafka_zk.storage.tiered.segment_storage import LocalSegmentStorage
from tests.kafka_zk.broker.handlers.data.test_produce_and_fetch import fetch, fetched
from tests.kafka_zk.broker.tiered.tiered_broker import TieredBroker

TOPICS = "kafka_server_brokertopicmetrics_remote"


def metrics(broker: TieredBroker) -> dict[str, float]:
    """Values by metric name and topic."""
    storage = SimpleNamespace(
        manager=broker.manager, plugin=broker.plugin, reads=broker.reads, reader_calls=broker.reader_calls,
        state=SimpleNamespace(rates=RequestRates(requests=3, errors=1)),
    )  # fmt: skip
    return {
        sample.name + "".join(f",{value}" for value in sample.labels.values()): sample.value
        for family in remote_storage_metrics(storage)
        for sample in family.samples
    }


def test_copies_and_reads_are_counted(tmp_path: Path) -> None:
    broker = TieredBroker(tmp_path)
    broker.fill(7)
    broker.run()
    copied = sum(each.size_bytes for each in broker.remote.segments.values())
    read = fetched(broker.harness.ask(ApiKey.FETCH, 12, fetch(2)))
    found = metrics(broker)
    for name, value in {
        f"{TOPICS}copyrequests_total": 3,
        f"{TOPICS}copyerrors_total": 0,
        f"{TOPICS}copybytes_total": copied,
        f"{TOPICS}fetchrequests_total": 1,
        f"{TOPICS}fetcherrors_total": 0,
        f"{TOPICS}fetchbytes_total": len(read.records),
        f"{TOPICS}deleterequests_total": 0,
        f"{TOPICS}copylagbytes,t": 0,
        f"{TOPICS}copylagsegments,t": 0,
        f"{TOPICS}logmetadatacount,t": 3,
        f"{TOPICS}logsizebytes,t": copied,
        "kafka_server_brokertopicmetrics_buildremotelogauxstaterequests_total": 3,
        "kafka_server_brokertopicmetrics_buildremotelogauxstateerrors_total": 1,
        "kafka_log_remote_remotelogmanager_remotelogmanagertasksavgidlepercent": 1,
        "kafka_log_remote_remotelogmanager_remotelogreaderfetchrateandtimems_count": 1,
    }.items():
        assert found[name] == value, name
    assert found["kafka_server_rlmcopy_byte_rate"] > found["kafka_server_rlmfetch_byte_rate"] > 0


def test_what_waits_for_the_quota_is_the_lag(tmp_path: Path) -> None:
    """The segments that the quota holds back, and those that wait for a transaction."""
    broker = TieredBroker(tmp_path)
    broker.copy_bytes_per_second = 1
    broker.fill(9)
    broker.log.update_high_watermark(6)
    broker.run()
    found = metrics(broker)
    assert found[f"{TOPICS}copylagsegments,t"] == 3
    segments = broker.log.segments[:-1]
    assert found[f"{TOPICS}copylagbytes,t"] == sum(each.size_bytes for each in segments)
    assert found["kafka_server_remotelogmanager_remote_copy_throttle_time_avg"] > 0


def test_work_in_progress_and_failures_are_visible(tmp_path: Path) -> None:
    broker = TieredBroker(tmp_path)
    broker.fill(7)
    broker.threads.holds = True
    broker.run()
    assert metrics(broker)["kafka_log_remote_remotelogmanager_remotelogmanagertasksavgidlepercent"] == 0.5

    def refuse(segment: RemoteLogSegmentMetadata, data: object) -> None:
        raise ObjectStoreError("the store refuses")

    broker.storage.copy = refuse  # type: ignore[method-assign]
    broker.threads.holds = False
    broker.threads.release()
    found = metrics(broker)
    assert (found[f"{TOPICS}copyrequests_total"], found[f"{TOPICS}copyerrors_total"]) == (1, 1)
    assert found[f"{TOPICS}copylagsegments,t"] == 3


def test_deletions_that_fail_are_a_lag(tmp_path: Path) -> None:
    broker = TieredBroker(tmp_path, retention_ms="0")
    broker.fill(7)
    broker.run()

    def refuse(segment: RemoteLogSegmentMetadata) -> None:
        raise ObjectStoreError("the store refuses")

    broker.storage.delete = refuse  # type: ignore[method-assign]
    before = metrics(broker)[f"{TOPICS}deleterequests_total"]
    broker.fill(6)
    broker.run()
    broker.run()
    found = metrics(broker)
    assert found[f"{TOPICS}deleteerrors_total"] == found[f"{TOPICS}deleterequests_total"] - before > 0
    assert found[f"{TOPICS}deletelagsegments,t"] > 0
    assert found[f"{TOPICS}deletelagbytes,t"] > 0
    broker.storage = LocalSegmentStorage(str(broker.remote_folder))
    broker.start()
    broker.run()
    assert metrics(broker)[f"{TOPICS}deletelagsegments,t"] == 0


def test_topics_that_another_broker_leads_are_not_shown(tmp_path: Path) -> None:
    broker = TieredBroker(tmp_path)
    broker.fill(7)
    broker.run()
    broker.harness.lead_again("t", broker.topic_id, leader=1, leader_epoch=1, isr=[0, 1], replicas=[0, 1])
    broker.run()
    assert not [name for name in metrics(broker) if name.endswith(",t")]
