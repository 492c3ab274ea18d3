"""The command line: its commands, and the handling of errors and interrupts."""

from __future__ import annotations

import contextlib
import errno
import io
import os
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
#: How writing to a terminal, a pipe or a file that is open may fail.
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF, errno.EPIPE)
#: A width that output can have.
_COLUMNS = re.compile("0*[1-9][0-9]{0,4}")


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
    _prepare_output()
    try:
        status = app(standalone_mode=False)
    except IopeaError as error:
        _end(f"Error: {error}", 2)
    except OSError as error:
        if error.errno not in _UNWRITABLE or error.filename is not None:
            raise
        _end_output(error)
    except (KeyboardInterrupt, typer.Abort):
        _end(_INTERRUPTION, _INTERRUPTED)
    except (Exception, SystemExit) as error:
        # The class of usage errors depends on the version of Typer.
        if hasattr(error, "format_message"):
            _end(f"Error: {_usage(error)}", 2)
        from iopea.plugins import failure, is_of_plugin

        if not is_of_plugin(error):
            raise
        _end(f"Error: A plug-in failed: {failure(error)}", 2)
    else:
        if status == _INTERRUPTED:  # newer versions of Typer turn an interrupt into a status
            _end(_INTERRUPTION, _INTERRUPTED)
        _finish_output()
        sys.exit(status or 0)


def _prepare_output() -> None:
    """Let no width and no character stand in the way of output, which comes after hours of work."""
    columns = os.environ.get("COLUMNS")
    if columns is not None and not _COLUMNS.fullmatch(columns):
        del os.environ["COLUMNS"]
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _finish_output() -> None:
    """Write out what was printed, while what goes wrong can still be told."""
    try:
        if sys.stdout is not None:  # closed by the caller
            sys.stdout.flush()
    except OSError as error:
        _end_output(error)


def _end_output(error: OSError) -> None:
    """End because the output can't be written; whoever closed a pipe has read enough."""
    with contextlib.suppress(OSError):  # Python writes what is left at its end, to nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        sys.exit(1)
    _end(f"Error: Cannot write the output: {error.strerror or error}.", 2)


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
