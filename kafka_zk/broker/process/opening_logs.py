"""Opens a broker's logs in slices. After a crash this can take minutes, during which ZooKeeper's heartbeats must
continue."""

from collections.abc import Callable, Mapping

from twisted.logger import Logger

from kafka_zk.base.clock import Timers
from kafka_zk.base.turns import after
from kafka_zk.broker.config.kafka_config import InvalidBrokerConfig
from kafka_zk.registry.config import ConfigRegistry
from kafka_zk.registry.znodes.config import entity_path
from kafka_zk.storage.files.errors import InvalidConfig
from kafka_zk.storage.files.findings import Finding
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.manager.log_manager import LogManager
from kafka_zk.storage.manager.log_start import HELPER_POLL_S, StartProgress, StartReport

_log = Logger()

SLICE_S = 0.02
DELETES_NOTHING = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
PROGRESS_INTERVAL_S = 2.0


class StartAbandoned(Exception):
    """The broker was stopped before its logs were open."""


async def usable_configs(configs: ConfigRegistry, defaults: LogConfig) -> dict[str, dict[str, str]]:
    """Configurations by topic; invalid ones, which old tools can write, are logged.

    If a configuration is invalid, or hidden by an ACL, the topic's logs delete nothing, and the topic is not served
    until the configuration is known.

    Raises: RegistryError; InvalidBrokerConfig if a topic is tiered, and the broker has no remote storage.
    """
    topics = await configs.entity_names("topics")
    stored = await configs.synced_entities("topics", topics)
    usable: dict[str, dict[str, str]] = {topic: DELETES_NOTHING for topic in topics if topic not in stored}
    for topic, properties in stored.items():
        try:
            LogConfig.from_properties(properties, defaults)
        except InvalidConfig as error:
            _log.error("{path} is invalid: {error}", path=entity_path("topics", topic), error=error)
            usable[topic] = DELETES_NOTHING
        else:
            usable[topic] = properties
    _refuse_tiered(usable, defaults)
    return usable


def _refuse_tiered(topics: Mapping[str, Mapping[str, str]], defaults: LogConfig) -> None:
    """Refuse tiered topics, because a broker without remote storage can neither serve nor keep their remote records.

    Raises: InvalidBrokerConfig. Source: LogConfig.validateRemoteStorageOnlyIfSystemEnabled@3.9.
    """
    if defaults.remote_log_storage_system_enable:
        return
    tiered = sorted(
        topic
        for topic, properties in topics.items()
        if LogConfig.from_properties(properties, defaults).of_topic(topic).remote_storage_enable
    )
    if tiered:
        more = f" and {len(tiered) - 3} more" if len(tiered) > 3 else ""
        raise InvalidBrokerConfig(
            "remote.log.storage.system.enable=false: must be true, or all topics with remote.storage.enable=true must "
            f"be deleted first: {', '.join(tiered[:3])}{more}"
        )


async def open_logs(
    clock: Timers,
    logs: LogManager,
    topic_configs: Mapping[str, Mapping[str, str]],
    is_stopping: Callable[[], bool],
) -> StartReport:
    """Open the logs, and log progress and findings.

    Args:
        is_stopping: returns True if the broker was stopped during a pause.
    Raises: StartAbandoned; errors of ``LogManager.start_steps``.
    """
    steps = logs.start_steps(topic_configs)
    begun_s = shown_s = clock.seconds()
    slice_end_s = begun_s + SLICE_S
    while True:
        try:
            progress = next(steps)
        except StopIteration as stop:
            report: StartReport = stop.value
            _tell_findings(report, clock.seconds() - begun_s)
            return report
        now_s = clock.seconds()
        if now_s - shown_s >= PROGRESS_INTERVAL_S:
            shown_s = now_s
            _tell_progress(progress)
        if progress.is_waiting or now_s >= slice_end_s:
            await after(clock, HELPER_POLL_S if progress.is_waiting else 0)
            if is_stopping():
                raise StartAbandoned
            slice_end_s = clock.seconds() + SLICE_S


def tell_finding(finding: Finding) -> None:
    """Log a WARN for a file that storage could not use unchanged."""
    kept = {} if finding.kept_as is None else {"kept_as": finding.kept_as}
    _log.warn(
        "{path} {problem}: {meaning}", path=finding.path, problem=finding.problem, meaning=finding.meaning, **kept
    )


def log_full_producers(limit: int) -> None:
    """Log that the log manager has reached its limit of remembered producers."""
    _log.error(
        "the broker remembers {limit} producers, which is the limit. It rejects new producers' batches until others"
        " expire (producer.id.expiration.ms)",
        limit=limit,
    )


def _tell_progress(progress: StartProgress) -> None:
    _log.info(
        "opening logs",
        opened=progress.log_count,
        count=progress.total_log_count,
        scanned_bytes=progress.scanned_bytes,
        bytes_to_scan=progress.bytes_to_scan,
    )


def _tell_findings(report: StartReport, seconds: float) -> None:
    for lost in report.dropped:
        _log.warn(
            "recovery dropped the end of a log: {reason}",
            reason=lost.reason,
            topic=lost.tp.topic,
            partition=lost.tp.partition,
            file=lost.path,
            position=lost.position,
            bytes_dropped=lost.bytes_dropped,
            segments_dropped=len(lost.segments_dropped),
            log_end_offset=lost.log_end_offset,
            kept_as=lost.kept_as,
        )
        for path in lost.segments_dropped:
            _log.warn("{path} is after the new end of the log; moved to {kept_as}", path=path, kept_as=lost.kept_as)
    for directory, reason in report.offline_directories.items():
        _log.error("log directory {directory} cannot be used: {reason}", directory=directory, reason=reason)
    _log.info(
        "logs opened",
        count=report.log_count,
        recovered=report.recovered_count,
        scanned_bytes=report.scanned_bytes,
        seconds=round(seconds, 3),
    )
