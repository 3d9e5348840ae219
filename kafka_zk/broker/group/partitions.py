"""The topic whose partitions hold the groups; ``kafka_zk.broker.coordinator.keys`` says which one holds a group."""

OFFSETS_TOPIC = "__consumer_offsets"
