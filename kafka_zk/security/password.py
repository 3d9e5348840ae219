"""A secret that is not printed by accident. Source: org.apache.kafka.common.config.types.Password@3.9."""

from dataclasses import dataclass

HIDDEN = "[hidden]"


@dataclass(frozen=True, slots=True, repr=False)
class Password:
    """A password, token or private key. ``repr`` and ``str`` return ``[hidden]``; it can be pickled."""

    value: str

    def __repr__(self) -> str:
        return HIDDEN


NO_PASSWORD = Password("")
