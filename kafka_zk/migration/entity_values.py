"""Checks whether Kafka can copy the quotas and credentials of users, clients and IP addresses from ZooKeeper. Pure.

Java's syntax of numbers differs from Python's: ``50d`` and ``0x1p3`` are doubles; ``1_0``, ``nan`` and ``inf`` are not.

Source: ScramCredentialUtils.java, ZkConfigMigrationClient.scala@3.9; Double.valueOf, Integer.parseInt and
Base64.getDecoder of Java 17.
"""

import math
import re

from kafka_zk.base.integers import INT32, INT64, decimal_integer
from kafka_zk.migration.metadata.image import QUOTAS
from kafka_zk.registry.znodes import config
from kafka_zk.security import scram

_WHOLE_QUOTAS = {"producer_byte_rate": INT64, "consumer_byte_rate": INT64, "connection_creation_rate": INT32}
"""Brokers parse these quotas as integers, so ``1024.0`` is malformed. Source: ConfigHandler.scala@3.9."""
_USERS = f"{config.entity_type_path('users')}/"
_DEPTH_OF_CLIENTS = 5
"""The depth of /config/users/U/clients/C, where Kafka reads every value as a quota."""

_DECIMAL = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_HEXADECIMAL = r"0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+"
_DOUBLE = re.compile(rf"[+-]?(?:NaN|Infinity|(?:{_HEXADECIMAL}|{_DECIMAL})[fFdD]?)")
_BLANKS = "".join(map(chr, range(33)))
"""The characters that ``String.trim`` removes."""
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?")
_KEYS = {"salt", "stored_key", "server_key"}


def is_malformed(path: str, data: bytes | None) -> bool:
    """True if Kafka cannot copy the quotas and credentials in this entity's znode, or if brokers cannot use them."""
    entity = config.decode(path, data)
    has_only_quotas = path.startswith(_USERS) and path.count("/") == _DEPTH_OF_CLIENTS
    return bool(entity.faults) or not all(
        _is_valid(key, value, has_only_quotas) for key, value in entity.values.items()
    )


def _is_valid(key: str, value: str, has_only_quotas: bool) -> bool:
    if key in _WHOLE_QUOTAS:
        return is_integer(value, _WHOLE_QUOTAS[key])
    if has_only_quotas or key in QUOTAS:
        return double(value) is not None
    return key not in scram.MECHANISMS or is_scram_credential(value)


def double(text: str) -> float | None:
    """The number as Java reads it; None if Java rejects the string."""
    number = text.strip(_BLANKS)
    if _DOUBLE.fullmatch(number) is None:
        return None
    digits = number.rstrip("fFdD")
    try:
        return float.fromhex(digits) if "x" in digits.lower() else float(digits)
    except OverflowError:
        return -math.inf if digits.startswith("-") else math.inf


def is_integer(text: str, within: range) -> bool:
    unsigned = text[1:] if text[:1] == "+" and text[1:2] != "-" else text
    return decimal_integer(unsigned, within) is not None


def is_scram_credential(text: str) -> bool:
    """True if the string has exactly the four keys and no blanks; extra commas are allowed at the end."""
    fields: dict[str, str] = {}
    for token in text.rstrip(",").split(","):
        key, separator, value = token.partition("=")
        if not key or not separator:
            return False
        fields[key] = value
    iterations = fields.pop("iterations", "")
    return (
        fields.keys() == _KEYS
        and all(_BASE64.fullmatch(value) for value in fields.values())
        and is_integer(iterations, INT32)
    )
