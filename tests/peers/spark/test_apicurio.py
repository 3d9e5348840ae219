"""A real schema registry on our brokers: Confluent's serializers register there, and extractions decode by its ids."""

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, topic_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.spark_jobs.values.framing import ValueUndecodable
from kafka_zk.spark_jobs.values.schema_registry import SchemaRegistry
from kafka_zk.spark_jobs.values.value_decoder import value_decoder
from tests.integration.processes import wait_for
from tests.peers.spark.apicurio import apicurio
from tests.spark_jobs.values.test_value_decoder import FIRST_AVRO, FIRST_JSON, SECOND_PROTO, message

pytestmark = pytest.mark.peers
# By default they request a topic's associations first. Apicurio has none and responds with 404. On a busy machine, that
# response may not arrive, and the client waits for it without a limit.
SUBJECTS = {"subject.name.strategy": topic_subject_name_strategy}
ANSWER_TIMEOUT_S = 60
EVOLVED_AVRO = FIRST_AVRO.replace('"string"}', '"string"},{"name":"n","type":"int","default":7}')


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def decoded(url: str, value_format: str, topic: str, value: bytes) -> Any:
    return value_decoder(value_format, SchemaRegistry(url), [topic], None).decode(value)


@pytest.mark.weekly
def test_schemas_are_registered_found_by_id_and_outlive_the_registry(
    kafka_zk_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    made = message(SECOND_PROTO, "Order", id=4, state=1)
    with apicurio(kafka_zk_cluster.bootstrap, tmp_path) as url:
        client = SchemaRegistryClient({"url": url, "timeout": ANSWER_TIMEOUT_S})
        old = AvroSerializer(client, FIRST_AVRO, conf=SUBJECTS)({"id": 1, "was": "x"}, context("a"))
        new = AvroSerializer(client, EVOLVED_AVRO, conf=SUBJECTS)({"id": 2, "was": "y", "n": 3}, context("a"))
        text = JSONSerializer(FIRST_JSON, client, conf=SUBJECTS)({"id": 3, "was": "z"}, context("j"))
        of_protobuf = {**SUBJECTS, "use.deprecated.format": False}
        binary = ProtobufSerializer(type(made), client, of_protobuf)(made, context("p"))
        assert decoded(url, "avro", "a", old) == {"id": 1, "was": "x", "n": 7}
        with pytest.raises(ValueUndecodable, match="has no schema 4242"):
            decoded(url, "avro", "a", b"\0" + (4242).to_bytes(4) + b"\0")
    with apicurio(kafka_zk_cluster.bootstrap, tmp_path) as url:
        wait_for(lambda: len(SchemaRegistryClient({"url": url}).get_subjects()) == 3, "its topics to be read", 60)
        assert decoded(url, "avro", "a", old) == {"id": 1, "was": "x", "n": 7}
        assert decoded(url, "avro", "a", new) == {"id": 2, "was": "y", "n": 3}
        assert decoded(url, "json-schema", "j", text) == {"id": 3, "was": "z"}
        assert decoded(url, "protobuf", "p", binary)["state"] == "PAID"
