"""ssl.principal.mapping.rules: the cases of Kafka's SslPrincipalMapperTest, and users' complaints."""

import pytest

from kafka_zk.security.errors import InvalidSecurity
from kafka_zk.security.principal_mapping import PrincipalMapper

RULES = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U, RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, DEFAULT"
)


@pytest.mark.parametrize(
    ("name", "user"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_the_first_rule_that_fits_decides(name: str, user: str) -> None:
    assert PrincipalMapper(RULES).user(name) == user


@pytest.mark.parametrize(
    ("rules", "name", "user"),
    [
        ("DEFAULT", "CN=a", "CN=a"),
        ("", "CN=a", "CN=a"),
        (r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/,DEFAULT", r"CN=Tkac\, Adam,OU=ITZ", r"Tkac\, Adam"),
        ("RULE:^CN=(.*?),OU=Eng.*$/$1/U,DEFAULT", "CN=alice,OU=Eng,O=x", "ALICE"),
        ("RULE:^(.)(.)(.).*$/$13$4/", "abcd", "a3$4"),
        (r"RULE:^CN=(.*)$/$1\/x/", "CN=a", "a/x"),
        ("RULE:^CN=(.*?),.*$/$1/", "O=x", None),
    ],
)
def test_replacements_are_those_of_java(rules: str, name: str, user: str | None) -> None:
    assert PrincipalMapper(rules).user(name) == user


@pytest.mark.parametrize(
    "rules", ["RULE:", "RULE:^CN/", "RULE:^CN=(.*?)/$1/UL", "RULE:[/x/", "DEFAULT RULE:a/b/", "default", "DEFAULT/L"]
)
def test_rules_of_another_form_are_refused(rules: str) -> None:
    with pytest.raises(InvalidSecurity, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalMapper(rules)
