"""Avro with a schema registry, by Confluent's client: python examples/schema_registry.py [HOST:PORT] [URL] [TOPIC].

pip install 'confluent-kafka[schemaregistry,avro]'
"""

import json
import sys

from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

FIELDS = [{"name": "id", "type": "long"}, {"name": "item", "type": "string"}]
NEW_FIELD = {"name": "count", "type": "int", "default": 1}
FIRST = json.dumps({"type": "record", "name": "Order", "fields": FIELDS})
SECOND = json.dumps({"type": "record", "name": "Order", "fields": [*FIELDS, NEW_FIELD]})


def main(
    bootstrap: str = "127.0.0.1:9092", registry: str = "http://127.0.0.1:8081", topic: str = "examples.orders"
) -> None:
    schemas = SchemaRegistryClient({"url": registry})
    context = SerializationContext(topic, MessageField.VALUE)

    # Each version of the schema is registered as TOPIC-value when its first value is written.
    producer = Producer({"bootstrap.servers": bootstrap})
    for schema, order in ((FIRST, {"id": 1, "item": "tea"}), (SECOND, {"id": 2, "item": "milk", "count": 6})):
        producer.produce(topic, AvroSerializer(schemas, schema)(order, context), partition=0)
    producer.flush()

    # Read in the second version, the first order has the default of the new field.
    deserialize = AvroDeserializer(schemas, SECOND)
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": f"{topic}.readers", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    try:
        for _ in range(2):
            message = None
            while message is None:
                message = consumer.poll(1.0)
            print(deserialize(message.value(), context))
    finally:
        consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
