"""``/feature`` (2.7): finalized features of the cluster.

By version:

    v2  3.3  {"features":{"f":{"max_version_level":2}},"version":2,"status":1}
    v1  2.7  entries also have min_version_level; status 0 = disabled (features are not in use), 1 = enabled
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_zk.base.integers import INT16
from kafka_zk.registry.client.errors import InvalidZnode
from kafka_zk.registry.znodes import json_codec

FEATURE = "/feature"
DISABLED = 0
ENABLED = 1


@dataclass(frozen=True, slots=True)
class FinalizedFeatures:
    """``features``: name -> highest finalized version level."""

    features: Mapping[str, int] = field(default_factory=dict)
    status: int = ENABLED
    version: int = 2


def encode(finalized: FinalizedFeatures) -> bytes:
    """Encode the features in the JSON version ``finalized.version``."""
    lowest = {"min_version_level": 1} if finalized.version == 1 else {}
    return json_codec.encode(
        {
            "features": {name: {**lowest, "max_version_level": level} for name, level in finalized.features.items()},
            "version": finalized.version,
            "status": finalized.status,
        }
    )


def decode(data: bytes | None) -> FinalizedFeatures:
    """Decode any historic version. Raises InvalidZnode."""
    document = json_codec.decode_object(FEATURE, data)
    version = json_codec.version(FEATURE, document)
    listed = document.get("features") or {}
    if version > 2 or not isinstance(listed, dict) or not all(isinstance(entry, dict) for entry in listed.values()):
        raise InvalidZnode(f"{FEATURE}: unknown version {version} or invalid 'features'")
    status = json_codec.integer(FEATURE, document, "status")
    if status not in (DISABLED, ENABLED):
        raise InvalidZnode(f"{FEATURE}: status {status} is not known")
    levels = {
        name: json_codec.integer(FEATURE, entry, "max_version_level", within=INT16) for name, entry in listed.items()
    }
    return FinalizedFeatures(levels, status, version)
