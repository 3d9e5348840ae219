"""Brokers that coordinate groups, on plain values: ``FakeCluster`` with the group APIs."""

from dataclasses import dataclass, field
from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import BROKER_VERSIONS, ApiKey
from kafka_zk.protocol.errors import ErrorCode
from tests.kafka_zk.clients.connection.fake_cluster import FakeCluster, FakeConnection

GROUP_APIS = (
    ApiKey.FIND_COORDINATOR, ApiKey.LIST_GROUPS, ApiKey.DESCRIBE_GROUPS, ApiKey.OFFSET_FETCH, ApiKey.OFFSET_COMMIT,
    ApiKey.DELETE_GROUPS, ApiKey.OFFSET_DELETE,
)  # fmt: skip
OLDEST = {ApiKey.FIND_COORDINATOR: 1, ApiKey.OFFSET_FETCH: 2, ApiKey.OFFSET_COMMIT: 2}
"""The versions of 0.11 brokers; other APIs have version 0."""


@dataclass
class FakeGroup:
    """``members``: member id to its assignment, as bytes."""

    coordinator: int = 0
    state: str = "Empty"
    members: dict[str, bytes] = field(default_factory=dict)
    offsets: dict[TopicPartition, int] = field(default_factory=dict)


@dataclass
class FakeGroups(FakeCluster):
    """``is_old``: the brokers speak the oldest versions. ``errors`` are returned before a request is carried out."""

    groups: dict[str, FakeGroup] = field(default_factory=dict)
    is_old: bool = False

    def connected(self, node_id: int) -> FakeConnection:
        connection = super().connected(node_id)
        for api_key in GROUP_APIS:
            highest = OLDEST.get(api_key, 0) if self.is_old else BROKER_VERSIONS[api_key][1]
            connection.versions[api_key] = (0, highest)
        return connection

    def answer(self, node_id: int, api_key: int, version: int, body: memoryview) -> bytes:
        if api_key not in GROUP_APIS:
            return super().answer(node_id, api_key, version, body)
        self.seen.append((node_id, api_key))
        code = ErrorCode.NONE
        if self.errors and self.errors[0][0] == api_key:
            code = ErrorCode(self.errors.pop(0)[1])
        request = codec.decode_request(api_key, version, body)
        kind = codec.response(api_key)
        response = getattr(self, f"_{ApiKey(api_key).name.lower()}")(node_id, version, request, code, kind)
        return bytes(codec.encode_response(api_key, version, 0, response))

    def _code(self, node_id: int, group: str, code: ErrorCode) -> ErrorCode:
        known = self.groups.get(group)
        is_here = known is None or known.coordinator == node_id
        return code or (ErrorCode.NONE if is_here else ErrorCode.NOT_COORDINATOR)

    def _find_coordinator(self, _: int, version: int, request: Any, code: ErrorCode, kind: Any) -> Any:
        def found(group: str) -> dict[str, Any]:
            node_id = self.groups[group].coordinator if group in self.groups else 0
            return {"error_code": code, "error_message": None, "node_id": node_id, "host": f"b{node_id}", "port": 9092}

        if version < 4:
            return kind(**found(request.key))
        return kind(coordinators=[kind.Coordinator(key=key, **found(key)) for key in request.coordinator_keys])

    def _list_groups(self, node_id: int, _: int, request: Any, code: ErrorCode, kind: Any) -> Any:
        here = {name: each for name, each in self.groups.items() if each.coordinator == node_id and not code}
        listed = [
            kind.ListedGroup(group_id=name, protocol_type="consumer", group_state=each.state, group_type="classic")
            for name, each in here.items()
        ]
        return kind(error_code=code, groups=listed)

    def _describe_groups(self, node_id: int, _: int, request: Any, code: ErrorCode, kind: Any) -> Any:
        member_of = kind.DescribedGroup.DescribedGroupMember
        described = []
        for name in request.groups:
            group = self.groups.get(name, FakeGroup(state="Dead"))
            members = [
                member_of(member_id=each, group_instance_id=None, client_id="c", client_host="/1.2.3.4",
                          member_metadata=b"", member_assignment=assignment)
                for each, assignment in group.members.items()
            ]  # fmt: skip
            described.append(
                kind.DescribedGroup(
                    error_code=self._code(node_id, name, code), group_id=name,
                    group_state=group.state, protocol_type="consumer", protocol_data="range", members=members,
                )
            )  # fmt: skip
        return kind(groups=described)

    def _offset_fetch(self, node_id: int, version: int, request: Any, code: ErrorCode, kind: Any) -> Any:
        if version < 8:
            topic_of = kind.OffsetFetchResponseTopic
            topics = self._topics(request.group_id, topic_of, topic_of.OffsetFetchResponsePartition)
            return kind(topics=topics, error_code=self._code(node_id, request.group_id, code))
        of_group = kind.OffsetFetchResponseGroup
        topic_of = of_group.OffsetFetchResponseTopics
        return kind(
            groups=[
                of_group(
                    group_id=each.group_id,
                    topics=self._topics(each.group_id, topic_of, topic_of.OffsetFetchResponsePartitions),
                    error_code=self._code(node_id, each.group_id, code),
                )
                for each in request.groups
            ]
        )

    def _topics(self, group: str, topic_of: Any, partition_of: Any) -> list[Any]:
        return [
            topic_of(name=tp.topic, partitions=[
                partition_of(partition_index=tp.partition, committed_offset=offset, committed_leader_epoch=-1,
                             metadata="", error_code=0)
            ])
            for tp, offset in self.groups.get(group, FakeGroup()).offsets.items()
        ]  # fmt: skip

    def _offset_commit(self, node_id: int, _: int, request: Any, code: ErrorCode, kind: Any) -> Any:
        code = self._code(node_id, request.group_id, code)
        group = self.groups.setdefault(request.group_id, FakeGroup())
        if not code and group.members:
            code = ErrorCode.UNKNOWN_MEMBER_ID
        if not code:
            for topic in request.topics:
                for each in topic.partitions:
                    group.offsets[TopicPartition(topic.name, each.partition_index)] = each.committed_offset
        return kind(topics=_coded(kind.OffsetCommitResponseTopic, "OffsetCommitResponsePartition", request, code))

    def _delete_groups(self, node_id: int, _: int, request: Any, code: ErrorCode, kind: Any) -> Any:
        results = []
        for name in request.groups_names:
            error = self._code(node_id, name, code)
            if not error:
                gone = self.groups.pop(name, None)
                error = ErrorCode.GROUP_ID_NOT_FOUND if gone is None else ErrorCode.NONE
            results.append(kind.DeletableGroupResult(group_id=name, error_code=error))
        return kind(results=results)

    def _offset_delete(self, node_id: int, _: int, request: Any, code: ErrorCode, kind: Any) -> Any:
        code = self._code(node_id, request.group_id, code)
        for topic in () if code else request.topics:
            for each in topic.partitions:
                del self.groups[request.group_id].offsets[TopicPartition(topic.name, each.partition_index)]
        topics = _coded(kind.OffsetDeleteResponseTopic, "OffsetDeleteResponsePartition", request, ErrorCode.NONE)
        return kind(error_code=code, topics=[] if code else topics)


def _coded(topic_of: Any, partition_name: str, request: Any, code: ErrorCode) -> list[Any]:
    partition_of = getattr(topic_of, partition_name)
    return [
        topic_of(
            name=topic.name,
            partitions=[
                partition_of(partition_index=each.partition_index, error_code=code) for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
