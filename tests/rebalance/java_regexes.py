"""Regular expressions in Java's dialect, some invalid, and topic names to try them on."""

from __future__ import annotations

import random

TOPIC_NAMES = (
    "t1", "t2", "t10", "T1", "orders", "orders-eu", "orders.us", "payments", "a.b", "a_b", "logs_1", "logs_22", "a",
    "aa", "ab", "abab", "aab", "x-y-x", "1", "-", "_", ".", "a]b", "__consumer_offsets",
)  # fmt: skip
REGEXES = (
    "t1", "t1,t2", " t1 , t2 ", "'t1'", "\"t1|t2\"", "''t1", "t.*", "orders[-.].*", ".*", "", "|", "t1|", "(t|a).*",
    r"a\.b", r"\w+", r"\W", r"\d+", r"\D+", r"\p{Alpha}+", r"\p{Lower}\p{Digit}", r"[\p{Upper}\d]+", r"\P{Alpha}+",
    r"[\P{Alpha}]+", r"\Qa.b\E", r"\Qa.b", r"a\Q.\Eb", r"\Q\E", r"[\Qab\E]+", r"\Aa.*\z", r"^a.*$", r"a.*\Z",
    r"\bt1\b", "(?i)T1", "(?i)t[0-9]+", "(?i:T)1", "t(?i)1", "(?x)t 1", "(?s)t.", "(?d)t1", "(?u)t1",
    "(?<n>a)b\\k<n>b", r"(a)b\1b", r"(a)\11", r"(a)\2", r"\1(a)", r"(a)|\1b", "(?:a|ab)(?:b|)", "a(?=b).*",
    "a(?!b).*", ".*(?<=b)", ".*(?<!b)", "(?>a*)ab", "a*+b", "a++b", "a?+ab", "a{2}", "a{1,}b", "a{1,2}+b", "a{,2}",
    "a{", "a{x}", "{2}", "a{2}{3}", "a{2}*", "a}", "a**", "*a", "a|*", "+", "(a", "a)", "[a", "a]b", "[]a]+",
    "[^]a]+", "[]", "[^]", "[^a]+", "[a-]+", "[-a]+", "[a^]+", "[z-a]", "[a-b[1-2]]+", "[a-z&&[^a]]+", "[a&&b]",
    "[a&b]+", "[a||b]+", "[a--b]", "[+--]", "[a~~b]+", r"[\w.]+", r"[\]a]+", r"[a\-z]+", r"[\Aa]", r"[\b]", r"\x61",
    r"\x6", "\\u0061.*", r"\u61", r"\x{61}", r"\0141", r"\01", r"\0", r"\cA", r"\e", r"\t", r"\h", r"\R", r"\X",
    r"\G.*", r"\N{DIGIT ONE}", r"\y", r"\_", r"\-", "\\", r"a\\", "(?#a)b", "(?P<n>a)", "(?<1>a)", "(?<a_b>a)", "(?",
    "(?)", "(?i)", "(?-i)a", "(?i", "a(?#", "(?<n>a)(?<n>b)", r"\k<n>", "(a*)*b", "(a|b)*?", r"\p{L}+", r"\pL+",
    r"\p{IsAlphabetic}+", r"\p{Punct}", r"\p{ASCII}+", "a#b", "t1;t2", "ä", r"\ä", "a{99999999999}", "(a?){2}b",
    "^*a", "$a", "(?=a)*a", "(^a|b)+", r"a\E", r"[a\E]", "[[:alpha:]]+", "[a-\\d]+", r"[\d-a]+", r"[\d-]+",
)  # fmt: skip

#: The expressions that Java accepts and we reject, because Python cannot express them or they have no practical use.
REFUSED = (
    r"[\P{Alpha}]+", "t(?i)1", "(?x)t 1", "(?d)t1", "(?u)t1", r"(a)\11", r"(a)\2", r"\1(a)", "{2}", "a{2}{3}",
    "[a-b[1-2]]+", "[a-z&&[^a]]+", "[a&&b]", r"\x{61}", r"\0141", r"\01", r"\cA", r"\e", r"\t", r"\h", r"\R", r"\X",
    r"\G.*", "(?)", "(?-i)a", r"\p{L}+", r"\pL+", r"\p{IsAlphabetic}+", r"\ä", "^*a", "[[:alpha:]]+", r"[\d-a]+",
)  # fmt: skip

_PIECES = (
    "a", "b", "t", "1", ".", r"\.", "-", "_", "|", ",", " ", "(", ")", "(?:", "(?i)", "(?!", "[", "]", "[a-b", "[^",
    "^", "$", "*", "+", "?", "{2}", "{1,2}", "{", "&&", "\\", r"\d", r"\w", r"\b", r"\1", r"\Q", r"\E", r"\p{Alpha}",
    "(?<n>",
)  # fmt: skip


def random_regex(rng: random.Random) -> str:
    """Returns pieces in any order; most results are still valid."""
    return "".join(rng.choice(_PIECES) for _ in range(rng.randint(1, 7)))
