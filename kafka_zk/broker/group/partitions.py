"""The topic that stores groups. ``kafka_zk.broker.coordinator.keys`` maps a group to its partition."""

OFFSETS_TOPIC = "__consumer_offsets"
