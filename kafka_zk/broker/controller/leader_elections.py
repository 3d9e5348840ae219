"""Elections that no failure caused: requested by administrators (over the protocol or in ZooKeeper), or for balance."""

from collections.abc import Collection

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller import preferred_leaders
from kafka_zk.broker.controller.control_requests import portions
from kafka_zk.broker.controller.controller_tools import ControllerTools
from kafka_zk.broker.controller.partition_state import ElectionStrategy
from kafka_zk.broker.controller.reporter import shortened
from kafka_zk.broker.controller.turns import PARTITION_COST, PARTITIONS_A_TURN
from kafka_zk.protocol.errors import ApiError
from kafka_zk.registry.znodes import admin

ElectionOutcome = int | ApiError
"""The elected broker's id, or why the election failed."""


class LeaderElections:
    """``imbalance_percentage``: percentage of a broker's preferred partitions that other brokers may lead."""

    def __init__(self, tools: ControllerTools, imbalance_percentage: int) -> None:
        self._context, self._store, self._changes, self._reporter, self._turns = tools
        self._imbalance_percentage = imbalance_percentage

    async def elect(self, tps: Collection[TopicPartition], *, unclean: bool) -> dict[TopicPartition, ElectionOutcome]:
        """Elect preferred leaders or, if ``unclean``, any live replica where the ISR has no live member."""
        refusals: dict[TopicPartition, ApiError | None] = {}
        for portion in portions(tps, PARTITIONS_A_TURN):
            await self._turns.spend(len(portion) * PARTITION_COST)
            for tp in portion:
                refusals[tp] = preferred_leaders.why_no_election(self._context, tp, unclean=unclean)
        wanted = [tp for tp, refusal in refusals.items() if refusal is None]
        strategy = ElectionStrategy.OFFLINE_UNCLEAN if unclean else ElectionStrategy.PREFERRED
        elected = await self._changes.bring_online(wanted, strategy)
        return {
            tp: elected[tp].leader if tp in elected else refusal or preferred_leaders.failed(tp, unclean=unclean)
            for tp, refusal in refusals.items()
        }

    async def ordered(self) -> None:
        """Carry out ``/admin/preferred_replica_election``, and delete it even after failures."""
        ordered = await self._store.preferred_elections()
        if ordered is None:
            return
        outcomes = await self.elect(sorted(ordered), unclean=False)
        refused = [f"{tp} {error.code.name}" for tp, error in outcomes.items() if isinstance(error, ApiError)]
        count, shown = len(ordered), shortened(refused)
        self._reporter.info("preferred leaders requested for %d partitions; refused: %s", count, shown)
        await self._store.delete_all([admin.PREFERRED_REPLICA_ELECTION])

    async def balance(self) -> None:
        """Return leadership to preferred leaders if imbalanced."""
        imbalance = preferred_leaders.Imbalance(self._context, self._imbalance_percentage)
        for portion in portions(self._context.partitions(), PARTITIONS_A_TURN):
            await self._turns.spend(len(portion) * PARTITION_COST)
            imbalance.add(portion)
        to_elect = imbalance.to_elect()
        if to_elect:
            self._reporter.info("returning leadership to preferred leaders: %s", shortened(to_elect))
            await self._changes.bring_online(to_elect, ElectionStrategy.PREFERRED)
