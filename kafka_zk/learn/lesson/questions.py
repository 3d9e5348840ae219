"""The questions of the lesson's page: each asks about a concept before the cluster shows it, and explains the answer.

The terminal asks none of them.
"""

from kafka_zk.recorder.web.lesson_steps import Question

FIFTH_MEMBER = Question(
    "There are four partitions and four members. What will the fifth member do?",
    ("share a partition with another member", "stay idle, as a spare", "get a partition of its own"),
    "stay idle, as a spare",
    "Within a group, a partition has only one owner, or the order of its records would be lost. More members than "
    "partitions give a spare, not more speed.",
)
BEFORE_TAKING_OVER = Question(
    "What must happen before another member may read the partitions of the one that leaves?",
    ("nothing: both may read for a moment", "a broker must assign them", "their owner znodes must be deleted"),
    "their owner znodes must be deleted",
    "An owner znode is the claim to a partition. It can be created only once, so a member that wants the partition "
    "waits until the znode is gone. A member that leaves deletes it; if a member dies, it ends with the session.",
)
SECOND_GROUP = Question(
    "The group cats has read the topic. How many of its 20 records will the group dogs get?",
    ("all 20", "10, the other half", "none: they have been read"),
    "all 20",
    "A record is not removed when it is read. A group is a name with offsets of its own, so each group gets "
    "everything, and only the members of one group share.",
)
WHO_WAITS = Question(
    "ben had two of the six partitions when it was killed. In which group did the other four partitions wait, too?",
    ("in the eager one", "in the cooperative one", "in both"),
    "in the eager one",
    "In an eager group, every member releases all its partitions at any change, even those that it gets back a "
    "moment later. A cooperative group stops only the partitions that move.",
)
WHERE_IT_STOPS = Question(
    "Both groups are eager. In which of them will the partitions stop when a member joins?",
    ("only in the one in ZooKeeper", "only in the one at the broker", "in both"),
    "in both",
    "Whether partitions stop depends on the strategy, not on the coordinator. The coordinator changes only who "
    "notifies the members, and how many requests that takes.",
)
HOW_IT_IS_NOTICED = Question(
    "How does the controller notice that broker 1 is dead?",
    ("the followers report it", "its watch on /brokers/ids fires", "it pings every broker"),
    "its watch on /brokers/ids fires",
    "The registration of a broker is an ephemeral znode. If ZooKeeper receives nothing for the session timeout, it "
    "ends the session and deletes the znode, and that fires the watch.",
)
AFTER_ITS_RETURN = Question(
    "What will broker 1 be for its partition when it is back?",
    ("a follower", "the leader, as before", "nothing, until an operator adds it"),
    "a follower",
    "It may lack records that the new leader has accepted meanwhile. It fetches them first, and returns to the ISR; "
    "only a preferred leader election makes it the leader again.",
)
WORTH_OF_ONE = Question(
    "b was acknowledged with acks=1, and then its leader died. Can a consumer still read b?",
    ("no, b is lost", "yes, from a follower", "yes, because it was acknowledged"),
    "no, b is lost",
    "With acks=1 the leader acknowledges a record that only its own log has. The next leader continues without it, "
    "and the offset of b is given to another record.",
)
ONE_REPLICA_LEFT = Question(
    "Only one of three replicas is left, and min.insync.replicas is 2. What happens to a record with acks=all?",
    ("it is acknowledged", "it is refused", "it waits until a broker returns"),
    "it is refused",
    "The ISR is smaller than min.insync.replicas, so the leader cannot promise a second copy: it responds with "
    "NOT_ENOUGH_REPLICAS. Consumers can still read.",
)
NOBODY_OF_THE_ISR = Question(
    "The whole ISR is dead, and broker 0, which is not in it, returns. Who leads the partition?",
    ("broker 0", "no broker", "the broker that died last"),
    "no broker",
    "Only a replica of the ISR has every record that was acknowledged with acks=all. The partition waits for it, "
    "unless unclean elections are allowed.",
)
OLD_RECORDS = Question(
    "Broker 1 returns with b and c, which the new leader does not have. What happens to them?",
    ("broker 1 removes them", "the new leader copies them", "they stay on broker 1 only"),
    "broker 1 removes them",
    "The log of a follower must equal that of its leader. With an unclean election, an operator therefore gives up "
    "acknowledged records.",
)
DURING_THE_PAUSE = Question(
    "Broker 0 is the controller and is paused for longer than its session timeout. Who is the controller meanwhile?",
    ("another broker", "still broker 0", "no broker until broker 0 wakes"),
    "another broker",
    "ZooKeeper cannot tell a pause from a death. The session ends, /controller is deleted with it, and the first "
    "broker to create it again is the controller, with a higher epoch.",
)
LATE_ORDERS = Question(
    "Will the late orders of the old controller be obeyed?",
    ("yes, both", "only the one to broker 2", "no, neither"),
    "no, neither",
    "Each write is made together with a check of the version of /controller_epoch, and each request carries the "
    "epoch. The new controller has increased it, so ZooKeeper and the brokers refuse anything older.",
)
ONE_RECORD_TOO_MANY = Question(
    "Broker 1 will return with c, which the new leader never had. What happens to c?",
    ("it is copied to the others", "broker 1 truncates its log and removes it", "it stays on broker 1 only"),
    "broker 1 truncates its log and removes it",
    "c was beyond the high watermark: no other replica had it. The leader responds with the offset at which the last "
    "common leader epoch ends in its own log, and the follower truncates its log to that offset.",
)
LOGGED_IN = Question(
    "Alice has logged in with the right password. May she write to the topic?",
    ("yes, her password is right", "no, nothing allows it yet", "yes, but only slowly"),
    "no, nothing allows it yet",
    "A login proves an identity but gives no rights. With an authorizer, everything that no ACL allows is denied, "
    "except to super users.",
)
HEARS_OF_AN_ACL = Question(
    "The ACL is added through one broker. How does the leader of the topic learn of it?",
    ("a watch of its own fires", "it asks ZooKeeper at each request", "the controller sends it"),
    "a watch of its own fires",
    "Every broker watches the znode of ACL notifications and keeps the ACLs in memory. It decides about a request "
    "without asking ZooKeeper.",
)
