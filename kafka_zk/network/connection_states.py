"""The states of a broker's connection, and what each event makes of them: the only place that says what is legal.

A connection has four states that change independently of each other: how far the connection is (``Phase``), and what
becomes of its requests (``Input``, ``Slot``, ``Output``). The next request begins if the phase is HANDSHAKING, OPEN or
LIMITED, the slot IDLE and the output READY. An event is a table from the state it finds to the next one. An event that
finds any other state is a bug of ours: KeyError. ``connection``, ``connection_input`` and ``connection_output`` carry
out the effects. Source of ``Output``: ChannelMuteState of KafkaChannel.java@3.9.

Tests: tests/kafka_zk/network/test_connection_states.py.
"""

from collections.abc import Mapping
from enum import Enum


class _State(Enum):
    __hash__ = object.__hash__  # Enum's own is written in Python, and the tables are looked up for every request


class Phase(_State):
    HANDSHAKING = "the handshake answers the requests"
    OPEN = "the broker answers the requests"
    LIMITED = "it does until the session ends, or the client begins another handshake"
    CLOSING = "nothing more is handled; what is queued may still leave"
    LOST = "the transport is gone"


AUTHENTICATED: Mapping[Phase, Phase] = {
    Phase.HANDSHAKING: Phase.OPEN,
    Phase.CLOSING: Phase.CLOSING,
    Phase.LOST: Phase.LOST,
}
"""The handshake has ended."""

LIMIT: Mapping[Phase, Phase] = {
    Phase.HANDSHAKING: Phase.LIMITED,
    Phase.CLOSING: Phase.CLOSING,
    Phase.LOST: Phase.LOST,
}
"""The handshake has ended, and what it has agreed on holds for a time."""

SHAKE_AGAIN: Mapping[Phase, Phase] = {
    Phase.LIMITED: Phase.HANDSHAKING,
    Phase.CLOSING: Phase.CLOSING,
    Phase.LOST: Phase.LOST,
}
"""That time is over, or the client begins another handshake before."""

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
    """The request that is being answered, those in flight (``in_flight``) aside."""

    IDLE = "no request"
    HANDLING = "its handler runs"
    WAITING = "its handler awaits a Deferred"
    READING = "a thread reads the slices of its response"


BEGIN: Mapping[Slot, Slot] = {Slot.IDLE: Slot.HANDLING}
WAIT: Mapping[Slot, Slot] = {Slot.HANDLING: Slot.WAITING}
RESUME: Mapping[Slot, Slot] = {Slot.WAITING: Slot.HANDLING}

END: Mapping[Slot, Slot] = {Slot.HANDLING: Slot.IDLE}
"""The handler is done, or the request goes on in flight."""

READ: Mapping[Slot, Slot] = {Slot.IDLE: Slot.READING}
"""The response has slices that are not in memory."""

SEND: Mapping[Slot, Slot] = {Slot.READING: Slot.IDLE}


class Input(_State):
    READING = "the transport may receive"
    PAUSED = "the transport is paused"
    ASKING = "paused; the frame that is being collected waits for memory"
    READING_ASKING = "that frame has come all the same, from a transport that reads ahead"


PAUSE: Mapping[Input, Input] = {
    Input.READING: Input.PAUSED,
    Input.PAUSED: Input.PAUSED,
    Input.ASKING: Input.ASKING,
    Input.READING_ASKING: Input.ASKING,
}
ASK: Mapping[Input, Input] = {Input.PAUSED: Input.ASKING}
GRANT: Mapping[Input, Input] = {Input.ASKING: Input.PAUSED, Input.READING_ASKING: Input.READING}
GO_ON: Mapping[Input, Input] = {Input.PAUSED: Input.READING, Input.ASKING: Input.READING_ASKING}


class Output(_State):
    READY = "the response to another request may follow"
    FULL = "the peer does not take its responses"
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
"""The last of the throttles, which may overlap, is over."""
