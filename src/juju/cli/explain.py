"""`juju explain`: what became one kernel, what did not, why, and what bounds its time."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click
from rich.text import Text

from juju.cli._arguments import find_call
from juju.cli._console import Waiting, note, out
from juju.cli._group import JujuCommand
from juju.cli._target import load_target
from juju.cli.codegen import lower
from juju.debug.explain_text import paragraphs
from juju.debug.limits import known_limits, measure_limits
from juju.errors import UnsupportedPrimitive

LEFT = "{name}: no kernel; the whole function is left to jax.jit, as fallback='jax' allows\n"


@click.command(
    cls=JujuCommand,
    short_help="Show what became one kernel, and why.",
    examples=(
        "juju explain model.py:softmax --args 'f32[4096, 1024]'",
        "juju explain model.py:loss --args '{\"w\": f32[3, 4]}, f32[8, 3]'",
        "juju explain package.module:f --json | jq '.steps[].notes'",
        "juju explain model.py:annotated --dim n=4096 --static 'mode=fast'",
    ),
)
@click.argument("target")
@click.option("--args", "text", metavar="SHAPES", help="Arguments to trace with, such as 'f32[1024], f32[]'.")
@click.option("--static", "statics", multiple=True, metavar="NAME=VALUE", help="A static keyword argument.")
@click.option("--dim", "sizes", multiple=True, metavar="NAME=SIZE", help="The size of a named axis in annotations.")
@click.option("--measure", is_flag=True, help="Measure the limits of this machine again.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def explain(
    target: str, text: str | None, statics: Sequence[str], sizes: Sequence[str], measure: bool, as_json: bool
) -> None:
    """Show what the function TARGET becomes: its kernels, and why they are that many.

    For each kernel: the lines of yours it computes and the JAX operations they are, the arrays it reads and writes,
    what it waits for in memory, what it computes again rather than read it, its operations and bytes, and the least
    time these could take on this machine. Nothing is compiled.

    The machine is measured once, which takes a second: how fast it copies, and how many multiply-adds it makes. TARGET
    and the arguments are given as for juju codegen.
    """
    chosen = load_target(target)
    call = find_call(chosen, text, statics, sizes)
    for message in call.notes:
        note(message)
    lowered = lower(chosen, call)
    limits = None if measure else known_limits()
    if limits is None:
        with Waiting("measuring this machine"):
            limits = measure_limits()
    try:
        explanation = lowered.explain(limits)
    except UnsupportedPrimitive as error:
        if getattr(chosen.function, "_fallback", None) != "jax":
            raise
        _left_to_jax(chosen.name, error, as_json)
        return
    if as_json:
        click.echo(json.dumps(explanation.as_dict(), indent=1))
    else:
        out().print(Text.assemble(*paragraphs(explanation)), end="", soft_wrap=True, highlight=False)


def _left_to_jax(name: str, error: UnsupportedPrimitive, as_json: bool) -> None:
    """What is said of a function that runs through `jax.jit`, because of these primitives."""
    if as_json:
        offenders = [{"primitive": o.primitive, "where": o.where, "why": o.why} for o in error.offenders]
        click.echo(json.dumps({"name": name, "steps": [], "left_to_jax": offenders}, indent=1))
        return
    click.echo(LEFT.format(name=name), nl=False)
    for offender in error.offenders:
        click.echo(f"  {offender.primitive} at {offender.where}: {offender.why}")
