"""A consumer id begins with its group's name."""

from kafka_zk.recorder.web.group_members import group_of_member, zookeeper_groups


def test_a_member_belongs_to_the_group_with_the_longest_name() -> None:
    groups = zookeeper_groups(("/consumers", "/consumers/g", "/consumers/g_h/ids/g_h_anna", "/brokers/ids"))
    assert groups == {"g", "g_h"}
    found = [group_of_member(each, groups) for each in ("g_h_anna", "g_ben_1", "x_ben", "g", "g_")]
    assert found == ["g_h", "g", "", "", "g"]
