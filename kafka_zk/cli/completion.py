"""``kafka-zk completion``: the script with which a shell completes commands, options and their values."""

import click

VARIABLE = "_KAFKA_ZK_COMPLETE"
"""The variable that click derives from the program's name; a shell's script sets it to ask for completions."""
SHELLS = ("bash", "zsh", "fish")


@click.command("completion", short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the script with which SHELL completes commands, options and their values.

    The shell runs it when it starts. Completion asks kafka-zk, but never a broker or ZooKeeper.

    \b
    bash, in ~/.bashrc:                     eval "$(kafka-zk completion bash)"
    zsh, in ~/.zshrc after compinit:        eval "$(kafka-zk completion zsh)"
    fish, in ~/.config/fish/config.fish:    kafka-zk completion fish | source
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    root = click.get_current_context().find_root()
    click.echo(kind(root.command, {}, "kafka-zk", VARIABLE).source())
