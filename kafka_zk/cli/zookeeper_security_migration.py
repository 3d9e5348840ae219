"""``kafka-zk zookeeper-security-migration``: sets the ZooKeeper ACLs of existing znodes."""

import click

from kafka_zk.cli.terminal.options import json_option, zk_tls_config_option

_NO_IDENTITY = (
    "no identity for the znodes: give a file with --zk-tls-config-file that has java.security.auth.login.config, "
    "zookeeper.ssl.keystore.location or zookeeper.auth.digest, the same as the brokers have"
)


@click.command("zookeeper-security-migration", short_help="Protect existing znodes with ACLs, or open them.")
@click.option(
    "--zookeeper.acl",
    "wanted",
    type=click.Choice(["secure", "unsecure"]),
    required=True,
    help="secure: only the brokers' identity may change the znodes. unsecure: everyone may.",
)
@click.option(
    "--zookeeper.connect",
    "servers",
    metavar="HOST:PORT[,...][/CHROOT]",
    default="localhost:2181",
    show_default=True,
    help="The ZooKeeper of the cluster.",
)
@click.option("--enable.path.check", "path_check", is_flag=True, help="Fail if one of Kafka's znodes is missing.")
@click.option("--dry-run", is_flag=True, help="Show each znode and the ACL that it would get; change nothing.")
@zk_tls_config_option
@json_option
def command(wanted: str, servers: str, path_check: bool, dry_run: bool, as_json: bool) -> None:
    """Give all znodes of a cluster the ACLs that zookeeper.set.acl=true gives to new ones, or open them, as Kafka's
    zookeeper-security-migration.sh does; but no missing znode is created. It can be repeated at any time.

    \b
    To secure a cluster:
      1. restart its brokers one by one with an identity (a login file or a key store)
      2. restart them with zookeeper.set.acl=true
      3. kafka-zk zookeeper-security-migration --zookeeper.acl secure
           --zookeeper.connect zk:2181/kafka --zk-tls-config-file zk.properties
    To open it again:
      1. restart its brokers with zookeeper.set.acl=false
      2. the same command with --zookeeper.acl unsecure
    """
    from dataclasses import replace

    from kafka_zk.cli.terminal.errors import CommandFailed
    from kafka_zk.cli.terminal.options import zookeeper_properties
    from kafka_zk.cli.terminal.output import note, print_json, say
    from kafka_zk.cli.terminal.zookeeper_client import zookeeper_session
    from kafka_zk.recorder.timeline.names import counted
    from kafka_zk.registry import znode_acls
    from kafka_zk.registry.client.kazoo_blocking import run_blocking
    from kafka_zk.registry.client.security_keys import zookeeper_security

    security = replace(zookeeper_security(zookeeper_properties()), set_acl=wanted == "secure")
    if not security.has_identity:
        raise CommandFailed(_NO_IDENTITY)
    with zookeeper_session(servers, security) as client:
        if missing := run_blocking(znode_acls.missing_roots(client)):
            warning = f"{servers} has no {', '.join(missing)}: is the chroot right?"
            if path_check:
                raise CommandFailed(f"{warning} Nothing was changed.")
            note(warning)
        if not dry_run:
            count = run_blocking(znode_acls.reset_acls(client))
            if as_json:
                print_json({"acl": wanted, "znodes": count})
            else:
                say(f"{counted(count, 'znode')} {'is' if count == 1 else 'are'} {wanted} now.")
            return

        async def show() -> None:
            async for paths in znode_acls.kafka_znodes(client):
                for path in paths:
                    acl = security.acl(path).value
                    if as_json:
                        print_json({"path": path, "acl": acl})
                    else:
                        say(f"{path}  {acl}")

        run_blocking(show())
