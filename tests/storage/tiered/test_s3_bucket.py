"""Segments in an S3 bucket over HTTP, and servers that fail."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import pytest

from kafka_zk.storage.tiered import bucket_store
from kafka_zk.storage.tiered.aiven_layout import AivenLayout
from kafka_zk.storage.tiered.aiven_segment_storage import AivenSegmentStorage, ChunkSettings
from kafka_zk.storage.tiered.bucket_store import BucketStore, S3Bucket, S3Credentials
from kafka_zk.storage.tiered.object_store import NoSuchObject, ObjectStoreError
from kafka_zk.storage.tiered.segment_storage import SegmentPart
from tests.peers.spark.s3 import REGION, S3, s3_server
from tests.storage.tiered.test_aiven_segment_storage import CONTENT, PARTS, PLAIN, SEGMENT, STEM, ZSTD, data

CREDENTIALS = S3Credentials("AKIAKEY", "sesame", "opensesame")
BUCKET = "tier"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with s3_server(tmp_path_factory.mktemp("s3") / "moto.log") as server:
        server.client.create_bucket(Bucket=BUCKET)
        yield server


@contextmanager
def server_that(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """The address of an HTTP server that handles every request with this function."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        do_PUT = do_POST = do_DELETE = do_GET

        def log_message(self, *arguments: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def bucket_at(endpoint: str, name: str = BUCKET, part_bytes: int = 5 << 20) -> BucketStore:
    return BucketStore.open_s3(S3Bucket(name, REGION, endpoint, True, CREDENTIALS, part_bytes))


@pytest.mark.parametrize("is_compressed", [False, True])
def test_a_segment_is_copied_to_a_bucket_and_read_back(tmp_path: Path, s3: S3, is_compressed: bool) -> None:
    settings = ZSTD if is_compressed else PLAIN
    storage, later = (AivenSegmentStorage(bucket_at(s3.endpoint), AivenLayout("p/"), settings, 2) for _ in range(2))
    storage.copy(SEGMENT, data(tmp_path))
    assert s3.keys(BUCKET, "p/") == [f"{STEM}.indexes", f"{STEM}.log", f"{STEM}.rsm-manifest"]
    assert (s3.read(BUCKET, f"{STEM}.log") == CONTENT) is not is_compressed
    assert storage.read(SEGMENT, 95, 10) == CONTENT[95:105]
    assert storage.read(SEGMENT, 1000, 500) == CONTENT[1000:]
    assert {part: storage.read_part(SEGMENT, part, 100) for part in SegmentPart} == PARTS
    for _ in range(2):
        storage.delete(SEGMENT)
    assert s3.keys(BUCKET, "p/") == []
    with pytest.raises(NoSuchObject):
        later.read(SEGMENT, 0, 1)


def test_a_large_segment_is_uploaded_in_parts(tmp_path: Path, s3: S3) -> None:
    content = CONTENT * (11 << 10)  # 11 MiB
    large = replace(SEGMENT, size_bytes=len(content))
    storage = AivenSegmentStorage(bucket_at(s3.endpoint), AivenLayout("large/"), ChunkSettings(4 << 20), 2)
    storage.copy(large, data(tmp_path, content))
    head = s3.client.head_object(Bucket=BUCKET, Key=f"large/{STEM.removeprefix('p/')}.log")
    assert head["ETag"].endswith('-3"')
    assert storage.read(large, (5 << 20) - 10, 20) == content[(5 << 20) - 10 : (5 << 20) + 10]
    storage.delete(large)


def test_a_missing_bucket_is_no_missing_object(s3: S3) -> None:
    """A deletion in a missing bucket fails, too."""
    store = bucket_at(s3.endpoint, "elsewhere")
    calls: list[Callable[[], object]] = [
        lambda: store.get("x", 1), lambda: store.get_range("x", 0, 1), lambda: store.put("x", iter((b"1",))),
        lambda: store.delete("x"), lambda: list(store.list("x/")),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(ObjectStoreError, match="NoSuchBucket") as raised:
            call()
        assert not isinstance(raised.value, NoSuchObject)


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (
            b"<Error><Code>SignatureDoesNotMatch</Code><AWSAccessKeyId>AKIAKEY</AWSAccessKeyId>"
            b"<StringToSign>sesame opensesame</StringToSign></Error>",
            "SignatureDoesNotMatch",
        ),
        (b"AKIAKEY may not do this, sesame", "… may not do this, …"),
        (b"", ""),
    ],
)
def test_a_server_that_refuses_is_one_sentence_without_secrets(
    body: bytes, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real servers repeat the access key and the string to sign."""

    def refuse(request: BaseHTTPRequestHandler) -> None:
        request.send_response(403)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    monkeypatch.setattr(bucket_store, "_RETRY_COUNT", 0)
    with server_that(refuse) as endpoint:
        store = bucket_at(endpoint)
        calls: list[Callable[[], object]] = [
            lambda: store.get("k/x", 1), lambda: store.get_range("k/x", 0, 1), lambda: store.delete("k/x"),
            lambda: store.put("k/x", iter((b"1",))), lambda: list(store.list("k/x")),
        ]  # fmt: skip
        for call in calls:
            with pytest.raises(ObjectStoreError, match=rf"k/x: .*403 Forbidden.*{shown}") as raised:
                call()
            for secret in ("AKIAKEY", "sesame", "\n", "<"):
                assert secret not in str(raised.value)


def test_a_server_that_hangs_fails_the_call_within_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library has its own deadline, so a call ends even without the broker's."""
    ended = Event()
    for name in ("_REQUEST_TIMEOUT", "_RETRY_TIMEOUT"):
        monkeypatch.setattr(bucket_store, name, timedelta(milliseconds=200))
    monkeypatch.setattr(bucket_store, "_RETRY_COUNT", 0)

    def hang(request: BaseHTTPRequestHandler) -> None:
        ended.wait(30)

    with server_that(hang) as endpoint:
        try:
            with pytest.raises(ObjectStoreError, match="x: "):
                bucket_at(endpoint).get_range("x", 0, 1)
        finally:
            ended.set()


def replying(status: int, body: bytes) -> Callable[[BaseHTTPRequestHandler], None]:
    """Reads the request, and responds."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.rfile.read(int(request.headers.get("Content-Length", 0)))
        request.send_response(status)
        request.send_header("ETag", '"1"')
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    return answer


def deletion(code: str) -> bytes:
    error = f"<Error><Key>k/x</Key><Code>{code}</Code><Message>no</Message></Error>"
    return f'<DeleteResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{error}</DeleteResult>'.encode()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b""), (404, b"<html>no such page</html>"), (404, b"<Error><Code>NoSuchBucket</Code></Error>"),
        (200, b""), (200, b"<html>log in</html>"), (200, deletion("AccessDenied")),
    ],
)  # fmt: skip
def test_an_answer_that_is_not_of_the_bucket_is_no_deletion(
    status: int, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy may send such a response. The metadata would forget the segment, and its objects would stay forever."""
    monkeypatch.setattr(bucket_store, "_RETRY_COUNT", 0)
    with server_that(replying(status, body)) as endpoint, pytest.raises(ObjectStoreError, match="k/x: "):
        bucket_at(endpoint).delete("k/x")


def test_a_server_that_reports_missing_keys_has_deleted_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_store, "_RETRY_COUNT", 0)
    with server_that(replying(200, deletion("NoSuchKey"))) as endpoint:
        bucket_at(endpoint).delete("k/x")


def test_an_upload_whose_end_is_not_confirmed_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The response to the last request was lost, and the retry finds no upload. That does not mean that an object is
    missing.
    """
    monkeypatch.setattr(bucket_store, "_RETRY_COUNT", 0)
    begun = b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"
    requests: list[str] = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        requests.append(request.command)
        is_end = request.command == "POST" and "uploads" not in request.path
        replying(404 if is_end else 200, b"<Error><Code>NoSuchUpload</Code></Error>" if is_end else begun)(request)

    with server_that(answer) as endpoint, pytest.raises(ObjectStoreError, match=r"k/x: .*NoSuchUpload") as raised:
        bucket_at(endpoint).put("k/x", iter((bytes(6 << 20),)))
    assert not isinstance(raised.value, NoSuchObject)
    assert requests == ["POST", "PUT", "PUT", "POST", "DELETE"]


@pytest.mark.parametrize("is_path_style", [True, False])
def test_the_endpoint_of_the_environment_is_not_used(is_path_style: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With such an address, the library would omit the bucket from the path, so the first folder of the key would
    become the bucket.
    """
    monkeypatch.setattr(bucket_store, "_RETRY_COUNT", 0)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://127.0.0.1:1")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")  # nothing leaves this machine
    host = "s3.eu-west-9.amazonaws.com/tier" if is_path_style else "tier.s3.eu-west-9.amazonaws.com"
    store = BucketStore.open_s3(S3Bucket(BUCKET, "eu-west-9", None, is_path_style, CREDENTIALS))
    with pytest.raises(ObjectStoreError, match=f"https://{host}/k/x"):
        store.get_range("k/x", 0, 1)


def test_secrets_are_not_printed_with_the_configuration() -> None:
    shown = repr(S3Bucket(BUCKET, REGION, credentials=CREDENTIALS))
    assert BUCKET in shown and "AKIAKEY" not in shown and "sesame" not in shown


@pytest.mark.parametrize(
    ("is_path_style", "url"), [(True, "https://s3.example:9000"), (False, "https://tier.s3.example:9000")]
)
def test_the_bucket_is_in_the_path_or_in_the_host(is_path_style: bool, url: str) -> None:
    assert S3Bucket(BUCKET, REGION, "https://s3.example:9000", is_path_style).host_url == url
