"""A broker with quotas handles requests: what is counted, what the responses say, how long the peer is muted."""

import struct
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.handlers.table import OFFERED_VERSIONS, Dispatcher
from kafka_zk.broker.quota.enforcement import EXEMPT, ExemptAnswer, ThrottledAnswer
from kafka_zk.broker.quota.quota_table import QuotaKey
from kafka_zk.broker.security.authorizer import NoAuthorizer
from kafka_zk.network.connection_settings import ConnectionSettings
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch import FetchResponse, Part, read_fetch_response
from kafka_zk.protocol.fetch_request import FetchPartition, FetchRequest, FetchTopic, write_fetch_request
from kafka_zk.protocol.produce import (
    PartitionData,
    ProduceRequest,
    TopicData,
    read_produce_response,
    write_produce_request,
)
from kafka_zk.protocol.request import NO_REQUEST, RequestContext, RequestHeader, response_body_position
from kafka_zk.registry.znodes.topics import TopicAssignment
from tests.kafka_zk.broker.conftest import CONTEXT, Harness, batch

TOPIC = "t"


class Client:
    """A client that sends requests through a listener's settings, as a connection does. ``muted_ms``: how long it is
    muted after the last response.
    """

    def __init__(self, broker: Harness, client_id: str | None = "c") -> None:
        self.broker = broker
        self.client_id = client_id
        self.muted_ms = -1
        self.settings = ConnectionSettings(broker.clock, "PLAINTEXT", Dispatcher(broker.services).dispatch)
        quotas = broker.services.client_quotas
        dispatcher = Dispatcher(broker.services)
        self.settings.dispatch = dispatcher.dispatch
        quotas.limit_fetches_by(dispatcher.limit_fetches)
        quotas.attach(self.settings)

    def send(self, api_key: ApiKey, version: int, body: bytes | bytearray) -> memoryview | None:
        header = RequestHeader(api_key, version, 7, self.client_id)
        coroutine = self.settings.dispatch(CONTEXT, header, memoryview(bytearray(body)))
        try:
            coroutine.send(None)
        except StopIteration as end:
            parts = end.value
        else:
            raise AssertionError("it waits")
        hook = self.settings.on_response
        if hook is None or parts.__class__ is self.settings.unheard:
            self.muted_ms = 0
        else:
            self.muted_ms = hook(CONTEXT, header, parts)
        if parts is None:
            return None
        frame = memoryview(b"".join(part if isinstance(part, bytes | bytearray) else part.read() for part in parts))
        return frame[response_body_position(frame, api_key, version) :]

    def produce(self, size_bytes: int, version: int = 9, acks: int = 1) -> int | None:
        """Returns the throttle time."""
        topics = [TopicData(TOPIC, [PartitionData(0, batch(b"x" * size_bytes))])]
        body = b"".join(map(bytes, write_produce_request(version, ProduceRequest(None, acks, 1000, topics))))
        answer = self.send(ApiKey.PRODUCE, version, body)
        return None if answer is None else read_produce_response(version, answer).throttle_time_ms

    def fetch(self, version: int = 11, session: tuple[int, int] = (0, -1), **fields: Any) -> FetchResponse:
        topics = [FetchTopic(TOPIC, None, [FetchPartition(0, 0, 10**7)])]
        body = write_fetch_request(
            version, FetchRequest(0, 1, topics, session_id=session[0], session_epoch=session[1], **fields)
        )
        answer = self.send(ApiKey.FETCH, version, body)
        assert answer is not None
        return read_fetch_response(version, answer)

    def ask(self, api_key: ApiKey, version: int, request: Any) -> Any:
        answer = self.send(api_key, version, codec.encode_body(request, api_key, version))
        assert answer is not None
        return codec.decode_response(api_key, version, answer)

    def create(self, name: str, count: int, version: int) -> tuple[int, int]:
        """Returns the throttle time and the error code."""
        request = codec.request(ApiKey.CREATE_TOPICS)
        wanted = request.CreatableTopic(
            name=name, num_partitions=count, replication_factor=1, assignments=[], configs=[]
        )
        answer = self.ask(ApiKey.CREATE_TOPICS, version, request(topics=[wanted], timeout_ms=0, validate_only=False))
        return getattr(answer, "throttle_time_ms", 0), answer.topics[0].error_code


@pytest.fixture
def broker(harness: Callable[..., Harness]) -> Iterator[Harness]:
    made = harness()
    made.lead(TOPIC)
    yield made


def limit(broker: Harness, entity_type: str, name: str, **properties: str) -> None:
    quotas = broker.services.client_quotas
    assert quotas.quotas.set(entity_type, name, properties) == []
    quotas.changed()


def test_without_quotas_a_connection_knows_of_none(broker: Harness) -> None:
    client = Client(broker)
    plain = client.settings.dispatch
    limit(broker, "users", "ANONYMOUS", producer_byte_rate="5")
    assert (client.settings.on_response is None, client.settings.dispatch == plain) == (False, False)
    limit(broker, "users", "ANONYMOUS")
    assert (client.settings.on_response is None, client.settings.dispatch == plain) == (True, True)


@pytest.mark.parametrize("version", range(3, 12))
def test_produce_says_how_long_it_is_muted(broker: Harness, version: int) -> None:
    limit(broker, "clients", "c", producer_byte_rate="10000")
    client = Client(broker)
    assert client.produce(1_000, version) == client.muted_ms == 0
    throttle_ms = client.produce(150_000, version)
    assert throttle_ms == client.muted_ms and 5_100 < client.muted_ms < 5_200
    assert Client(broker, "other").produce(150_000, version) == 0


def test_produce_without_an_answer_is_muted_all_the_same(broker: Harness) -> None:
    limit(broker, "clients", "c", producer_byte_rate="10000")
    client = Client(broker)
    assert client.produce(150_000, acks=0) is None
    assert 5_000 < client.muted_ms < 5_100


def test_a_quota_of_nothing_mutes_one_window_for_each_request(broker: Harness) -> None:
    """A znode may contain such a quota, although the APIs refuse it. Kafka's brokers then do not throttle at all."""
    limit(broker, "clients", "c", producer_byte_rate="0", consumer_byte_rate="0")
    client = Client(broker)
    for _ in range(2):
        assert client.produce(10) == client.muted_ms == 1_000
        fetched = client.fetch()
        assert fetched.throttle_time_ms == client.muted_ms == 1_000
        assert fetched.topics[0].partitions[0].records


def fill(broker: Harness, count: int, size_bytes: int) -> None:
    for _ in range(count):
        Client(broker, "filler").produce(size_bytes)
    partition = broker.services.replicas.partitions[TopicPartition(TOPIC, 0)]
    assert partition.log is not None and partition.log.high_watermark == count


@pytest.mark.parametrize("version", range(18))
def test_a_fetch_above_the_quota_gets_nothing(broker: Harness, version: int) -> None:
    """The bytes of such a fetch do not count. A client whose version has no throttle time is muted, too."""
    fill(broker, 2, 60_000)
    limit(broker, "clients", "c", consumer_byte_rate="10000")
    client = Client(broker)
    topic_id = broker.services.metadata.topic_ids[TOPIC].bytes
    for expected in (True, False):
        topics = [FetchTopic(TOPIC, topic_id, [FetchPartition(0, 0, 65_000)])]
        body = write_fetch_request(version, FetchRequest(0, 1, topics))
        answer = client.send(ApiKey.FETCH, version, body)
        assert answer is not None
        fetched = read_fetch_response(version, answer)
        assert bool(fetched.topics) == expected
        assert (client.muted_ms > 0) != expected
        assert fetched.throttle_time_ms == (client.muted_ms if version >= 1 else 0)
    bucket = broker.services.client_quotas.quotas.of("User:ANONYMOUS", "c", 0).fetch
    assert bucket is not None and bucket.total == pytest.approx(60_100, abs=100)


def test_a_batch_larger_than_the_window_arrives(broker: Harness) -> None:
    """KAFKA-9677: Kafka's brokers never deliver it. Here the consumer is throttled afterwards."""
    fill(broker, 2, 150_000)
    limit(broker, "clients", "c", consumer_byte_rate="10000")
    client = Client(broker)
    first = client.fetch()
    assert len(first.topics[0].partitions[0].records or b"") > 150_000
    assert first.throttle_time_ms == client.muted_ms > 5_000
    assert client.fetch().topics == [] and client.muted_ms > 0


def test_a_consumer_is_given_no_more_than_the_window_holds(broker: Harness) -> None:
    """A larger response would never be allowed, so the records come in pieces."""
    fill(broker, 5, 30_000)
    limit(broker, "clients", "c", consumer_byte_rate="10000")
    fetched = Client(broker).fetch()
    assert 60_000 < len(fetched.topics[0].partitions[0].records or b"") <= 100_000


def test_a_throttled_fetch_leaves_its_session_as_it_is(broker: Harness) -> None:
    """A throttled fetch creates no new session; an existing session continues with the next epoch."""
    fill(broker, 1, 60_000)
    limit(broker, "clients", "c", consumer_byte_rate="10000")
    client = Client(broker)
    session_id = client.fetch(session=(0, 0)).session_id
    assert session_id > 0
    refused = client.fetch(session=(session_id, 1))
    assert (refused.session_id, refused.topics, refused.throttle_time_ms) == (session_id, [], client.muted_ms)
    assert client.muted_ms > 0
    assert client.fetch(session=(session_id, 2)).error_code == 0
    before = len(broker.services.fetch_sessions)
    assert client.fetch(session=(0, 0)).session_id == 0 and client.muted_ms > 0
    assert len(broker.services.fetch_sessions) == before


def test_followers_have_no_quota(broker: Harness) -> None:
    fill(broker, 2, 60_000)
    limit(broker, "clients", "c", consumer_byte_rate="10000", request_percentage="0.000001")
    client = Client(broker)
    for _ in range(3):
        assert client.fetch(replica_id=1).throttle_time_ms == client.muted_ms == 0


def test_a_follower_without_its_session_is_not_muted(broker: Harness) -> None:
    """A follower loses its session when the leader restarts, at a time when replicas are already lagging."""
    limit(broker, "users", "ANONYMOUS", request_percentage="0")
    client = Client(broker)
    answer = client.fetch(session=(12345, 7), replica_id=1)
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert answer.throttle_time_ms == client.muted_ms == 0


def test_the_time_of_requests_mutes_for_one_sample_at_most(broker: Harness) -> None:
    """Every request counts except those between brokers. The quota is a percentage of one thread."""
    limit(broker, "users", "ANONYMOUS", request_percentage="50")
    client, dispatch = Client(broker), Client(broker).settings
    quotas = broker.services.client_quotas

    async def slow(context: RequestContext, header: RequestHeader, body: memoryview) -> list[Part]:
        broker.clock.advance(6)
        parts: list[Part] = [struct.pack(">iih", 7, 0, 0)]
        return ExemptAnswer(parts) if header.api_key in EXEMPT else parts

    client.settings.dispatch = quotas._timing(slow)
    answer = client.send(ApiKey.HEARTBEAT, 1, b"")
    assert answer is not None and struct.unpack_from(">i", answer)[0] == client.muted_ms == 1_000
    client.send(ApiKey.ALTER_PARTITION, 0, b"")
    assert client.muted_ms == 0
    assert quotas.exempt_time.per_second(quotas.now_ms()) > 50
    assert dispatch.on_response is not None


@pytest.mark.parametrize("api_key", EXEMPT)
def test_a_request_of_a_broker_is_exempt(broker: Harness, api_key: ApiKey) -> None:
    """With a quota of 0, every other request would be muted."""
    limit(broker, "users", "ANONYMOUS", request_percentage="0")
    client = Client(broker)
    version = OFFERED_VERSIONS[api_key][1]
    client.send(api_key, version, codec.encode_body(codec.request(api_key)(), api_key, version))
    assert client.muted_ms == 0
    version = OFFERED_VERSIONS[ApiKey.LIST_GROUPS][1]
    client.send(
        ApiKey.LIST_GROUPS, version, codec.encode_body(codec.request(ApiKey.LIST_GROUPS)(), ApiKey.LIST_GROUPS, version)
    )
    assert client.muted_ms == 1_000


@pytest.mark.parametrize("api_key", EXEMPT)
def test_a_request_of_a_broker_counts_if_its_sender_is_none(broker: Harness, api_key: ApiKey) -> None:
    """If such a request did not count, a client whose requests are refused would never be throttled."""
    limit(broker, "users", "ANONYMOUS", request_percentage="0")
    broker.services.authorizer = NoAuthorizer([])
    client = Client(broker)
    version = OFFERED_VERSIONS[api_key][1]
    client.send(api_key, version, codec.encode_body(codec.request(api_key)(), api_key, version))
    assert client.muted_ms == 1_000


def test_a_request_for_producer_ids_counts(broker: Harness) -> None:
    """Kafka counts it as well, although brokers send it (KafkaApis.handleAllocateProducerIdsRequest@3.9)."""
    limit(broker, "users", "ANONYMOUS", request_percentage="0")
    client, api_key = Client(broker), ApiKey.ALLOCATE_PRODUCER_IDS
    answer = client.send(api_key, 0, codec.encode_body(codec.request(api_key)(), api_key, 0))
    assert answer is not None and struct.unpack_from(">i", answer)[0] == client.muted_ms == 1_000


@pytest.mark.parametrize("api_key", [ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE])
def test_a_request_of_a_login_without_a_login_counts(broker: Harness, api_key: ApiKey) -> None:
    """Kafka counts it as well and responds with ILLEGAL_SASL_STATE, as to any other request."""
    limit(broker, "users", "ANONYMOUS", request_percentage="0")
    client = Client(broker)
    version = OFFERED_VERSIONS[api_key][1]
    client.send(api_key, version, codec.encode_body(codec.request(api_key)(), api_key, version))
    assert client.muted_ms == 1_000


def test_a_login_is_not_muted_even_without_requests_around_it(broker: Harness) -> None:
    """The response to a bare token has no throttle time. The hook already knows the principal, and with a mutation
    quota it examines every response.
    """
    limit(broker, "users", "ANONYMOUS", request_percentage="0", controller_mutation_rate="1")
    hook = Client(broker).settings.on_response
    assert hook is not None
    token: list[Part] = [b"v=c2lnbmF0dXJl"]
    assert hook(CONTEXT, RequestHeader(NO_REQUEST, 0, 0, None), token) == 0
    assert token == [b"v=c2lnbmF0dXJl"]
    heartbeat = ThrottledAnswer([struct.pack(">iih", 7, 0, 0)], 100)
    assert hook(CONTEXT, RequestHeader(ApiKey.HEARTBEAT, 1, 7, "c"), heartbeat) == 100


def test_a_request_that_waits_is_not_charged_for_it(broker: Harness) -> None:
    limit(broker, "users", "ANONYMOUS", request_percentage="50")
    quotas = broker.services.client_quotas

    class Pause:
        def __await__(self) -> Generator[None, None, None]:
            yield

    async def waiting(*_: Any) -> list[bytes]:
        await Pause()
        return [b""]

    timed = quotas._timing(waiting)(CONTEXT, RequestHeader(ApiKey.HEARTBEAT, 1, 7, "c"), memoryview(b""))  # type: ignore[arg-type]
    timed.send(None)
    broker.clock.advance(60)
    with pytest.raises(StopIteration):
        timed.send(None)
    bucket = quotas.quotas.of("User:ANONYMOUS", "c", 0).request
    assert bucket is not None and bucket.total == 0


class Wait:
    def __await__(self) -> Generator[None, None, None]:
        yield


@pytest.mark.parametrize("is_failing", [False, True])
def test_all_steps_of_a_request_are_charged_and_failures_reach_it(broker: Harness, is_failing: bool) -> None:
    limit(broker, "users", "ANONYMOUS", request_percentage="1000")
    quotas = broker.services.client_quotas
    failures = []

    async def stepwise(*asked: Any) -> list[bytes]:
        for _ in range(2):
            broker.clock.advance(1)
            try:
                await Wait()
            except LookupError as error:
                failures.append(error)
        broker.clock.advance(1)
        return [b""]

    timed = quotas._timing(stepwise)(CONTEXT, RequestHeader(ApiKey.HEARTBEAT, 1, 7, "c"), memoryview(b""))  # type: ignore[arg-type]
    timed.send(None)
    with pytest.raises(StopIteration) as end:
        for _ in range(2):
            broker.clock.advance(60)
            if is_failing:
                timed.throw(LookupError())
            else:
                timed.send(None)
    assert end.value.value == [b""]
    assert len(failures) == (2 if is_failing else 0)
    bucket = quotas.quotas.of("User:ANONYMOUS", "c", 0).request
    assert bucket is not None and bucket.total == pytest.approx(300)


@pytest.mark.parametrize("waits", [False, True])
def test_a_request_that_fails_is_charged(broker: Harness, waits: bool) -> None:
    limit(broker, "users", "ANONYMOUS", request_percentage="1000")
    quotas = broker.services.client_quotas

    async def failing(*asked: Any) -> list[bytes]:
        broker.clock.advance(1)
        if waits:
            await Wait()
            broker.clock.advance(1)
        raise LookupError

    timed = quotas._timing(failing)(CONTEXT, RequestHeader(ApiKey.HEARTBEAT, 1, 7, "c"), memoryview(b""))  # type: ignore[arg-type]
    if waits:
        timed.send(None)
        broker.clock.advance(60)
    with pytest.raises(LookupError):
        timed.send(None)
    bucket = quotas.quotas.of("User:ANONYMOUS", "c", 0).request
    assert bucket is not None and bucket.total == pytest.approx(200 if waits else 100)


def test_a_request_that_waits_is_closed_with_its_handler(broker: Harness) -> None:
    limit(broker, "users", "ANONYMOUS", request_percentage="1000")
    closed = []

    async def waiting(*_: Any) -> list[bytes]:
        try:
            await Wait()
        finally:
            closed.append(True)
        return [b""]

    timing = broker.services.client_quotas._timing
    timed = timing(waiting)(CONTEXT, RequestHeader(ApiKey.HEARTBEAT, 1, 7, "c"), memoryview(b""))  # type: ignore[arg-type]
    timed.send(None)
    timed.close()
    assert closed


@pytest.mark.parametrize(("percentage", "expected_ms"), [("0.000001", 5_000), ("0", 5_000)])
def test_the_longer_throttle_of_two_quotas_counts(broker: Harness, percentage: str, expected_ms: int) -> None:
    """The throttle time for a request quota is at most one sample."""
    limit(broker, "clients", "c", producer_byte_rate="10000", request_percentage=percentage)
    client = Client(broker)
    assert client.produce(100) == client.muted_ms == (1_000 if percentage == "0" else 0)
    assert client.produce(150_000) == client.muted_ms == pytest.approx(expected_ms, abs=200)


def test_new_versions_refuse_what_is_too_much(broker: Harness) -> None:
    """Observed in 3.9.1 with a rate of 1: 20 partitions immediately, then code 89 until the debt is paid."""
    limit(broker, "users", "ANONYMOUS", controller_mutation_rate="1.0")
    client = Client(broker)
    assert client.create("a", 20, 7) == (0, 7) and client.muted_ms == 0  # REQUEST_TIMED_OUT: no leader is elected
    assert client.create("b", 1, 7) == (9_000, 89) and client.muted_ms == 9_000
    assert "b" not in broker.topics.created
    broker.clock.advance(9)
    assert client.create("b", 1, 7) == (0, 7)


def test_old_versions_are_done_and_muted(broker: Harness) -> None:
    limit(broker, "users", "ANONYMOUS", controller_mutation_rate="1.0")
    client = Client(broker)
    assert client.create("a", 20, 5) == (9_000, 7)
    assert client.create("b", 5, 1) == (0, 7) and client.muted_ms == 14_000  # version 1 does not have this field


def test_deletions_and_new_partitions_count(broker: Harness) -> None:
    limit(broker, "users", "ANONYMOUS", controller_mutation_rate="1.0")
    client = Client(broker)
    broker.topics.assigned[TOPIC] = TopicAssignment({0: [0]}, None)
    create = codec.request(ApiKey.CREATE_PARTITIONS)
    grow = create(
        topics=[create.CreatePartitionsTopic(name=TOPIC, count=15, assignments=None)], timeout_ms=0, validate_only=False
    )
    assert client.ask(ApiKey.CREATE_PARTITIONS, 3, grow).throttle_time_ms == 0
    delete = codec.request(ApiKey.DELETE_TOPICS)
    removal = delete(topics=[delete.DeleteTopicState(name=TOPIC, topic_id=None)], topic_names=[TOPIC], timeout_ms=0)
    refused = client.ask(ApiKey.DELETE_TOPICS, 6, removal)
    assert (refused.throttle_time_ms, refused.responses[0].error_code) == (3_000, 89) and client.muted_ms == 3_000
    assert not broker.topics.ordered_deletions
    assert client.ask(ApiKey.DELETE_TOPICS, 4, removal).throttle_time_ms == client.muted_ms == 4_000
    assert broker.topics.ordered_deletions == [TOPIC]


def test_what_is_only_validated_costs_nothing(broker: Harness) -> None:
    limit(broker, "users", "ANONYMOUS", controller_mutation_rate="1.0")
    request = codec.request(ApiKey.CREATE_TOPICS)
    wanted = request.CreatableTopic(name="n", num_partitions=50, replication_factor=1, assignments=[], configs=[])
    client = Client(broker)
    for _ in range(2):
        answer = client.ask(ApiKey.CREATE_TOPICS, 7, request(topics=[wanted], timeout_ms=0, validate_only=True))
        assert (answer.throttle_time_ms, answer.topics[0].error_code) == (0, 0)


def test_creation_by_asking_for_metadata_takes_tokens_and_is_never_refused(broker: Harness) -> None:
    limit(broker, "users", "ANONYMOUS", controller_mutation_rate="0.01")
    request = codec.request(ApiKey.METADATA)
    for name in ("x", "y", "z"):
        asked = request(topics=[request.MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
        Client(broker).ask(ApiKey.METADATA, 9, asked)
    assert set(broker.topics.created) == {"x", "y", "z"}
    bucket = broker.services.client_quotas.quotas.of("User:ANONYMOUS", "c", 0).mutation
    assert bucket is not None and bucket.debt_ms(broker.services.client_quotas.now_ms()) > 0


def test_throttles_are_shown(broker: Harness) -> None:
    limit(broker, "clients", "c", producer_byte_rate="10000")
    Client(broker).produce(150_000)
    (usage,) = broker.services.client_quotas.quotas.usage(broker.services.client_quotas.now_ms(), 10)
    assert usage.key is QuotaKey.PRODUCE and usage.owner.client == "c"
    assert 5_000 < usage.throttle_ms < 5_100 and usage.value > 15_000
