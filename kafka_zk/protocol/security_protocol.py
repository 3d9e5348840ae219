"""Kafka's security protocols in requests between brokers. Source: SecurityProtocol.java@3.9."""

from collections.abc import Mapping

SECURITY_PROTOCOL_IDS: Mapping[str, int] = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
