"""The `juju` command itself: how its parts are found, and how an error becomes one paragraph and an exit code."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from juju.cli._console import err, out
from juju.errors import JujuError

BUG = (
    "{kind}: {message} (raised at {where}). This is a defect of juju, not of your program: "
    "run the same command with --debug to see the traceback, and report it."
)


class CommandLineError(JujuError):
    """The command line: a target, an argument or a file that cannot be used as asked."""


class JujuCommand(click.Command):
    """A command that also takes `--debug`, and prints its examples as they were written."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)
        self.params.append(_debug_option())

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{' ' * formatter.current_indent}{example}\n")
        super().format_epilog(ctx, formatter)


class JujuGroup(click.Group):
    """The group that turns every error into one paragraph on stderr: exit code 1, or 2 for wrong usage."""

    command_class = JujuCommand
    group_class = type

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.append(_debug_option())

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, *rest: Any, **extra: Any) -> Any:
        arguments = list(sys.argv[1:] if args is None else args)
        extra["standalone_mode"] = False
        sys.exit(guarded(lambda: super(JujuGroup, self).main(arguments, prog_name, *rest, **extra), arguments))


def guarded(command: Callable[[], Any], arguments: Sequence[str]) -> int:
    """Runs `command`; returns the exit code, having reported whatever went wrong."""
    debug = "--debug" in arguments
    try:
        code = command()
        out().file.flush()
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        err().print(Text("interrupted"))
        return 130
    except OSError as error:
        if error.errno != errno.EPIPE:
            return _report(error, debug)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the reader of our output has gone; nothing is left to say
        return 1
    except Exception as error:
        return _report(error, debug)


def _report(error: Exception, debug: bool) -> int:
    if debug:
        err().print(Text("".join(traceback.format_exception(error)).rstrip()), soft_wrap=True)
    err().print(Text.assemble(("error: ", "bold red"), error_text(error)), soft_wrap=True)
    return 1


def error_text(error: Exception) -> str:
    """What the user reads: juju's own errors as they are, the system's with its words, anything else as our defect."""
    if isinstance(error, JujuError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = f"{Path(last[0].filename).name}:{last[0].lineno}" if last else "an unknown place"
    return BUG.format(kind=type(error).__name__, message=error, where=where)


def _debug_option() -> click.Option:
    return click.Option(["--debug"], is_flag=True, expose_value=False, help="Show the Python traceback of an error.")


def package_version(name: str) -> str:
    """The installed version of a distribution, or `not installed`."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def print_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    """`--version`: juju and what it stands on."""
    if not value or ctx.resilient_parsing:
        return
    below = ", ".join(f"{name} {package_version(name)}" for name in ("jax", "max", "mojo", "xdsl"))
    click.echo(f"juju {package_version('juju-max')} ({below}, Python {sys.version.split()[0]})")
    ctx.exit()
