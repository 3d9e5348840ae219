"""strace's output becomes counts and copied bytes."""

from tests.bench.system_calls.trace import parse, row

TRACE = """\
101 recvfrom(9, ""..., 98304, 0, NULL, NULL) = 16413
101 recvfrom(9, 0x7f, 98304, 0, NULL, NULL) = -1 EAGAIN (Resource temporarily unavailable)
101 write(12, ""..., 16400) = 16400
102 futex(0x7f, FUTEX_WAIT_PRIVATE, 0, NULL <unfinished ...>
101 sendfile(9, 13, [0] => [65536], 65536) = 65536
102 <... futex resumed>) = 0
101 pread64(13,  <unfinished ...>
101 <... pread64 resumed>""..., 100, 0) = 100
101 sendto(9, ""..., 87, MSG_NOSIGNAL, NULL, 0) = 87
101 epoll_wait(4, [{events=EPOLLIN, data=0x9}], 4, 1000) = 1
101 mmap(NULL, 4096, PROT_READ, MAP_SHARED, 13, 0) = 0x7f0000000000
101 +++ exited with 0 +++
"""


def test_only_calls_that_copy_count_bytes() -> None:
    calls = parse(TRACE.splitlines())
    assert calls.copied_bytes == 16413 + 16400 + 100 + 87
    assert calls.counts == {
        "recvfrom": 2, "write": 1, "futex": 1, "sendfile": 1, "pread64": 1, "sendto": 1, "epoll_wait": 1, "mmap": 1
    }  # fmt: skip


def test_figures_are_per_megabyte() -> None:
    shown = row("kafka-zk", "produce-16k", parse(TRACE.splitlines()), 2_000_000)
    assert shown.startswith("| produce-16k | kafka-zk | 4 | 0.02 | recvfrom 1.0, ")
