"""User names of Kerberos principals, as Kafka's KerberosShortNamer@3.9 finds them."""

import pytest

from kafka_zk.security.errors import InvalidSecurity
from kafka_zk.security.kerberos_names import KerberosNames, NoUserName

REALM = "REALM.COM"


def user(principal: str, *rules: str) -> str:
    return KerberosNames(rules, REALM).user(principal)


@pytest.mark.parametrize(
    ("principal", "rules", "expected"),
    [
        ("alice@REALM.COM", [], "alice"),
        ("alice/host.com@REALM.COM", ["DEFAULT"], "alice"),
        ("App.name/example.com@REALM.COM", ["RULE:[1:$1](App\\..*)s/App\\.(.*)/$1/g", "DEFAULT"], "App.name"),
        ("App.name@REALM.COM", ["RULE:[1:$1](App\\..*)s/App\\.(.*)/$1/g", "DEFAULT"], "name"),
        ("alice@OTHER.COM", ["RULE:[1:$1@$0](.*@OTHER.COM)s/@.*//", "DEFAULT"], "alice"),
        ("alice/admin@REALM.COM", ["RULE:[2:$1-$2]"], "alice-admin"),
        ("alice/admin@REALM.COM", ["RULE:[2:$2](admin)s/^.*$/root/"], "root"),
        ("alice@REALM.COM", ["RULE:[1:$1]/U"], "ALICE"),
        ("Alice@REALM.COM", ["RULE:[1:$1]/L"], "alice"),
        ("banana@REALM.COM", ["RULE:[1:$1]s/a/o/"], "bonana"),
        ("banana@REALM.COM", ["RULE:[1:$1]s/a/o/g"], "bonono"),
        ("alice@REALM.COM", ["RULE:[1:$1]s/(a)(l)/$2$1/L"], "laice"),
    ],
)  # fmt: skip
def test_the_first_rule_that_applies_names_the_user(principal: str, rules: list[str], expected: str) -> None:
    assert user(principal, *rules) == expected


@pytest.mark.parametrize(
    ("principal", "rules"),
    [
        ("alice@OTHER.COM", []),  # the default rule applies to the own realm
        ("alice/admin@REALM.COM", ["RULE:[1:$1]"]),  # a rule for principals with one component
        ("alice@REALM.COM", ["RULE:[1:$1@$0]"]),  # a user name with @
        ("alice/admin@REALM.COM", ["RULE:[2:$1/$2]"]),  # a user name with /
        ("alice@REALM.COM", ["RULE:[1:$1]s/.*//"]),  # an empty user name
        ("alice", []),
        ("alice@", []),
        ("алиса@REALM.COM", [r"RULE:[1:$1](\w+)"]),
        (r"a\/b@REALM.COM", []),  # one component that contains /
        (r"a\@b@REALM.COM", []),
        ("a/b/c@REALM.COM", []),
    ],
)
def test_a_principal_without_a_user_name_is_refused(principal: str, rules: list[str]) -> None:
    with pytest.raises(NoUserName):
        user(principal, *rules)


@pytest.mark.parametrize(
    "rule",
    ["", "default", "RULE:[1:$1", "RULE:[1:$1]s/a/b", "RULE:[1:$1](a", "RULE:[x:$1]", "RULE:[1:$2]", "RULE:[3:$1]",
     "RULE:[1:$1]([)", "RULE:[1:$1]s/a/$1/", "RULE:[1:$1]/X", "DEFAULT DEFAULT"],
)  # fmt: skip
def test_a_rule_that_is_none_refuses_the_start(rule: str) -> None:
    with pytest.raises(InvalidSecurity, match=r"principal\.to\.local\.rules"):
        KerberosNames([rule], REALM)
