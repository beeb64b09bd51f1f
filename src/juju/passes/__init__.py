"""Passes over the dialect, one a file; the file name is the pass name."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination
from xdsl.transforms.dead_code_elimination import DeadCodeElimination

from juju.dialect import make_context
from juju.passes.collapse import CollapsePass
from juju.passes.flatten import FlattenPass
from juju.passes.fuse import FusePass
from juju.passes.interchange import InterchangePass
from juju.passes.outline_kernels import OutlineKernelsPass
from juju.passes.settle import SettlePass
from juju.passes.simplify import SimplifyPass
from juju.passes.split import SplitPass
from juju.passes.unroll import UnrollPass
from juju.passes.weave import WeavePass

PASSES: dict[str, type[ModulePass]] = {
    cls.name: cls
    for cls in (
        CommonSubexpressionElimination,
        DeadCodeElimination,
        FlattenPass,
        UnrollPass,
        FusePass,
        WeavePass,
        SimplifyPass,
        SettlePass,
        CollapsePass,
        SplitPass,
        InterchangePass,
        OutlineKernelsPass,
    )
}
"""Every pass `juju-opt` knows, by name."""

PIPELINE = (
    "cse",
    "juju-flatten",
    "juju-unroll",
    "juju-fuse",
    "juju-weave",
    "juju-simplify",
    "juju-settle",
    "juju-collapse",
    "juju-split",
    "juju-interchange",
    "cse",
    "dce",
    "juju-outline-kernels",
)
"""What a function goes through between its rules and its Mojo text."""


def run_pipeline(module: ModuleOp, *, after: Callable[[str, ModuleOp], None] | None = None) -> None:
    """Runs `PIPELINE` in place; `after(name, module)` is called behind each pass. The result is verified."""
    ctx = make_context()
    for name in PIPELINE:
        PASSES[name]().apply(ctx, module)
        if after is not None:
            after(name, module)
    module.verify()
