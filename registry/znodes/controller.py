"""``/controller`` (ephemeral: the controller's id) and ``/controller_epoch`` (decimal text; its version fences writes).

Keys by version:

    v2  3.4    version brokerid timestamp kraftControllerEpoch
    v1  0.8.1  version brokerid timestamp
    none       a bare broker id (before 0.8.0)
"""

from dataclasses import dataclass

from kafka_zk.base.integers import INT32, INT64
from kafka_zk.registry.client.errors import InvalidZnode
from kafka_zk.registry.znodes import json_codec

CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
EPOCHS = range(2**31 - 1)


@dataclass(frozen=True, slots=True)
class ControllerClaim:
    """``kraft_controller_epoch``: -1 except in a KRaft migration."""

    broker_id: int
    timestamp_ms: int = -1
    kraft_controller_epoch: int = -1

    @property
    def is_kraft(self) -> bool:
        """True if a KRaft controller made the claim; its epochs begin at 1."""
        return self.kraft_controller_epoch >= 1


def encode(claim: ControllerClaim) -> bytes:
    """Encode a claim as version 2."""
    return json_codec.encode(
        {
            "version": 2,
            "brokerid": claim.broker_id,
            "timestamp": str(claim.timestamp_ms),
            "kraftControllerEpoch": claim.kraft_controller_epoch,
        }
    )


def decode(data: bytes | None) -> ControllerClaim:
    """Decode any historic version. Raises InvalidZnode."""
    document = json_codec.decode(CONTROLLER, data)
    if type(document) is int:
        return ControllerClaim(json_codec.in_range(CONTROLLER, "the broker id", document, INT32))
    if not isinstance(document, dict):
        raise InvalidZnode(f"{CONTROLLER}: a JSON object is expected")
    return ControllerClaim(
        json_codec.integer(CONTROLLER, document, "brokerid"),
        json_codec.integer(CONTROLLER, document, "timestamp", -1, INT64),
        json_codec.integer(CONTROLLER, document, "kraftControllerEpoch", -1),
    )


def encode_epoch(epoch: int) -> bytes:
    return b"%d" % epoch


def decode_epoch(data: bytes | None) -> int:
    """The epoch, which must not be the largest possible one. Raises InvalidZnode."""
    return json_codec.integer_text(CONTROLLER_EPOCH, data, EPOCHS)
