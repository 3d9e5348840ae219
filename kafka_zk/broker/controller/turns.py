"""What the controller's work costs, for ``kafka_zk.base.turns.Turns``: others have their turn after so much of it.

Only events of the queue change the context, one at a time, so nothing that is worked on changes in between.
"""

from kafka_zk.base.turns import TURN_COST

PARTITIONS_A_TURN = 500
"""For this number of partitions or replicas one thing is done in one turn: a few milliseconds."""

PARTITION_COST = TURN_COST // PARTITIONS_A_TURN + 1

WATCH_COST = TURN_COST // 50
"""Of setting a watch: a request to ZooKeeper."""

EVENT_COST = TURN_COST // 50
"""Of an event that changes nothing."""
