"""`juju cache`: what is in the store, and how to fill or empty it."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from rich.table import Table

from juju.cli._console import BuildProgress, bytes_text, out
from juju.cli._group import CommandLineError, JujuGroup

if TYPE_CHECKING:
    from juju.build import StoreEntry

NO_TERMINAL = "nothing was removed: there is no terminal to ask on; to remove {what}, say --yes"


@click.group(cls=JujuGroup)
def cache() -> None:
    """Look at, fill or clear the store of compiled kernels.

    It is in your cache directory; JUJU_CACHE_DIR moves it.
    """


@cache.command(examples=("juju cache ls", "juju cache ls --kind kernel", "juju cache ls --json | jq '.[].path'"))
@click.option("--kind", type=click.Choice(["kernel", "plan", "package", "graph"]), help="Only entries of this kind.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of objects.")
def ls(kind: str | None, as_json: bool) -> None:
    """List what is in the store for the installed toolchain, newest first."""
    from juju.build import default_store

    entries = [entry for entry in default_store().entries() if kind in (None, entry.kind)]
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(entry) for entry in entries], indent=1, default=str))
    elif out().is_terminal:
        _table(entries)
    else:
        for entry in entries:
            click.echo("\t".join((entry.kind, entry.name, entry.key, str(entry.bytes), str(entry.path))))


@cache.command(examples=("juju cache stats", "juju cache stats --json"))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def stats(as_json: bool) -> None:
    """Say where the store is and how much is in it, and how much memory results may keep for reuse.

    From Python, juju.cache_stats() says the same, with the pool of the running process.
    """
    from juju import cache_stats

    both = cache_stats()
    found, pool = both.store, both.pool
    if as_json:
        figures = {**dataclasses.asdict(both), "store": {**dataclasses.asdict(found), "bytes": found.bytes}}
        click.echo(json.dumps(figures, indent=1, default=str))
        return
    rows = [
        ("directory", str(found.root)),
        ("toolchain", found.fingerprint),
        ("kernels", f"{found.kernels}, {bytes_text(found.kernel_bytes)}"),
        ("plans", f"{found.plans}, {bytes_text(found.plan_bytes)}"),
        ("graphs", f"{found.graphs}, {bytes_text(found.graph_bytes)}"),
        ("packages", f"{found.packages}, {bytes_text(found.package_bytes)}"),
        ("other toolchains", bytes_text(found.other_bytes)),
        ("total", bytes_text(found.bytes)),
        ("result pool", f"at most {bytes_text(pool.limit)} kept for reuse, in each process"),
    ]
    for name, value in rows:
        click.echo(f"{name:<17} {value}")


@cache.command(examples=("juju cache warm", "RUN juju cache warm    # in a Dockerfile"))
def warm() -> None:
    """Compile what every function needs once on a machine: the launcher, and the packages in kernels/.

    What is there already is left alone.
    """
    from juju._resources import resource_dir
    from juju.build import helper_package
    from juju.engines.trampoline import graph_file, trampoline

    names = sorted(path.parent.name for path in resource_dir("kernels").glob("*/__init__.mojo"))
    with BuildProgress() as progress:
        for name in names:
            helper_package(name, progress=progress)
        trampoline(progress)
        graph_file(progress)
    click.echo(f"ready: {', '.join(names)}, and the launcher")


@cache.command(examples=("juju cache clear", "juju cache clear --yes"))
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def clear(yes: bool) -> None:
    """Remove everything juju has compiled. Other processes may go on; they compile again what they miss."""
    from juju.build import default_store

    store = default_store()
    found = store.stats()
    what = f"{bytes_text(found.bytes)} in {found.root}"
    if not yes:
        if not sys.stdin.isatty():
            raise CommandLineError(NO_TERMINAL.format(what=what))
        click.confirm(f"Remove {what}?", abort=True, err=True)
    click.echo(f"removed {bytes_text(store.clear())} from {found.root}")


def _table(entries: Sequence[StoreEntry]) -> None:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("kind")
    table.add_column("name", overflow="fold")
    table.add_column("key", no_wrap=True)
    table.add_column("size", justify="right")
    table.add_column("age", justify="right")
    now = time.time()
    for entry in entries:
        table.add_row(entry.kind, entry.name, entry.key[:16], bytes_text(entry.bytes), age_text(now - entry.created))
    out().print(table)
    out().print(f"{len(entries)} entries, {bytes_text(sum(entry.bytes for entry in entries))}", style="dim")


def age_text(seconds: float) -> str:
    """`90000` as `1 d`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return "now"
