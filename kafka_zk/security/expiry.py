"""Warnings about certificates that expire soon."""

from collections.abc import Mapping, Sequence

from kafka_zk.security.certificate import Certificate

LIMITS_DAYS = (7, 30)


class ExpiryWarnings:
    """Warns once per certificate and limit in LIMITS_DAYS, and once when the certificate has expired."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, Certificate], int] = {}

    def due(self, shown: Mapping[str, Sequence[Certificate]], now_ms: int) -> list[str]:
        """The warnings that are due now. ``shown``: listener name -> certificates."""
        present = {(name, each): _limit(each, now_ms) for name, found in shown.items() for each in found}
        due = [key for key, limit in present.items() if limit is not None and limit < self._told.get(key, 1 << 31)]
        self._told = {key: limit for key, limit in present.items() if limit is not None}
        return [_sentence(name, each, now_ms) for name, each in due]


def _limit(certificate: Certificate, now_ms: int) -> int | None:
    """The reached limit in days; 0 if the certificate has expired; None if no limit is reached."""
    left = certificate.days_left(now_ms)
    return next((limit for limit in (0, *LIMITS_DAYS) if left <= limit), None)


def _sentence(name: str, certificate: Certificate, now_ms: int) -> str:
    left = certificate.days_left(now_ms)
    if left <= 0:
        return f"{name}: the certificate {certificate.subject} has expired, clients refuse it"
    return f"{name}: the certificate {certificate.subject} expires in {left:.1f} days"
