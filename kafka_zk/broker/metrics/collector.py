"""A broker's metrics, named as Kafka's users know them: lower-case JMX names, ``PerSec`` counters as ``_total``.

Strimzi's rules for the JMX exporter produce the same names. Values are read on request, on the reactor; messages are
counted from log end offsets since the start.

Source: the MBeans of Kafka 3.9 (kafka.server, kafka.controller, kafka.coordinator, kafka.network, kafka.log).
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.metrics.certificates import certificate_metrics
from kafka_zk.broker.metrics.client_quotas import client_quota_metrics, connection_rate_metrics
from kafka_zk.broker.metrics.log_cleaner import log_cleaner_metrics
from kafka_zk.broker.metrics.logins import login_metrics
from kafka_zk.broker.metrics.remote_storage import remote_storage_metrics
from kafka_zk.broker.metrics.request_stats import RequestStats
from kafka_zk.broker.metrics.watchdog import Watchdog
from kafka_zk.native.loading import implementation
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.registry.client.client import SessionState

_SESSION_STATES = {
    SessionState.CONNECTED: "CONNECTED",
    SessionState.SUSPENDED: "CONNECTING",
    SessionState.LOST: "CLOSED",
}


class BrokerCollector(Collector):
    """Collects a broker's metrics. Create it when the broker has started."""

    def __init__(self, parts: Any, client: Any, stats: RequestStats, watchdog: Watchdog | None = None) -> None:
        self._parts = parts
        self._services = parts.services
        self._connection_rates = parts.connection_rates
        self._log_cleaner = parts.log_cleaner
        self._replica_fetchers = parts.replica_fetchers
        self._logins = parts.logins
        self._watchdog = watchdog
        self._client = client
        self._stats = stats
        self._end_offsets = {tp: log.log_end_offset for tp, log in self._logs()}
        self._messages: Counter[str] = Counter({tp.topic: 0 for tp in self._end_offsets})
        self._session_changes: Counter[SessionState] = Counter()
        client.add_session_listener(lambda state: self._session_changes.update([state]))

    def collect(self) -> Iterator[Metric]:
        yield from self._topics()
        yield from self._replicas()
        yield from self._controller()
        yield from self._transactions()
        yield from self._requests()
        yield from login_metrics(self._logins)
        yield from self._quotas()
        yield from self._sizes()
        yield from log_cleaner_metrics(self._log_cleaner, self._services.clock.wall_ms())
        if self._parts.remote_storage is not None:
            yield from remote_storage_metrics(self._parts.remote_storage)
        if self._parts.tls is not None:
            yield from certificate_metrics(self._parts.tls.days_left())
        yield from self._zookeeper()
        yield from self._reactor()
        yield from self._authorizer()
        yield from self._native()

    def _native(self) -> Iterator[Metric]:
        native = implementation().native
        name = "kafka_zk_native"
        yield GaugeMetricFamily(name, "1 if the native module is used, 0 if pure Python is used.", native is not None)
        handled = CounterMetricFamily(name + "_handled", "Calls that the native module completed.", labels=["function"])
        for function, count in ({} if native is None else native.handled()).items():
            handled.add_metric([function], count)
        yield handled

    def _logs(self) -> list[tuple[TopicPartition, Any]]:
        partitions = self._services.replicas.partitions
        return [(tp, partition.log) for tp, partition in partitions.items() if partition.log is not None]

    def _topics(self) -> Iterator[Metric]:
        for tp, log in self._logs():
            self._messages[tp.topic] += max(0, log.log_end_offset - self._end_offsets.get(tp, 0))
            self._end_offsets[tp] = log.log_end_offset
        messages = CounterMetricFamily(
            "kafka_server_brokertopicmetrics_messagesin", "Records appended.", labels=["topic"]
        )
        for topic, count in sorted(self._messages.items()):
            messages.add_metric([topic], count)
        yield messages
        yield _counter(
            "kafka_server_brokertopicmetrics_bytesin", "Bytes of Produce requests.", self._stats.produced_bytes
        )
        name = "kafka_server_brokertopicmetrics_"
        to_followers = self._services.replicas.replication_bytes_out
        to_clients = self._stats.fetched_bytes - to_followers
        yield _counter(name + "bytesout", "Bytes of Fetch responses to clients.", to_clients)
        yield _counter(name + "replicationbytesout", "Bytes of Fetch responses to followers.", to_followers)
        fetched = self._replica_fetchers.bytes_in
        yield _counter(name + "replicationbytesin", "Bytes of records fetched from leaders.", fetched)
        unchecked = self._services.replicas.record_checks.unchecked_count
        yield _counter("kafka_zk_uncheckedbatches", "Batches appended without a check of their records.", unchecked)
        yield from self._throttles()

    def _replicas(self) -> Iterator[Metric]:
        partitions = list(self._services.replicas.partitions.values())
        name = "kafka_server_replicamanager_"
        yield GaugeMetricFamily(name + "partitioncount", "Replicas on this broker.", len(partitions))
        leading = [partition for partition in partitions if partition.is_leader]
        yield GaugeMetricFamily(name + "leadercount", "Partitions that this broker leads.", len(leading))
        lacking = sum(len(partition.isr) < len(partition.replicas) for partition in leading)
        yield GaugeMetricFamily(name + "underreplicatedpartitions", "Led partitions with lagging replicas.", lacking)
        offline = sum(partition.log is None for partition in partitions)
        yield GaugeMetricFamily(name + "offlinereplicacount", "Replicas without a usable log.", offline)
        below = sum(len(partition.isr) < partition.min_insync_replicas for partition in leading)
        yield GaugeMetricFamily(name + "underminisrpartitioncount", "Led partitions below min.insync.replicas.", below)
        updates = self._services.replicas.isr_updates
        yield _counter(name + "isrshrinks", "Times that replicas left the ISR.", updates.shrinks)
        yield _counter(name + "isrexpands", "Times that a replica joined the ISR.", updates.expands)
        yield _counter(name + "failedisrupdates", "Changes of the ISR that failed.", updates.failed_updates)
        yield self._lags(leading)
        yield GaugeMetricFamily(
            "kafka_server_replicafetchermanager_maxlag",
            "Records that the most lagging replica lacks.",
            self._replica_fetchers.max_lag,
        )
        yield GaugeMetricFamily(
            "kafka_server_replicafetchermanager_failedpartitionscount",
            "Replicas that are no longer fetched after a local error.",
            self._replica_fetchers.failed_count,
        )

    def _lags(self, leading: list[Any]) -> Metric:
        """Number of records that each follower lacks. A follower has no sample before its first fetch."""
        lags = GaugeMetricFamily(
            "kafka_zk_replicalag", "Records that a follower lacks.", labels=["topic", "partition", "replica"]
        )
        for partition in leading:
            followers = () if partition.remotes is None else partition.remotes.followers.values()
            for follower in followers:
                if partition.log is not None and follower.log_end_offset >= 0:
                    lag = max(0, partition.log.log_end_offset - follower.log_end_offset)
                    lags.add_metric([partition.tp.topic, str(partition.tp.partition), str(follower.broker_id)], lag)
        return lags

    def _throttles(self) -> Iterator[Metric]:
        replicas = self._services.replicas
        now_ms = replicas.isr_updates.now_ms()
        for side, quota in (("leader", replicas.quotas.leader), ("follower", replicas.quotas.follower)):
            text = f"Bytes per second of throttled replicas, as {side}."
            yield GaugeMetricFamily(f"kafka_server_{side}replication_byte_rate", text, quota.byte_rate(now_ms))

    def _controller(self) -> Iterator[Metric]:
        controller = self._services.controller
        context = controller.context
        name = "kafka_controller_kafkacontroller_"
        yield GaugeMetricFamily(name + "activecontrollercount", "1 on the controller, or 0.", int(controller.is_active))
        offline = len(context.partitions_with_offline_leader())
        yield GaugeMetricFamily(name + "offlinepartitionscount", "Partitions without a live leader.", offline)
        yield GaugeMetricFamily(name + "globaltopiccount", "Topics of the cluster.", len(context.topics))
        count = sum(map(len, context.assignments.values()))
        yield GaugeMetricFamily(name + "globalpartitioncount", "Partitions of the cluster.", count)

    def _transactions(self) -> Iterator[Metric]:
        """Number and memory of transactional ids; not in Kafka."""
        counts = self._services.transactions.counts
        name = "kafka_coordinator_transaction_transactionmarkerchannelmanager_"
        text = "Transactions whose end markers wait for a partition leader or a retry."
        yield GaugeMetricFamily(name + "unknowndestinationqueuesize", text, counts.unknown_destinations)
        text = "Completed transactions whose final state could not be written to the log yet."
        yield GaugeMetricFamily(name + "logappendretryqueuesize", text, counts.append_retries)
        name = "kafka_zk_transactions_"
        yield GaugeMetricFamily(name + "transactionalids", "Transactional ids.", counts.transactional_ids)
        yield GaugeMetricFamily(name + "ongoing", "Open transactions.", counts.ongoing)
        yield GaugeMetricFamily(name + "heldbytes", "Memory of transactional ids.", counts.held_bytes)

    def _requests(self) -> Iterator[Metric]:
        name = "kafka_network_requestmetrics_"
        labels = ["request", "version"]
        requests = CounterMetricFamily(name + "requests", "Requests answered.", labels=labels)
        errors = CounterMetricFamily(name + "errors", "Requests that closed their connection.", labels=labels)
        times = SummaryMetricFamily(name + "totaltimems", "Time until the response was ready, in ms.", labels=labels)
        for key, (count, seconds) in sorted(self._stats.requests.items()):
            requests.add_metric(_labels(key), count)
            times.add_metric(_labels(key), count_value=int(count), sum_value=seconds * 1000)
        for key, count in sorted(self._stats.failed_count.items()):
            errors.add_metric(_labels(key), count)
        yield from (requests, errors, times)

    def _quotas(self) -> Iterator[Metric]:
        enforcement = self._services.client_quotas
        yield from client_quota_metrics(enforcement)
        listeners = sorted(self._services.config.listener_names)
        yield from connection_rate_metrics(self._connection_rates, listeners, enforcement.now_ms())

    def _sizes(self) -> Iterator[Metric]:
        labels = ["topic", "partition"]
        sizes = GaugeMetricFamily("kafka_log_log_size", "Bytes of the partition's segments.", labels=labels)
        starts = GaugeMetricFamily("kafka_log_log_logstartoffset", "First offset.", labels=labels)
        ends = GaugeMetricFamily("kafka_log_log_logendoffset", "Next offset.", labels=labels)
        for tp, log in sorted(self._logs()):
            values = [tp.topic, str(tp.partition)]
            sizes.add_metric(values, log.size_bytes)
            starts.add_metric(values, log.log_start_offset)
            ends.add_metric(values, log.log_end_offset)
        yield from (sizes, starts, ends)

    def _zookeeper(self) -> Iterator[Metric]:
        name = "kafka_server_sessionexpirelistener_"
        state = GaugeMetricFamily(name + "sessionstate", "1 for the state of the session.", labels=["value"])
        for known, text in _SESSION_STATES.items():
            state.add_metric([text], int(self._client.state is known))
        yield state
        changes = self._session_changes
        yield _counter(name + "zookeeperexpires", "Sessions that expired.", changes[SessionState.LOST])
        yield _counter(name + "zookeeperdisconnects", "Connections lost.", changes[SessionState.SUSPENDED])
        yield _counter(name + "zookeepersyncconnects", "Connections made again.", changes[SessionState.CONNECTED])

    def _reactor(self) -> Iterator[Metric]:
        """Long turns of the reactor. Kafka has no such metric: a slow request there blocks only one thread."""
        if self._watchdog is not None:
            count, seconds = self._watchdog.long_turn_count, self._watchdog.long_turns_s
            name = "kafka_zk_reactor_longturn"
            turns = "turns of the event loop that took a second or longer"
            yield _counter(name + "s", f"Number of {turns}; no client was served meanwhile.", count)
            yield _counter(name + "seconds", f"Total duration of {turns}.", seconds)

    def _authorizer(self) -> Iterator[Metric]:
        authorizer = self._services.authorizer
        if authorizer.has_rules:
            name, counts = "kafka_zk_authorizer_", authorizer.counts
            yield _counter(name + "denials", "Requests that the authorizer has denied.", counts.denials)
            yield GaugeMetricFamily(name + "patterns", "Resource patterns that have ACLs.", counts.patterns)
            text = "Patterns that are denied to everyone, because their ACLs are invalid or unreadable."
            yield GaugeMetricFamily(name + "unreadable", text, counts.unreadable)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value)


def _labels(key: tuple[int, int]) -> list[str]:
    """Kafka's name of an API ("ListOffsets"), and the version."""
    return ["".join(word.capitalize() for word in ApiKey(key[0]).name.split("_")), str(key[1])]
