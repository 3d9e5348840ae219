"""Handles brokers that start, fail, bounce, change endpoints or announce a shutdown."""

from collections.abc import Collection, Mapping, Sequence

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller import events, partition_state
from kafka_zk.broker.controller.channels import Channels
from kafka_zk.broker.controller.context import LiveBroker, Replica
from kafka_zk.broker.controller.control_requests import Answer
from kafka_zk.broker.controller.controller_tools import ControllerTools
from kafka_zk.broker.controller.deletions import Deletions
from kafka_zk.broker.controller.effects import SendUpdateMetadata, without_updates_of
from kafka_zk.broker.controller.partition_state import ElectionStrategy
from kafka_zk.broker.controller.reassignments import Reassignments
from kafka_zk.broker.controller.reporter import shortened
from kafka_zk.broker.controller.states import PartitionEvent, ReplicaEvent
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.registry.znodes import isr

UNKNOWN_BROKER_EPOCH = -1

LEADERS_WITHIN_S = 1.0
"""Maximum wait for the controller's own broker to take over its new leaderships before ISRs shrink."""


class BrokerChanges:
    """Follows the brokers in ZooKeeper, and changes their replicas' states.

    ``controller_id``: this broker's id.
    """

    def __init__(
        self,
        controller_id: int,
        tools: ControllerTools,
        deletions: Deletions,
        reassignments: Reassignments,
        channels: Channels,
    ) -> None:
        self._controller_id = controller_id
        self._context, self._store, self._changes, self._reporter, _ = tools
        self._deletions = deletions
        self._reassignments = reassignments
        self._channels = channels
        self._unclean_starts: dict[int, list[str]] = {}

    async def load(self) -> None:
        """Load live brokers and unclean starts at failover."""
        self._context.brokers = await self._store.brokers()
        await self._read_unclean_starts()

    def open_channels(self) -> None:
        self._channels.know({self._controller_id, *self._context.replica_holders()})
        for broker in self._context.brokers.values():
            self._channels.add(broker.info)

    async def changed(self) -> None:
        """Handle a change of ``/brokers/ids`` or of a registration. A larger broker epoch means that the broker
        bounced, which is handled as a failure and a start."""
        known, present = self._context.brokers, await self._store.brokers()
        started = sorted(present.keys() - known.keys())
        failed = sorted(known.keys() - present.keys())
        both = sorted(known.keys() & present.keys())
        bounced = [broker_id for broker_id in both if present[broker_id].epoch > known[broker_id].epoch]
        updated = [
            broker_id
            for broker_id in both
            if broker_id not in bounced and _differs(known[broker_id], present[broker_id])
        ]
        if not (started or failed or bounced or updated):
            return
        self._reporter.event(events.BrokersChanged, *(tuple(ids) for ids in (started, failed, bounced, updated)))
        shown = [shortened(ids) for ids in (started, failed, bounced, updated)]
        self._reporter.info("brokers started: %s; failed: %s; bounced: %s; updated: %s", *shown)
        for broker_id in (*bounced, *failed):
            self._channels.remove(broker_id)
        for broker_id in (*started, *bounced):
            self._channels.add(present[broker_id].info)
        if started or bounced:
            await self._read_unclean_starts()
        await self._start(started, present)
        await self._fail([*bounced, *failed])  # both in one step, so that no dead broker becomes a leader in between
        await self._start(bounced, present)
        await self._update(updated, present)
        if self._context.unclean_starts:
            await self._changes.elect_returned()
            await self.forget_unclean_starts()

    async def _read_unclean_starts(self) -> None:
        self._unclean_starts = await self._store.unclean_starts()
        self._context.unclean_starts = set(self._unclean_starts)

    async def forget_unclean_starts(self) -> None:
        """Delete the announcements of unclean starts of brokers that share no ISR with others; these brokers can then
        rejoin ISRs."""
        for broker_id in sorted(partition_state.dealt_with(self._context)):
            await self._store.delete_all(self._unclean_starts[broker_id])
            self._context.unclean_starts.discard(broker_id)

    async def _start(self, broker_ids: Sequence[int], present: Mapping[int, LiveBroker]) -> None:
        if not broker_ids:
            return
        context = self._context
        older = tuple(sorted(context.brokers))
        context.brokers.update({broker_id: present[broker_id] for broker_id in broker_ids})
        for broker_id in broker_ids:
            context.offline_dirs.pop(broker_id, None)
        await self._changes.send([SendUpdateMetadata(older)])
        await self._changes.send([SendUpdateMetadata(tuple(broker_ids), context.partitions_with_leadership())])
        replicas = context.replicas_on(broker_ids)
        await self._changes.move_replicas_and_send(replicas, ReplicaEvent.BRING_ONLINE)
        await self._changes.elect_waiting()
        await self._reassignments.resume_on(broker_ids)
        await self._deletions.resume({replica.partition.topic for replica in replicas})

    async def _fail(self, broker_ids: Sequence[int]) -> None:
        if not broker_ids:
            return
        for broker_id in broker_ids:
            self._context.brokers.pop(broker_id)
            self._context.offline_dirs.pop(broker_id, None)
            self._context.shutting_down.discard(broker_id)
        await self._take_offline(self._context.replicas_on(broker_ids))

    async def _update(self, broker_ids: Sequence[int], present: Mapping[int, LiveBroker]) -> None:
        if broker_ids:
            for broker_id in broker_ids:
                self._context.brokers[broker_id] = present[broker_id]
                self._channels.update(present[broker_id].info)
            await self._changes.send([SendUpdateMetadata(None)])

    async def _take_offline(self, replicas: Collection[Replica]) -> None:
        """Elect other leaders for replicas that lost their broker or log directory, then shrink the ISRs."""
        deleting = [r for r in replicas if r.partition.topic in self._context.topics_to_delete]
        others = [r for r in replicas if r.partition.topic not in self._context.topics_to_delete]
        await self._changes.move_partitions(self._context.partitions_with_offline_leader(), PartitionEvent.TAKE_OFFLINE)
        elected = await self._changes.elect_waiting()
        await self.leaders_lead(elected)
        shrunk = await self._changes.move_replicas(others, ReplicaEvent.TAKE_OFFLINE)
        await self._changes.send(without_updates_of(shrunk, elected))
        await self._deletions.replicas_failed(deleting)
        if not others and not elected:
            await self._changes.send([SendUpdateMetadata(None)])

    async def leaders_lead(self, elected: Collection[TopicPartition]) -> None:
        """Wait up to LEADERS_WITHIN_S for this broker to answer the LeaderAndIsr for ``elected``.

        Without this wait, shrinking ISRs in the same process would make the response take several times as long. The
        controller does not wait for other brokers, because they may be dead or paused.
        """
        if elected:
            await self._channels.all_answered(LEADERS_WITHIN_S, self._controller_id)

    # -- log directories --

    async def leader_and_isr_answered(self, broker_id: int, broker_epoch: int, answer: Answer) -> None:
        """Mark replicas with KAFKA_STORAGE_ERROR as offline, and those without an error as online.

        Responses from earlier broker epochs are ignored.
        """
        broker = self._context.brokers.get(broker_id)
        if answer.error_code != ErrorCode.NONE or broker is None or broker.epoch != broker_epoch:
            return
        codes = answer.partition_errors
        before = self._context.offline_dirs.get(broker_id, set())
        online = {tp for tp, code in codes.items() if code == ErrorCode.NONE}
        lost = {
            tp
            for tp, code in codes.items()
            if code == ErrorCode.KAFKA_STORAGE_ERROR and broker_id in self._context.replicas(tp)
        }
        self._context.offline_dirs[broker_id] = (before - online) | lost
        newly_lost = sorted(lost - before)
        if newly_lost:
            self._reporter.info("broker %d lost the log directories of %d replicas", broker_id, len(newly_lost))
            await self._take_offline([Replica(tp, broker_id) for tp in newly_lost])

    async def log_dir_events(self) -> None:
        """Ask brokers that lost log directories which replicas they have (with LeaderAndIsr)."""
        names = await self._store.children(isr.LOG_DIR_EVENTS)
        paths = [f"{isr.LOG_DIR_EVENTS}/{name}" for name in names]
        broker_ids = await self._store.log_dir_events(paths)
        await self._changes.move_replicas_and_send(
            [r for r in self._context.replicas_on(broker_ids) if r.broker_id in self._context.brokers],
            ReplicaEvent.BRING_ONLINE,
        )
        await self._store.delete_all(paths)

    # -- controlled shutdown --

    async def controlled_shutdown(self, broker_id: int, broker_epoch: int) -> list[TopicPartition]:
        """Move the broker's leaderships away, and take its other replicas offline. Returns the partitions that it still
        leads.

        Raises: ApiError(STALE_BROKER_EPOCH), ApiError(BROKER_NOT_AVAILABLE).
        """
        context = self._context
        broker = context.brokers.get(broker_id)
        if broker is None:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, f"Broker id {broker_id} does not exist.")
        if UNKNOWN_BROKER_EPOCH != broker_epoch < broker.epoch:
            raise ApiError(
                ErrorCode.STALE_BROKER_EPOCH,
                f"Broker epoch {broker_epoch} of broker {broker_id} is older than {broker.epoch}.",
            )
        self._reporter.info("broker %d shuts down", broker_id)
        context.shutting_down.add(broker_id)
        replicated = [
            replica.partition
            for replica in context.replicas_on([broker_id])
            if len(context.replicas(replica.partition)) > 1
            and replica.partition in context.leadership
            and replica.partition.topic not in context.topics_to_delete
        ]
        led = [tp for tp in replicated if context.leadership[tp].leader == broker_id]
        followed = [tp for tp in replicated if context.leadership[tp].leader != broker_id]
        await self.leaders_lead(await self._changes.bring_online(led, ElectionStrategy.CONTROLLED_SHUTDOWN))
        followers = [Replica(tp, broker_id) for tp in followed]
        await self._changes.move_replicas_and_send(followers, ReplicaEvent.TAKE_OFFLINE)
        return context.partitions_led_by(broker_id)


def _differs(known: LiveBroker, present: LiveBroker) -> bool:
    return (known.info.endpoints, known.info.features) != (present.info.endpoints, present.info.features)
