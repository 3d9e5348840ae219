"""The states of a broker's connection and their transitions.

Four states are independent: the connection's ``Phase``, and its requests' ``Input``, ``Slot`` and ``Output``. The next
request needs phase HANDSHAKING, OPEN or LIMITED, slot IDLE and output READY. An event is a table from state to state;
an event in a state that its table lacks is a bug, and raises KeyError. Source of ``Output``: ChannelMuteState of
KafkaChannel.java@3.9.
"""

from collections.abc import Mapping
from enum import Enum


class _State(Enum):
    __hash__ = object.__hash__  # Enum's hash is slow Python, and every request uses these tables


class Phase(_State):
    HANDSHAKING = "requests go to the handshake"
    OPEN = "requests go to the broker"
    LIMITED = "requests go to the broker until the session ends or the client begins another handshake"
    CLOSING = "no more requests are handled; queued responses may still be sent"
    LOST = "the transport is gone"


AUTHENTICATED: Mapping[Phase, Phase] = {
    Phase.HANDSHAKING: Phase.OPEN,
    Phase.CLOSING: Phase.CLOSING,
    Phase.LOST: Phase.LOST,
}
"""The handshake has succeeded."""

LIMIT: Mapping[Phase, Phase] = {
    Phase.HANDSHAKING: Phase.LIMITED,
    Phase.CLOSING: Phase.CLOSING,
    Phase.LOST: Phase.LOST,
}
"""The handshake has succeeded, for a limited time."""

SHAKE_AGAIN: Mapping[Phase, Phase] = {
    Phase.LIMITED: Phase.HANDSHAKING,
    Phase.CLOSING: Phase.CLOSING,
    Phase.LOST: Phase.LOST,
}
"""The lifetime has ended, or the client began another handshake earlier."""

CLOSE: Mapping[Phase, Phase] = {
    Phase.HANDSHAKING: Phase.CLOSING,
    Phase.OPEN: Phase.CLOSING,
    Phase.LIMITED: Phase.CLOSING,
    Phase.CLOSING: Phase.CLOSING,
    Phase.LOST: Phase.LOST,
}

LOSE: Mapping[Phase, Phase] = dict.fromkeys(Phase, Phase.LOST)

CLOSED_PHASES = frozenset((Phase.CLOSING, Phase.LOST))


class Slot(_State):
    """The request in progress, without those in flight (``in_flight``)."""

    IDLE = "no request"
    HANDLING = "its handler runs"
    WAITING = "its handler awaits a Deferred"
    READING = "a thread reads the slices of its response"


BEGIN: Mapping[Slot, Slot] = {Slot.IDLE: Slot.HANDLING}
WAIT: Mapping[Slot, Slot] = {Slot.HANDLING: Slot.WAITING}
RESUME: Mapping[Slot, Slot] = {Slot.WAITING: Slot.HANDLING}

END: Mapping[Slot, Slot] = {Slot.HANDLING: Slot.IDLE}
"""The handler has finished, or its request is in flight."""

READ: Mapping[Slot, Slot] = {Slot.IDLE: Slot.READING}
"""Slices of the response must be read from disk first."""

SEND: Mapping[Slot, Slot] = {Slot.READING: Slot.IDLE}


class Input(_State):
    READING = "the transport may receive"
    PAUSED = "the transport is paused"
    ASKING = "paused; the frame that is being collected waits for memory"
    READING_ASKING = "that frame has arrived nevertheless, because the transport reads ahead"


PAUSE: Mapping[Input, Input] = {
    Input.READING: Input.PAUSED,
    Input.PAUSED: Input.PAUSED,
    Input.ASKING: Input.ASKING,
    Input.READING_ASKING: Input.ASKING,
}
ASK: Mapping[Input, Input] = {Input.PAUSED: Input.ASKING}
GRANT: Mapping[Input, Input] = {Input.ASKING: Input.PAUSED, Input.READING_ASKING: Input.READING}
UNPAUSE: Mapping[Input, Input] = {Input.PAUSED: Input.READING, Input.ASKING: Input.READING_ASKING}


class Output(_State):
    READY = "the next request may begin"
    FULL = "the peer does not read its responses"
    MUTED = "the peer is throttled"
    FULL_MUTED = "both"


FILL: Mapping[Output, Output] = {
    Output.READY: Output.FULL,
    Output.FULL: Output.FULL,
    Output.MUTED: Output.FULL_MUTED,
    Output.FULL_MUTED: Output.FULL_MUTED,
}
DRAIN: Mapping[Output, Output] = {Output.FULL: Output.READY, Output.FULL_MUTED: Output.MUTED}
MUTE: Mapping[Output, Output] = {
    Output.READY: Output.MUTED,
    Output.FULL: Output.FULL_MUTED,
    Output.MUTED: Output.MUTED,
    Output.FULL_MUTED: Output.FULL_MUTED,
}

UNMUTE: Mapping[Output, Output] = {Output.MUTED: Output.READY, Output.FULL_MUTED: Output.FULL}
"""The last of several overlapping throttles has ended."""
