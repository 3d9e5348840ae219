"""Foreign codecs that our bytes are compared with: kafka-python's decoder and encoder, and kio's."""

import importlib
import io
from typing import Any

from kio.serial import entity_reader, entity_writer

from kafka_zk.protocol import codec


def through_kafka_python(api_key: int, kind: str, version: int, body: bytes) -> bytes:
    """``body`` decoded and encoded again by kafka-python alone."""
    cls = codec.request(api_key) if kind == "request" else codec.response(api_key)
    message = cls.decode(body, version=version)
    message._min_version = message._max_version = message._header = None
    return bytes(message.encode(version=version))


def through_kio(schema: str, kind: str, version: int, body: bytes) -> bytes | None:
    """``body`` decoded and encoded again by kio; None for a version that it does not have."""
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
