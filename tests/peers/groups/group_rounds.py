"""Two groups of foreign clients on one broker while a producer writes, with faults that a seed chooses.

Five clients that share an assignor are in one group; kafkajs, whose assignor has another name, is in a group of its
own. In each round, a member or the broker is killed, paused, stopped or restarted.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from kazoo.client import KazooClient

from kafka_zk.base.types import TopicPartition
from kafka_zk.embedded.process import tied
from tests.peers import foreign_programs, wire_probe
from tests.peers.clients.python_members import CLIENTS as PYTHON_CLIENTS
from tests.peers.groups.group_history import History, faults, read_offsets_topic
from tests.peers.groups.mixed_group import Writer
from tests.peers.jars import REPOSITORY_ROOT
from tests.peers.processes import wait_until
from tests.peers.targets import Target

FIVE = (*PYTHON_CLIENTS, *foreign_programs.GO_PROGRAMS)
KAFKAJS = ("kafkajs", "kafkajs")
ASSIGNORS = ("range", "roundrobin")
SESSION_TIMEOUT_MS = 3000
PARTITIONS = 6
TOPIC = "rounds"
#: Settings of a broker that keeps all records of `__consumer_offsets`, in one partition.
OVERRIDES = {
    "offsets.topic.num.partitions": "1",
    "group.min.session.timeout.ms": "1000",
    "zookeeper.session.timeout.ms": "3000",
    "log.retention.ms": "-1",
}
ACTIONS = (
    "kill", "kill", "leave", "leave", "pause", "pause", "pause beyond the session", "pause beyond the session",
    "commit late", "restart the broker", "kill the broker",
)  # fmt: skip

_SETTLED_S = 90
CONSUMED_S = 90
_LEFT_S = 30
_INTERVAL_S = 0.1
_IN_A_HURRY = 0.3
"""The share of rounds after which the next round starts before the group has settled."""
_RECORDS_OF_A_PAUSE = (10, 150)
"""Bounds of the records written during a pause; about a hundred are written a second."""


class Member:
    """One client in a process of its own. `name` is its client id."""

    def __init__(self, client: str, name: str, group: str, bootstrap: str, assignor: str, folder: Path) -> None:
        self.client = client
        self.name = name
        self._journal = folder / f"{name}.journal"
        self._log = folder / f"{name}.log"
        self._position = 0
        arguments = [bootstrap, group, TOPIC, name, str(self._journal), assignor, str(SESSION_TIMEOUT_MS)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                tied([*_command(client), *arguments]),
                stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=REPOSITORY_ROOT,
            )  # fmt: skip

    @property
    def log(self) -> str:
        """The end of the member's log."""
        return self._log.read_text(errors="replace")[-2000:]

    def new_lines(self) -> list[str]:
        """The complete lines of its journal since the last call."""
        if not self._journal.exists():
            return []
        with self._journal.open("rb") as file:
            file.seek(self._position)
            whole, end, _ = file.read().rpartition(b"\n")
        self._position += len(whole) + len(end)
        return whole.decode().splitlines()

    def kill(self) -> None:
        """Kill the process: it sends no further request."""
        self._process.kill()
        self._process.communicate()

    def leave(self) -> None:
        """The member leaves the group and ends. Raises: AssertionError if it fails to."""
        try:
            self._process.communicate(timeout=_LEFT_S)
        except subprocess.TimeoutExpired:
            self.kill()
        assert self._process.returncode == 0, f"{self.name} ended with {self._process.returncode}:\n{self.log}"

    def pause(self) -> None:
        """The member is paused: it neither reads, nor writes, nor sends heartbeats."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """The member resumes without knowing of the pause."""
        os.kill(self._process.pid, signal.SIGCONT)


def _command(client: str) -> list[str]:
    if client in PYTHON_CLIENTS:
        return [sys.executable, "-m", "tests.peers.clients.python_members", client]
    if client in foreign_programs.GO_PROGRAMS:
        return [str(foreign_programs.go_program(client))]
    return ["node", str(foreign_programs.node_folder(client) / "member.js")]


class Group:
    """The members of one group that should be there now."""

    def __init__(self, name: str, clients: Sequence[str], target: Target, assignor: str, folder: Path) -> None:
        self.name = name
        self.history = History()
        self.live: list[Member] = []
        self._members: list[Member] = []
        self._target, self._assignor, self._folder = target, assignor, folder
        for client in clients:
            self.join(client)

    def join(self, client: str) -> None:
        """A new member."""
        name = f"{self.name}-{len(self._members)}-{client}"
        member = Member(client, name, self.name, self._target.bootstrap, self._assignor, self._folder)
        self._members.append(member)
        self.live.append(member)

    def read_journals(self) -> None:
        """Read the new lines of all members' journals, including former members."""
        for member in self._members:
            self.history.add_journal(member.name, member.new_lines())

    def close(self) -> None:
        """End all processes."""
        while self.live:
            self.live.pop().kill()


class GroupRounds:
    """The campaign."""

    def __init__(self, target: Target, seed: int, folder: Path) -> None:
        self._trace: list[str] = []
        self._target = target
        self._random = random.Random(seed)
        assignor = self._random.choice(ASSIGNORS)
        folder.mkdir()
        target.create_topic(TOPIC, partitions=PARTITIONS)
        self._writer = Writer(target, TOPIC, PARTITIONS, may_fail=True)
        self.groups = [Group("five", FIVE, target, assignor, folder), Group("js", KAFKAJS, target, assignor, folder)]
        self.settle()

    def close(self) -> None:
        """Stop the members and the writer."""
        for group in self.groups:
            group.close()
        self._writer.stop()

    def run(self, rounds: int) -> None:
        """Run the actions of the seed. Raises: TimeoutError if a group does not settle."""
        for _ in range(rounds):
            action = self._random.choice(ACTIONS)
            if action == "restart the broker":
                self._trace.append(action)
                self._target.restart()
            elif action == "kill the broker":
                self._trace.append(action)
                self._kill_broker()
            elif action == "commit late":
                self.commit_late()
            else:
                group = self._random.choices(self.groups, weights=[len(each.live) for each in self.groups])[0]
                self.act(action, self._random.choice(group.live))
            if self._random.random() >= _IN_A_HURRY:
                self.settle()
        self.settle()

    def act(self, action: str, member: Member) -> None:
        """Do one of ACTIONS to a member. One that ended is replaced by another of its client."""
        records = self._random.randint(*_RECORDS_OF_A_PAUSE)
        self._trace.append(f"{action} {member.name}, {records} records")
        [group] = [each for each in self.groups if member in each.live]
        if action.startswith("pause"):
            member.pause()
            try:
                if action == "pause":
                    self._wait_written(records)
                else:
                    self._wait_out(group, member)
            finally:
                member.resume()
            return
        group.live.remove(member)
        member.kill() if action == "kill" else member.leave()
        self._wait_written(records)
        group.join(member.client)

    def member(self, client: str) -> Member:
        """A live member."""
        return next(member for group in self.groups for member in group.live if member.client == client)

    def commit_late(self) -> None:
        """Commit as a member of the first known generation that was paused since then and now rejoins."""
        for group in self.groups:
            group.read_journals()
            known = [each for each in group.history.assigned if each.generation is not None and each.partitions]
            if known:
                first = min(known, key=lambda assigned: assigned.generation or 0)
                partition = self._random.choice(sorted(first.partitions))
                self._trace.append(f"commit late as {first.member_id} of generation {first.generation}")
                with contextlib.suppress(OSError):  # the broker may be down just now
                    wire_probe.commit_offset(
                        self._target.ports[0], group.name, first.generation or 0, first.member_id,
                        TopicPartition(TOPIC, partition), 0,
                    )  # fmt: skip

    def _wait_written(self, records: int) -> None:
        """Wait for a number of written records."""
        wanted = self._writer.count + records
        wait_until(lambda: self._writer.count >= wanted, _SETTLED_S, f"{records} records to be written")

    def _wait_out(self, group: Group, member: Member) -> None:
        wait_until(
            lambda: member.name not in self._described(group)[1],
            _SETTLED_S, f"{member.name} to be removed from its group", interval_s=_INTERVAL_S,
        )  # fmt: skip

    def _kill_broker(self) -> None:
        """Kill the broker. Its registration outlives it until its session expires."""
        [broker] = self._target.brokers
        broker.kill()
        client = KazooClient(self._target.zookeeper)
        client.start()
        try:
            wait_until(lambda: client.exists("/brokers/ids/0") is None, _SETTLED_S, "the end of the broker's session")
        finally:
            client.stop()
            client.close()
        self._target.restart()

    def settle(self) -> None:
        """Wait until each group is stable and has exactly the live members. Raises: TimeoutError."""
        for group in self.groups:
            names = {member.name for member in group.live}
            try:
                wait_until(
                    lambda group=group, names=names: self._described(group) == ("Stable", names),  # type: ignore[misc]
                    _SETTLED_S, f"{group.name} to settle", interval_s=_INTERVAL_S,
                )  # fmt: skip
            except TimeoutError as late:
                logs = "\n".join(f"--- {member.name}\n{member.log}" for member in group.live)
                raise TimeoutError(f"{late}: {self._described(group)}, {names}\n{logs}\n{self.story()}") from late

    def _described(self, group: Group) -> tuple[str, set[str]]:
        """The group's state and its client ids; nothing while the broker does not respond."""
        try:
            return wire_probe.group_members(self._target.ports[0], group.name)
        except OSError:
            return "", set()

    def judge(self, timeout_s: float = CONSUMED_S) -> list[str]:
        """Stop writing, wait at most `timeout_s` until everything is read, end, and return the faults."""
        written = self._writer.stop()
        for group in self.groups:
            group.history.written = written
        with contextlib.suppress(TimeoutError):  # then the judge says what is missing
            wait_until(self._all_is_handed, timeout_s, "all records to be handed out", interval_s=_INTERVAL_S)
        for group in self.groups:
            for member in list(group.live):
                member.leave()
                group.live.remove(member)
            group.read_journals()
        read_offsets_topic(self._target.bootstrap, {each.name: each.history for each in self.groups}, TOPIC)
        found = [f"{group.name}: {fault}" for group in self.groups for fault in faults(group.history)]
        return [*found, self.story()] if found else []

    def _all_is_handed(self) -> bool:
        for group in self.groups:
            group.read_journals()
        return all(group.history.written <= group.history.handed for group in self.groups)

    def summary(self) -> str:
        """The amount of judged events."""
        return "; ".join(
            f"{group.name}: {len(group.history.generations)} generations, {len(group.history.commits)} commits, "
            f"{len(group.history.written)} records"
            for group in self.groups
        )

    def story(self) -> str:
        """The actions, one line per round."""
        return "what was done:\n" + "\n".join(self._trace)
