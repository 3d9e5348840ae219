"""Valid topic names, and the brokers' internal topics. Source: Topic.java@3.9."""

import re

from kafka_zk.protocol.errors import ApiError, ErrorCode

INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state", "__share_group_state")
CLUSTER_METADATA_TOPIC = "__cluster_metadata"
"""KRaft's own topic; CreateTopics rejects it."""
MAX_NAME_LENGTH = 249

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")


def check_name(name: str) -> None:
    """Raises ApiError(INVALID_TOPIC_EXCEPTION) with the name's problem."""
    problem = None
    if not name:
        problem = "the empty string is not allowed"
    elif name in (".", ".."):
        problem = f"'{name}' is not allowed"
    elif len(name) > MAX_NAME_LENGTH:
        problem = f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    elif not _LEGAL_NAME.fullmatch(name):
        problem = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    if problem:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def is_legal_name(name: str) -> bool:
    return 0 < len(name) <= MAX_NAME_LENGTH and name not in (".", "..") and _LEGAL_NAME.fullmatch(name) is not None
