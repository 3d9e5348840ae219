"""Costs of the controller's work, for ``kafka_zk.base.turns.Turns``.

Only queued events change the context, one at a time, so yielding during an event does not change its data.
"""

from kafka_zk.base.turns import TURN_COST

PARTITIONS_A_TURN = 500
"""Number of partitions or replicas that one operation handles in a turn (a few milliseconds)."""

PARTITION_COST = TURN_COST // PARTITIONS_A_TURN + 1

WATCH_COST = TURN_COST // 50
"""Cost of setting a watch, which sends a request to ZooKeeper."""

EVENT_COST = TURN_COST // 50
"""Cost of handling an event, in addition to its changes."""
