"""The driver of one group member: runs the effects of ``GroupMember`` with the registries, watches and a clock."""

from collections.abc import Mapping
from typing import NamedTuple

from rebalance.config import GroupConfig
from rebalance.delivery import Delivery
from rebalance.events import Observe, ignore
from registry.client import RegistryClient
from registry.session import Clock
from registry.znodes.consumers import ConsumerRegistration
from storage.types import TopicPartition


class Refused(NamedTuple):
    """Why a commit was not written; moves to ``registry.offsets``."""

    reason: str


class GroupDriver:
    """One member of a group. Make it, ``start`` it, ``leave`` it; everything between happens by itself.

    Args:
        clock: a Twisted reactor or ``task.Clock``.
        consumer_id: the name under ``ids``; thread n of this member is ``<consumer_id>-<n>``.
        registration: with the strategies announced and, for a static member, its instance id.
        delivery: the consumer that hands out records.
        observe: called with every event of ``rebalance.events`` and ``registry.events``.
    """

    def __init__(
        self,
        client: RegistryClient,
        clock: Clock,
        group: str,
        consumer_id: str,
        registration: ConsumerRegistration,
        delivery: Delivery,
        config: GroupConfig | None = None,
        observe: Observe = ignore,
    ) -> None:
        self.group = group
        self.consumer_id = consumer_id

    async def start(self) -> None:
        """Register and take part from then on. Returns when registered; ownership comes as ``Delivery.start``.

        Raises: FencedInstanceId or DuplicateConsumerId if a live holder of the id stays; InvalidTopicFilter.
        """
        raise NotImplementedError

    async def leave(self) -> None:
        """Stop delivery, commit, release and unregister. Returns when done, or when the session ended instead."""
        raise NotImplementedError

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, Refused | None]:
        """Write the next offsets to consume. None: written. Refused: this member does not own it, or is not certain to
        (connection in doubt, lease ended): then try again after ``resume``, unless it was dropped."""
        raise NotImplementedError

    def may_act(self) -> bool:
        """Whether a record may be handed out now: the session is certain to be alive, the connection not in doubt."""
        raise NotImplementedError

    @property
    def owned(self) -> Mapping[TopicPartition, int]:
        """Partition -> thread number, of all that are delivered now."""
        raise NotImplementedError
