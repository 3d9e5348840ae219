"""Hypothesis strategies for values of the wire protocol."""

from typing import Any

from hypothesis import strategies as st

from kafka_zk.protocol.errors import ErrorCode

int8 = st.integers(-(2**7), 2**7 - 1)
int16 = st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
duration_ms = st.integers(0, 2**31 - 1)
timestamp_ms = st.one_of(st.just(-1), st.integers(0, 4102444800000))
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
long_text = st.one_of(text, st.integers(100, 300).map(lambda size: "x" * size))
records = st.one_of(st.none(), st.binary(max_size=300))
error_code = st.sampled_from([int(code) for code in ErrorCode])
uuid_bytes = st.binary(min_size=16, max_size=16).filter(any)


def lists(elements: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(elements, max_size=3)
