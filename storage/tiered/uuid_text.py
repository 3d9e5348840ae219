"""Kafka's string form of topic and segment ids: url-safe base64 without padding. Source: Uuid.java@3.9."""

import base64
from uuid import UUID

ID = "[A-Za-z0-9_-]{22}"
"""A regular expression that matches an id's text."""


def id_text(value: UUID) -> str:
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def id_of(text: str) -> UUID:
    """The id that ``text`` encodes; it must match ``ID``."""
    return UUID(bytes=base64.urlsafe_b64decode(text + "=="))
