"""Tables that fit the terminal."""

from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.cli.groups.groups import COLUMNS, MEMBER_COLUMNS
from kafka_zk.cli.terminal.table import SHORTEST, fitted, plain, shortened

OWNER = "readers_mac.local-1763815123456-1a2b3c4d-0"
MEMBER = "a-service-with-a-name-0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"


def test_what_fits_is_one_line_of_headers() -> None:
    assert fitted(("topic", "lag"), [["greetings", "3"], ["t", "12"]], 80).header == ["TOPIC      LAG"]
    assert plain(("topic", "lag"), [["greetings", "3"]]) == ["TOPIC      LAG", "greetings  3"]


def test_a_group_fits_80_columns_and_keeps_every_word_whole() -> None:
    rows = [["readers", "zookeeper", "greetings", str(n), "14", "20", "6", f"{OWNER}{n}"] for n in range(2)]
    layout = fitted(COLUMNS, rows, 80)
    assert layout.above == ["GROUP readers", "TYPE zookeeper", "TOPIC greetings"]
    assert layout.header == [
        "           CURRENT-  LOG-END-",
        "PARTITION  OFFSET    OFFSET    LAG  OWNER",
    ]
    assert layout.rows[1] == f"1          14        20        6    {shortened(OWNER + '1', 43)}"
    assert layout.left_out == []


def test_members_at_a_broker_fit_80_columns_with_host_and_client_id() -> None:
    hosts = ["192.168.100.101", "192.168.100.102"]
    rows = [
        ["readers", "broker", "greetings", str(n), "14", "20", "6", f"{n}{MEMBER}", host, f"a-service-with-a-name-{n}"]
        for n, host in enumerate(hosts)
    ]
    layout = fitted((*COLUMNS, *MEMBER_COLUMNS), rows, 80)
    assert layout.left_out == []
    assert max(map(len, [*layout.header, *layout.rows])) <= 80


def test_columns_that_find_no_room_are_named() -> None:
    rows = [["a" * 40, "b" * 40, "c" * 40], ["d" * 40, "e" * 40, "f" * 40]]
    layout = fitted(("one", "two", "three"), rows, 30)
    assert (layout.header, layout.left_out) == (["ONE             TWO"], ["THREE"])
    assert layout.rows[0] == f"{shortened('a' * 40, 14)}  {shortened('b' * 40, 14)}"


def test_a_long_text_keeps_its_begin_and_its_end() -> None:
    assert shortened("readers_host-123-0", 9) == "read…23-0"


texts = st.text(alphabet="abc-_.1", max_size=30)


@given(
    st.integers(1, 8).flatmap(
        lambda count: st.tuples(
            st.lists(st.text(alphabet="ab-_", min_size=1, max_size=SHORTEST), min_size=count, max_size=count),
            st.lists(st.lists(texts, min_size=count, max_size=count), max_size=5),
        )
    ),
    st.integers(20, 120),
)
def test_no_line_is_wider_than_the_terminal(table: tuple[list[str], list[list[str]]], width: int) -> None:
    layout = fitted(*table, width)
    assert all(len(line) <= width for line in (*layout.above, *layout.header, *layout.rows))
    assert len(layout.rows) == len(table[1])
