"""`juju codegen`: what a function becomes, at every stage between jaxpr and machine code."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
from rich.rule import Rule

from juju.cli._arguments import Call, find_call
from juju.cli._console import Waiting, note, out, print_code
from juju.cli._group import JujuCommand
from juju.cli._target import Target, load_target, user_error
from juju.errors import JujuError

STAGES = ("jaxpr", "mlir", "mojo", "graph", "llvm", "asm")
SUFFIXES = {"jaxpr": ".jaxpr", "mlir": ".mlir", "mojo": ".mojo", "graph": ".graph.mlir", "llvm": ".ll", "asm": ".s"}
COMMENTS = {"jaxpr": "#", "mlir": "//", "mojo": "#", "graph": "//", "llvm": ";", "asm": "#"}


class Stages(click.ParamType):
    """`mojo`, `mojo,asm` or `all`."""

    name = "STAGE"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "STAGE[,STAGE...]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if not isinstance(value, str):
            return tuple(value)
        stages = STAGES if value == "all" else tuple(part.strip() for part in value.split(","))
        for stage in stages:
            if stage not in STAGES:
                self.fail(f"{stage!r} is none of {', '.join(STAGES)}, all", param, ctx)
        return stages


@click.command(
    cls=JujuCommand,
    examples=(
        "juju codegen model.py:gelu --args 'f32[1024]'",
        "juju codegen model.py:loss --args '{\"w\": f32[3, 4]}, f32[8, 3]' --emit mlir,mojo",
        "juju codegen package.module:f --emit asm -o build/",
        "juju codegen model.py:annotated --dim n=4096 --static 'mode=fast'",
    ),
)
@click.argument("target")
@click.option(
    "--emit",
    "emitted",
    type=Stages(),
    multiple=True,
    help=f"What to show: {', '.join(STAGES)} or all; may be given several times.  [default: mojo]",
)
@click.option("--args", "text", metavar="SHAPES", help="Arguments to trace with, such as 'f32[1024], f32[]'.")
@click.option("--static", "statics", multiple=True, metavar="NAME=VALUE", help="A static keyword argument.")
@click.option("--dim", "sizes", multiple=True, metavar="NAME=SIZE", help="The size of a named axis in annotations.")
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write one file for each stage into this folder instead of stdout.",
)
def codegen(
    target: str,
    emitted: Sequence[Sequence[str]],
    text: str | None,
    statics: Sequence[str],
    sizes: Sequence[str],
    folder: Path | None,
) -> None:
    """Show what the function TARGET is compiled to.

    TARGET is path/to/file.py:name or package.module:name. It need not be decorated with juju.fuse.

    The shapes of its arguments come from --args; else from example_args= on the decorator; else from jaxtyping
    annotations such as Float[Array, "n 3"]. Nothing is run. graph, llvm and asm need the Mojo compiler (seconds).
    """
    stages = list(dict.fromkeys(stage for group in emitted for stage in group)) or ["mojo"]
    chosen = load_target(target)
    call = find_call(chosen, text, statics, sizes)
    for message in call.notes:
        note(message)
    lowered = lower(chosen, call)
    if folder is None:
        _show(chosen, {stage: "\n\n".join(stage_texts(lowered, stage)) for stage in stages})
    else:
        _write(chosen, {stage: stage_texts(lowered, stage) for stage in stages}, folder)


def lower(target: Target, call: Call) -> Any:
    """Traces and lowers the target.

    Raises:
        CommandLineError: the user's function raised something.
        JujuError: juju cannot compile it.
    """
    import juju

    function: Any = target.function
    if not target.fused:
        function = juju.fuse(function, static_argnames=tuple(call.static))
    try:
        return function.lower(*call.args, **call.kwargs, **call.static)
    except JujuError:
        raise
    except Exception as error:
        raise user_error(target, error) from error


def stage_texts(lowered: Any, stage: str) -> list[str]:
    """The text of a stage; of `mojo`, `llvm` and `asm`, which are files for a compiler, one for each kernel."""
    if stage == "mojo" and lowered.kernels:
        return [kernel.text for kernel in lowered.kernels]
    if stage in ("llvm", "asm") and lowered.kernels:
        from juju.build import emit

        with Waiting(f"compiling {len(lowered.kernels)} kernel{'s'[: len(lowered.kernels) > 1]} to {stage}"):
            return [emit(kernel, stage) for kernel in lowered.kernels]
    with Waiting("building the graph") if stage == "graph" else nullcontext():
        return [lowered.as_text(stage)]


def _show(target: Target, texts: dict[str, str]) -> None:
    console = out()
    for number, (stage, text) in enumerate(texts.items()):
        if len(texts) > 1 and console.is_terminal:
            console.print(Rule(f"{stage}: {target.name}"))
        elif len(texts) > 1:
            click.echo(f"{'' if number == 0 else chr(10)}{COMMENTS[stage]} ---- {stage}: {target.name} ----")
        print_code(text, stage)


def _write(target: Target, texts: dict[str, list[str]], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for stage, parts in texts.items():
        for number, text in enumerate(parts):
            which = f"_{number}" if len(parts) > 1 else ""
            path = folder / f"{target.file_stem}{which}{SUFFIXES[stage]}"
            path.write_text(text if text.endswith("\n") else text + "\n", encoding="utf-8")
            click.echo(str(path))
