"""Other codecs that our bytes are compared with: kafka-python's decoder and encoder, and kio's.

kafka-python cannot load a message without fields, so a test must not compare such a message with it.
"""

import importlib
import io
import types
import warnings
from functools import cache
from typing import Any

from kafka.protocol.api_message import ApiMessage
from kio.serial import entity_reader, entity_writer

from kafka_zk.protocol import messages
from kafka_zk.protocol.api_keys import BROKER_VERSIONS
from kafka_zk.protocol.message import message_class

_MODULES = ("admin", "consumer", "metadata", "producer", "sasl")


@cache
def _kafka_python_classes() -> dict[tuple[int, str], Any]:
    """kafka-python's class of each message, with its own field tables; with ours for a message that it lacks."""
    with warnings.catch_warnings():  # its loader uses a deprecated function
        warnings.simplefilter("ignore", DeprecationWarning)
        for name in _MODULES:
            importlib.import_module(f"kafka.protocol.{name}")
        own = {(cls._json["apiKey"], cls._json["type"]): cls for cls in ApiMessage.__subclasses__()}
        lacking: list[Any] = [
            types.new_class(message_class(key, kind).__name__, (ApiMessage,), {"load_json": messages})
            for key in BROKER_VERSIONS
            for kind in ("request", "response")
            if (int(key), kind) not in own and message_class(key, kind).table.fields
        ]
    return {(cls._json["apiKey"], cls._json["type"]): cls for cls in lacking} | own


def through_kafka_python(api_key: int, kind: str, version: int, body: bytes) -> bytes:
    """``body`` decoded and encoded again by kafka-python alone."""
    classes = _kafka_python_classes()
    assert (api_key, kind) in classes, "kafka-python cannot load a message without fields: do not compare this one"
    message = classes[api_key, kind].decode(body, version=version)
    message._min_version = message._max_version = message._header = None
    return bytes(message.encode(version=version))


def through_kio(schema: str, kind: str, version: int, body: bytes) -> bytes | None:
    """``body`` decoded and encoded again by kio; None for a version that kio lacks."""
    try:
        module = importlib.import_module(f"kio.schema.{schema}.v{version}.{kind}")
    except ModuleNotFoundError:
        return None
    name = "".join(word.capitalize() for word in schema.split("_")) + kind.capitalize()
    entity_type: Any = getattr(module, name)
    entity, size_bytes = entity_reader(entity_type)(body, 0)
    assert size_bytes == len(body)
    out = io.BytesIO()
    entity_writer(entity_type)(out, entity)
    return out.getvalue()
