"""The demo's steps."""

import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.connection.errors import KafkaTimeoutError
from kafka_zk.clients.consumer.blocking_reader import BlockingReader
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.clients.producer.future import RecordFuture
from kafka_zk.embedded.spark_packages import obstacle
from kafka_zk.learn.demo import whereabouts
from kafka_zk.learn.demo.cluster import DemoCluster
from kafka_zk.learn.demo.demo_lake import DemoLake
from kafka_zk.learn.demo.errors import DemoFailed
from kafka_zk.learn.demo.failover import Failover
from kafka_zk.learn.demo.flights import KEY_COLUMN, count_flights, find_flights, read_flights
from kafka_zk.learn.demo.group import (
    BROKER_GROUP,
    GROUP,
    SESSION_TIMEOUT_MS,
    BrokerDemoGroup,
    DemoGroup,
    ZookeeperDemoGroup,
    members_trace,
)
from kafka_zk.learn.demo.show import Show
from kafka_zk.learn.demo.tally import Tally
from kafka_zk.registry import znode_tree
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient

TOPIC = "flights"
PARTITIONS = 8
BROKERS = 3
PATIENCE_MS = 20_000
"""Longest time without progress in a step; a demo that fails is better than one that hangs."""
CHECK_EVERY_MS = 1_000
KILLED_AFTER = 100_000  # records before a broker is killed
SHOWN_EVERY = 2_000  # records between two updates of a progress bar
MORE = 1_000  # new records for the second extraction


class DemoPage(Protocol):
    def open(self, traces: Sequence[Path]) -> str:
        """Returns the URL; ``traces``: files and folders of the processes' traces. Raises ProcessFailed."""

    def stay(self) -> None:
        """Wait until the user closes the page."""


class Demo:
    """One run on one data directory; ``run`` returns what ``--json`` prints.

    With a ``page`` the cluster stays as long as the page.

    Raises: DemoFailed, EmbeddedError, KafkaError, RegistryError, each with one sentence. The cluster has then been
    stopped.
    """

    def __init__(self, data_dir: Path, keep: bool, show: Show, page: DemoPage | None = None) -> None:
        self._page = page
        self._data_dir = data_dir
        self._keep = keep
        self._show = show
        self._flights = find_flights()
        self._cluster = DemoCluster(data_dir, BROKERS, keep)
        self._spark_obstacle: str | None = None
        self._controller_id = -1
        self._report: dict[str, Any] = {}

    def run(self) -> dict[str, Any]:
        started_s = time.monotonic()
        with ExitStack() as cleanup:
            cleanup.callback(self._cluster.stop)
            with self._step(1, f"A real ZooKeeper and {BROKERS} brokers, each a process of its own"):
                self._start()
                self._open_page()
            total = count_flights(self._flights)
            with self._step(2, f"All {total:,} flights from New York City in 2013 into topic {TOPIC}, with acks=all"):
                sent = self._produce(total)
            with self._step(3, "Everything read back: count, totals per carrier, order within each carrier"):
                self._check(sent, self._read_back(sent.count))
            with self._step(4, "Where it is stored"):
                self._show_whereabouts()
            with ExitStack() as spark:
                lake = self._start_spark(spark)
                with self._step(5, "Consumer groups: one coordinated by znodes and watches alone, one by a broker"):
                    self._show_group(lake is not None)
                with self._step(6, "Into Parquet files with Spark, exactly once; the offsets are kept in ZooKeeper"):
                    self._show_extraction(lake, sent)
            seconds = time.monotonic() - started_s
            if self._keep:
                cleanup.pop_all()
            if self._page is not None:
                self._show.fact("")
                self._show.fact(f"done in {seconds:.1f} s; the page and the cluster stay until Ctrl-C")
                self._page.stay()
        self._finish(seconds)
        return self._report

    @contextmanager
    def _step(self, number: int, title: str) -> Iterator[None]:
        self._show.step(number, title)
        started_s = time.monotonic()
        yield
        seconds = time.monotonic() - started_s
        self._show.fact(f"({seconds:.1f} s)")
        self._report.setdefault("step_seconds", {})[number] = round(seconds, 3)

    # --- step 1

    def _start(self) -> None:
        started_s = time.monotonic()
        pids: dict[str, int] = {}
        for event in self._cluster.start():
            match event["event"]:
                case "zookeeper":
                    pids["zookeeper"] = event["pid"]
                    self._show.fact(f"ZooKeeper runs, pid {event['pid']}")
                case "broker":
                    pids[f"broker {event['id']}"] = event["pid"]
                    self._show.fact(f"broker {event['id']} started, pid {event['pid']}, port {event['port']}")
                case "registered":
                    self._show.fact(f"broker {event['id']} registered as /brokers/ids/{event['id']}")
        seconds = time.monotonic() - started_s
        with self._admin() as admin:
            cluster = admin.describe_cluster()
            if TOPIC in cluster.topics:
                raise DemoFailed(f"the topic {TOPIC} is in {self._data_dir} already: choose a new --data directory")
            admin.create_topic(TOPIC, PARTITIONS, BROKERS)
        self._controller_id = cluster.controller_id
        self._show.fact(f"ready after {seconds:.1f} s; broker {cluster.controller_id} is the controller")
        self._report |= {
            "bootstrap": self._cluster.bootstrap,
            "zookeeper": self._cluster.zookeeper,
            "pids": pids,
            "start_seconds": round(seconds, 3),
        }

    def _open_page(self) -> None:
        if self._page is not None:
            url = self._page.open((self._cluster.trace, members_trace(self._data_dir)))
            self._show.fact(f"what happens is shown at {url}")

    # --- step 2

    def _produce(self, total: int) -> Tally:
        tally = Tally()
        futures: list[RecordFuture] = []
        failover = Failover(self._data_dir, self._cluster.trace, TOPIC, self._controller_id, self._show.fact)
        started_s = time.monotonic()
        with self._producer() as producer, self._show.progress("written", total) as advance:
            for number, flight in enumerate(read_flights(self._flights), 1):
                tally.add(*flight)
                futures.append(producer.send(TOPIC, flight.value, flight.key))
                if number == KILLED_AFTER:
                    failover.kill()
                if number % SHOWN_EVERY == 0:
                    advance(SHOWN_EVERY)
                    self._cluster.check()
                    failover.poll()
            self._flush(producer)
            advance(total % SHOWN_EVERY)
        self._tell_rate("produce", "written", tally.count, tally.size_bytes, time.monotonic() - started_s)
        for future in futures:
            future.value()  # raises if the record was not written
        if tally.count != total:
            raise DemoFailed(f"the input has {total} rows but {tally.count} were read from it")
        failover.finish(BROKERS, PATIENCE_MS / 1000)
        self._report["failover"] = failover.report
        self._report["pids"][f"broker {self._controller_id}"] = failover.pid
        return tally

    def _flush(self, producer: BlockingProducer) -> None:
        while True:
            try:
                producer.flush(CHECK_EVERY_MS / 1000)
                return
            except KafkaTimeoutError:
                self._cluster.check()

    # --- step 3

    def _read_back(self, total: int) -> dict[int, Tally]:
        by_partition = {partition: Tally() for partition in range(PARTITIONS)}
        started_s = time.monotonic()
        with (
            BlockingReader(None, bootstrap_servers=self._cluster.bootstrap, max_poll_records=5_000) as reader,
            self._show.progress("read", total) as advance,
        ):
            partitions = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
            expected = sum(reader.end_offsets(partitions).values())
            reader.assign(dict.fromkeys(partitions, "earliest"))
            count = 0
            quiet_since_s = time.monotonic()
            while count < expected:
                records = reader.poll(CHECK_EVERY_MS)
                if records:
                    quiet_since_s = time.monotonic()
                elif time.monotonic() - quiet_since_s > PATIENCE_MS / 1000:
                    raise DemoFailed(f"{count} of {expected} records came back, then none for {PATIENCE_MS // 1000} s")
                self._cluster.check()
                for record in records:
                    by_partition[record.partition].add(record.key or b"", record.value or b"")
                count += len(records)
                advance(len(records))
        seconds = time.monotonic() - started_s
        size_bytes = sum(tally.size_bytes for tally in by_partition.values())
        self._tell_rate("consume", "read", count, size_bytes, seconds)
        return by_partition

    def _check(self, sent: Tally, received: dict[int, Tally]) -> None:
        for key in sent.counts:
            homes = [partition for partition, tally in received.items() if key in tally.counts]
            if len(homes) > 1:
                raise DemoFailed(f"records of {key.decode()} are in partitions {homes}, not in one")
        if difference := sent.difference(_together(received)):
            raise DemoFailed(difference)
        self._show.fact(f"all {sent.count:,} records of {len(sent.counts)} carriers are back, unchanged and in order")
        homes_of = {key: partition for partition, tally in received.items() for key in tally.counts}
        rows = [(key.decode(), f"{count:,}", homes_of[key]) for key, count in sorted(sent.counts.items())]
        self._show.table(("carrier", "records", "partition"), rows)
        self._report |= {
            "records": sent.count,
            "carriers": {key.decode(): count for key, count in sorted(sent.counts.items())},
            "records_by_partition": {partition: tally.count for partition, tally in received.items()},
        }

    # --- step 4

    def _show_whereabouts(self) -> None:
        with KazooBlockingClient(self._cluster.zookeeper) as client:
            nodes = whereabouts.shown_znodes(client)
        for name, data, owner in znode_tree.lines(nodes):
            self._show.fact("  ".join(part for part in (name, data, f"({owner})" if owner else "") if part))
        self._show.fact("")
        with self._admin() as admin:
            topic = admin.describe_topics([TOPIC])[TOPIC]
        leaders = {partition.partition: partition.leader for partition in topic.partitions}
        files = whereabouts.partition_files(self._data_dir, TOPIC, leaders, self._report["records_by_partition"])
        rows = [
            (
                f"{TOPIC}-{each.partition}",
                f"broker {each.leader}",
                f"{each.records:,}",
                each.segments,
                _mb(each.size_bytes),
            )
            for each in files
        ]
        self._show.table(("partition", "leader", "records", "segments", "size"), rows)
        self._report |= {
            "data": str(self._data_dir),
            "partitions": [whereabouts.as_document(each) for each in files],
            "znodes": [znode_tree.as_document(node) for node in nodes],
        }

    # --- step 5

    def _show_group(self, spark_starts: bool) -> None:
        if spark_starts:
            self._show.fact("Spark is starting meanwhile, for the next step")
        tell, bootstrap = self._show.fact, self._cluster.bootstrap
        group = ZookeeperDemoGroup(self._data_dir, self._cluster.zookeeper, TOPIC, PARTITIONS, tell)
        other = BrokerDemoGroup(self._data_dir, bootstrap, self._cluster.trace, TOPIC, PARTITIONS, tell)
        with group.watched(), other.watched():
            tell("anna, ben and cleo start")
            group.join("anna", "ben", "cleo")
            tell("dora starts")
            group.join("dora")
            tell(f"ben is killed; the session, and with it the claims, lasts up to {SESSION_TIMEOUT_MS // 1000} s")
            other.start("emil", "fay")  # they join their group while ben's session lasts
            group.kill("ben")
            tell("emil and fay have started meanwhile, in a group that a broker coordinates")
            other.settle()
            tell("fay leaves")
            other.leave("fay")
        tell(f"`kafka-zk watch --group {GROUP}` shows any group like this, -v every step of it;")
        tell(f"`kafka-zk watch --group {BROKER_GROUP} --type broker` shows a broker group")
        self._report["rebalances"] = _rebalances(group, "zookeeper_requests")
        self._report["broker_group_rebalances"] = _rebalances(other, "coordinator_requests")

    # --- step 6

    def _start_spark(self, cleanup: ExitStack) -> DemoLake | None:
        """Start Spark early, because that takes long."""
        self._spark_obstacle = obstacle()
        if self._spark_obstacle:
            return None
        lake = DemoLake(self._data_dir / "lake", self._cluster.zookeeper, TOPIC)
        cleanup.callback(lake.close)
        lake.start()
        return lake

    def _show_extraction(self, lake: DemoLake | None, sent: Tally) -> None:
        if lake is None:
            self._show.fact(f"left out: {self._spark_obstacle}")
            self._report["extractions"] = []
            return
        self._wait_for_spark(lake)
        self._show.fact(f"one Spark session extracts twice, each time like this command: {lake.command()}")
        first = self._extract(lake, sent)
        self._show.fact(f"the files hold as many flights of each of the {len(sent.counts)} carriers as the input")
        more = self._produce_more()
        self._show.fact(f"{more.count:,} more flights are written, and it extracts again")
        second = self._extract(lake, more)
        self._show.fact(f"these are exactly the new ones; {lake.folder} holds both ranges")
        self._report["extractions"] = [first, second]

    def _wait_for_spark(self, lake: DemoLake) -> None:
        started, waited = lake.wait_started()
        self._show.fact(f"Spark has started, in {started:.1f} s; the demo waited for the last {waited:.1f} s")
        self._report["spark_start"] = {"seconds": started, "waited_seconds": round(waited, 3)}

    def _extract(self, lake: DemoLake, new: Tally) -> dict[str, Any]:
        with self._show.progress("extracted", new.count) as advance:
            shown = 0

            def show(done: int, _: int) -> None:
                nonlocal shown
                advance(done - shown)
                shown = done

            report = lake.extract(show)
        self._show.fact(
            f"{report['records']:,} records extracted in {report['seconds']:.1f} s; "
            f"lag {report['lag_before']:,} before, {report['lag_after']:,} after"
        )
        for folder in report["published"]:
            self._show.fact(f"published {Path(folder).name}")
        expected = {key.decode(): count for key, count in new.counts.items()}
        found = lake.count_by(KEY_COLUMN, report["published"])
        for carrier in sorted(expected.keys() | found.keys()):
            new_count, found_count = expected.get(carrier, 0), found.get(carrier, 0)
            if new_count != found_count:
                raise DemoFailed(f"{new_count} flights of {carrier} were new but {found_count} are in the files")
        return {**report, "carriers": dict(sorted(found.items()))}

    def _produce_more(self) -> Tally:
        tally = Tally()
        with self._producer() as producer:
            futures = []
            for flight in itertools.islice(read_flights(self._flights), MORE):
                tally.add(*flight)
                futures.append(producer.send(TOPIC, flight.value, flight.key))
            self._flush(producer)
        for future in futures:
            future.value()  # raises if the record was not written
        return tally

    # --- shared

    def _producer(self) -> BlockingProducer:
        return BlockingProducer(
            None,
            bootstrap_servers=self._cluster.bootstrap,
            batch_size=131_072,
            linger_ms=10,
            request_timeout_ms=PATIENCE_MS // 2,
            delivery_timeout_ms=PATIENCE_MS,
            max_block_ms=PATIENCE_MS,
        )

    def _admin(self) -> BlockingAdmin:
        return BlockingAdmin(None, bootstrap_servers=self._cluster.bootstrap, default_api_timeout_ms=PATIENCE_MS)

    def _tell_rate(self, name: str, verb: str, count: int, size_bytes: int, seconds: float) -> None:
        rate, mb_rate = count / seconds, size_bytes / seconds / 1e6
        self._show.fact(f"{count:,} records {verb} in {seconds:.1f} s: {rate:,.0f}/s, {mb_rate:.0f} MB/s")
        self._report[name] = {
            "seconds": round(seconds, 3),
            "records_per_second": round(rate),
            "mb_per_second": round(mb_rate, 2),
        }

    def _finish(self, seconds: float) -> None:
        self._report |= {
            "ok": True,
            "seconds": round(seconds, 3),
            "kept_pid": self._cluster.pid if self._keep else None,
        }
        self._show.fact("")
        if self._keep:
            self._show.fact(
                f"the cluster keeps running: bootstrap={self._cluster.bootstrap} zookeeper={self._cluster.zookeeper}"
            )
            self._show.fact(f"kill {self._cluster.pid} stops it; its data are in {self._data_dir}")
        else:
            self._show.fact(f"done in {seconds:.1f} s, everything is stopped")


def _rebalances(group: DemoGroup, requests: str) -> list[dict[str, Any]]:
    return [
        {
            "duration_ms": each.duration_ms,
            "causes": list(each.causes),
            "moved": len(each.moved),
            "never_stopped": each.untouched_count,
            requests: each.requests,
        }
        for each in group.rebalances
    ]


def _together(by_partition: dict[int, Tally]) -> Tally:
    """The tallies of all partitions as one. The caller checks that each key is in one partition."""
    whole = Tally()
    for tally in by_partition.values():
        whole.merge(tally)
    return whole


def _mb(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.1f} MB"
