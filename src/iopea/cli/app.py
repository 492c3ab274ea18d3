"""The command line: its commands, and the handling of errors and interrupts."""

from __future__ import annotations

import re
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import iopea
from iopea.cli.backtest import backtest
from iopea.cli.bench import bench
from iopea.cli.check_order import check_order
from iopea.cli.compare import compare
from iopea.cli.fit import fit
from iopea.cli.learn import learn
from iopea.cli.learners import learners
from iopea.cli.reproduce import reproduce
from iopea.cli.validate import validate
from iopea.cli.warmup import warmup
from iopea.errors import IopeaError, shown, unknown

#: Exit status after an interrupt, by the convention of shells, and the message.
_INTERRUPTED = 130
_INTERRUPTION = "Interrupted: no report was written."


class _Commands(TyperGroup):
    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command by its name; for an unknown one, the nearest is suggested."""
        if cmd_name not in self.commands:
            raise unknown("command", cmd_name, self.commands)
        return super().get_command(ctx, cmd_name)


app = typer.Typer(
    cls=_Commands,
    help="Learn an operating policy online from partial observations.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    # Otherwise Typer loads Pydantic to look for a --help before COMMAND.
    context_settings={"default_map": {"help": False}},
)
app.command()(learn)
app.command()(learners)
app.command()(fit)
app.command()(backtest)
app.command("check-order")(check_order)
app.command()(warmup)
app.command()(bench)
app.command()(reproduce)
app.command()(compare)
app.command()(validate)


@app.callback(invoke_without_command=True)
def _without_command(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(iopea.__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """Run the command line; an error is one sentence on stderr and exit status 2."""
    try:
        status = app(standalone_mode=False)
    except IopeaError as error:
        _end(f"Error: {error}", 2)
    except (KeyboardInterrupt, typer.Abort):
        _end(_INTERRUPTION, _INTERRUPTED)
    except Exception as error:
        # The class of usage errors depends on the version of Typer.
        if not hasattr(error, "format_message"):
            raise
        _end(f"Error: {_usage(error)}", 2)
    else:
        if status == _INTERRUPTED:  # newer versions of Typer turn an interrupt into a status
            _end(_INTERRUPTION, _INTERRUPTED)
        sys.exit(status or 0)


def _usage(error: Any) -> str:
    """The sentence for a usage error of Typer; long parts of what was typed are shortened."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoSuchOption" and context is not None:
        known = {name for each in context.command.params for name in (*each.opts, "--help")}
        return str(unknown("option", error.option_name, known))
    message = re.sub(r"\S{80,}", lambda long: shown(long[0])[1:-1], error.format_message())
    if context is None:
        return message
    return f"{message.rstrip('.')}: see {context.command_path} --help."


def _end(message: str, status: int) -> None:
    typer.echo(message, err=True)
    sys.exit(status)
