"""The findings of a rehearsal. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafka_zk.migration.finding import Finding

_DATA = "the data, its copy to KRaft, the writes to both sides, and the end of the migration"


class Cast(NamedTuple):
    """The processes that ran in place of the brokers, and what they test."""

    name: str
    tested: str
    not_tested: str


STAND_INS = Cast(
    "stand-ins",
    _DATA,
    "inter.broker.protocol.version, listeners, identities and authorizers of your brokers and controllers, the ACLs of "
    "znodes (the copy has none), and what brokers do with a controller's orders",
)
REAL_BROKERS = Cast(
    "real brokers",
    f"{_DATA}; also inter.broker.protocol.version, listeners, authorizers and policies of the brokers' files",
    "the controllers' own listener and login, the login to ZooKeeper and the ACLs of znodes (the copy has none), JVM "
    "flags such as a JAAS file, releases other than that of the jars, and the records on the brokers' disks",
)


@dataclass(frozen=True, slots=True)
class Step:
    """``phase``: the phase to reach. ``problems``: the faults. ``note``: the observations. ``is_reached``: False if
    the run ended here.
    """

    phase: str
    seconds: float
    note: str = ""
    problems: tuple[str, ...] = ()
    is_reached: bool = True

    @property
    def result(self) -> str:
        if not self.is_reached:
            return "not reached"
        return "broke" if self.problems else "ok"

    def as_document(self) -> dict[str, Any]:
        return {
            "phase": self.phase,
            "result": self.result,
            "seconds": round(self.seconds, 3),
            "note": self.note,
            "problems": list(self.problems),
        }


@dataclass(frozen=True, slots=True)
class Run:
    """One walk, ``forward`` or ``back from`` a phase, with its own copy of the znodes."""

    name: str
    steps: tuple[Step, ...]

    @property
    def is_broken(self) -> bool:
        return any(step.problems or not step.is_reached for step in self.steps)


@dataclass(frozen=True, slots=True)
class Report:
    """``source``: the copied tree. ``cast``: the processes that ran in place of the brokers. ``findings``: the rules of
    ``check`` that are traps in the copy.
    """

    source: dict[str, Any]
    cast: Cast
    findings: Sequence[Finding]
    runs: Sequence[Run]

    @property
    def exit_code(self) -> int:
        """0: every run reached its end. 1: something broke, or there is a trap."""
        return 1 if self.findings or any(run.is_broken for run in self.runs) else 0

    def as_document(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "traps": [finding.as_document() for finding in self.findings],
            "runs": [{"run": run.name, "steps": [step.as_document() for step in run.steps]} for run in self.runs],
            "brokers": self.cast.name,
            "tested": self.cast.tested,
            "not_tested": self.cast.not_tested,
        }
