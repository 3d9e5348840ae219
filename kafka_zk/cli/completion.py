"""``kafka-zk completion``: prints a shell's script for completing commands, options and their values."""

import click

VARIABLE = "_KAFKA_ZK_COMPLETE"
"""The variable that a shell's script sets to request completions. Click derives its name from the program's name."""
SHELLS = ("bash", "zsh", "fish")


@click.command("completion", short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print SHELL's script for completing commands, options and their values.

    Add the line below to your shell's startup file. Completion runs kafka-zk, but never contacts a broker or ZooKeeper.

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
