"""Groups of commands that name the nearest command when one is not there."""

import click

from kafka_zk.cli.nearest import did_you_mean


class CommandGroup(click.Group):
    """A ``click.Group``; what click itself suggests depends on its version, and it knows no command that is lazy."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self.list_commands(ctx):
            hint = did_you_mean(args[0], self.list_commands(ctx))
            raise click.UsageError(f"no such command {args[0]!r}{hint}", ctx)
        return super().resolve_command(ctx, args)
