"""The extraction's requests to a schema registry."""

import pickle
from collections.abc import Iterator

import pytest

from kafka_zk.spark_jobs.values.schema_registry import RegistryFailed, Schema, SchemaRegistry
from tests.schema_registry import SchemaRegistryServer, schema_registry


@pytest.fixture
def server() -> Iterator[SchemaRegistryServer]:
    with schema_registry() as running:
        yield running


def test_a_schema_is_asked_for_once_also_if_it_is_not_there(server: SchemaRegistryServer) -> None:
    registered = server.register("s", '"int"')
    registry = SchemaRegistry(server.url + "/")
    for _ in range(3):
        assert registry.by_id(registered) == Schema("AVRO", '"int"')
        assert registry.by_id(99) is None
    assert server.requests == [f"/schemas/ids/{registered}", "/schemas/ids/99"]


def test_the_versions_of_a_subject_are_known_where_it_is_sent(server: SchemaRegistryServer) -> None:
    ids = [server.register("a b/c", text) for text in ('"int"', '"long"')]
    registry = SchemaRegistry(server.url)
    assert [each.text for each in registry.learn("a b/c")] == ['"int"', '"long"']
    assert registry.latest("none") is None
    server.requests.clear()
    sent = pickle.loads(pickle.dumps(registry))
    assert [sent.by_id(each) for each in ids] == [Schema("AVRO", '"int"'), Schema("AVRO", '"long"')]
    assert server.requests == []
    registry.learn("a b/c")
    assert server.requests == ["/subjects/a%20b%2Fc/versions"], "an old version is not asked for again"


def test_references_come_along(server: SchemaRegistryServer) -> None:
    server.register("inner", '"int"', "JSON")
    outer = server.register("outer", "{}", "JSON", ({"name": "i.json", "subject": "inner", "version": 1},))
    found = SchemaRegistry(server.url).by_id(outer)
    assert found == Schema("JSON", "{}", (("i.json", Schema("JSON", '"int"')),))


def test_a_password_goes_into_a_header() -> None:
    registry = SchemaRegistry("https://me:p%40ss@registry:8081/path/")
    assert registry.url == "https://registry:8081/path"
    assert registry._headers["Authorization"] == "Basic bWU6cEBzcw=="


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("registry:8081", "is not http"),
        ("ftp://h", "is not http"),
        ("http:me:secret@h", ": 'h' is not http"),
        ("http://127.0.0.1:1", "no response from the"),
    ],
)
def test_what_is_no_registry(url: str, told: str) -> None:
    with pytest.raises(RegistryFailed, match=told):
        SchemaRegistry(url).by_id(1)
