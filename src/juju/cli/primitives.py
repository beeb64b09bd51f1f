"""`juju primitives`: which JAX primitives are compiled, for which dtypes, and where their rules are."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Sequence
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from juju.cli._console import out
from juju.cli._group import CommandLineError, JujuCommand

FIELDS = ("primitive", "dtypes", "accuracy", "file", "line")
FAMILIES = {
    "floats": "bfloat16 float16 float32 float64",
    "ints": "int8 int16 int32 int64",
    "uints": "uint8 uint16 uint32 uint64",
}
UNKNOWN = "juju has no rule for {names}{hint}; `juju primitives` lists those it has"


@click.command(
    cls=JujuCommand,
    short_help="List the JAX primitives that are compiled.",
    examples=("juju primitives", "juju primitives tanh exp2", "juju primitives --json | jq '.[].primitive'"),
)
@click.argument("names", nargs=-1, metavar="[PRIMITIVE]...")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of objects.")
def primitives(names: Sequence[str], as_json: bool) -> None:
    """List the JAX primitives that juju compiles, with dtypes, accuracy and the place of their rule."""
    rows = table_rows(names)
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    console = out()
    if not console.is_terminal:
        for row in rows:
            click.echo("\t".join((row["primitive"], row["dtypes"], row["accuracy"], f"{row['file']}:{row['line']}")))
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in ("primitive", "dtypes", "accuracy", "rule"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        place = Text(f"{_short(row['file'])}:{row['line']}", style=f"link file://{os.path.abspath(row['file'])}")
        table.add_row(row["primitive"], _short_dtypes(row["dtypes"]), row["accuracy"], place)
    console.print(table)
    console.print(f"{len(rows)} primitives", style="dim")


def table_rows(names: Sequence[str]) -> list[dict[str, Any]]:
    """The rows for `names`, or all of them, sorted by name.

    Raises:
        CommandLineError: one of them has no rule.
    """
    from juju.rules import primitives as all_primitives

    rows = [_row(row) for row in all_primitives()]
    known = {row["primitive"] for row in rows}
    if missing := [name for name in names if name not in known]:
        close = difflib.get_close_matches(missing[0], sorted(known), n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise CommandLineError(UNKNOWN.format(names=", ".join(map(repr, missing)), hint=hint))
    chosen = [row for row in rows if not names or row["primitive"] in names]
    return sorted(chosen, key=lambda row: (row["primitive"], row["dtypes"]))


def _row(row: Any) -> dict[str, Any]:
    values = {field: getattr(row, field) for field in FIELDS}
    if not isinstance(values["dtypes"], str):
        values["dtypes"] = " ".join(map(str, values["dtypes"]))
    values["accuracy"] = str(values["accuracy"] or "")
    values["file"] = str(values["file"])
    return values


def _short(file: str) -> str:
    head, separator, tail = file.rpartition(f"{os.sep}juju{os.sep}")
    return f"juju{os.sep}{tail}" if separator and head else file


def _short_dtypes(dtypes: str) -> str:
    """Whole families of dtypes by one word."""
    names = dtypes.split()
    for family, members in FAMILIES.items():
        if set(members.split()) <= set(names):
            names = [name for name in names if name not in members.split()] + [family]
    return " ".join(names)
