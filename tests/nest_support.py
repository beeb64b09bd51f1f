"""Hand-made nests as text: from MLIR to a function of arrays, all of a file built together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace

import numpy as np
from jax.core import ShapedArray

from juju._lower import Lowering, make_plan
from juju.build import build_kernels
from juju.dialect import parse_text
from juju.dialect._xdsl import make_context
from juju.dialect.types import DTYPES, element_of, shape_of
from juju.engines import max as max_engine
from juju.passes import PASSES
from juju.plan import Plan

Run = Callable[..., list[np.ndarray]]


def plan_of(text: str) -> tuple[Plan, list[ShapedArray]]:
    """The plan of the one function of a module, outlined and not otherwise changed, and the types of its results."""
    module = parse_text(text)
    PASSES["juju-outline-kernels"]().apply(make_context(), module)
    module.verify()
    function = next(iter(module.ops))
    operands = list(function.body.block.args)
    traced = SimpleNamespace(name=function.sym_name.data, program=SimpleNamespace(operands=operands))
    returned = [v.type for v in function.body.block.last_op.operands]
    avals = [ShapedArray(shape_of(ty), np.dtype(DTYPES[element_of(ty)])) for ty in returned]
    return make_plan(traced, Lowering(module, ())), avals


def build(texts: Sequence[str]) -> list[Run]:
    """Each function as one that takes and returns arrays; their kernels are compiled in one go."""
    plans = [plan_of(text) for text in texts]
    kernels = {kernel.key: kernel for plan, _ in plans for kernel in plan.kernels}
    units = dict(zip(kernels, build_kernels(list(kernels.values())), strict=True))

    def runner(plan: Plan, avals: list[ShapedArray]) -> Run:
        run = max_engine.load(plan, [units[kernel.key] for kernel in plan.kernels], [], avals)

        def call(*arrays: np.ndarray) -> list[np.ndarray]:
            return [np.asarray(x) for x in run(arrays)]

        call.raw = run
        return call

    return [runner(plan, avals) for plan, avals in plans]


def nest(
    space: Sequence[int],
    operands: Sequence[tuple[str, str]],
    results: Sequence[tuple[str, str]],
    body: str,
    *,
    reduced: Sequence[int] = (),
    name: str = "f",
) -> str:
    """A function of one nest. Operands and results are (type, map) pairs such as `("4x8xf32", "d0, d1")`.

    An operand whose map is `whole` is read by `juju.read`. In `body` operands are `%x0`, `%x1`, ..., and it ends in the
    names of the values it yields after `yield`.
    """
    dims = ", ".join(f"d{d}" for d in range(len(space)))
    kinds = ", ".join('"reduction"' if d in reduced else '"parallel"' for d in range(len(space)))
    maps = ", ".join(f"affine_map<({dims}) -> ({'' if m == 'whole' else m})>" for _, m in (*operands, *results))
    tensors = [f"tensor<{ty}>" for ty, _ in operands]
    outs = [f"tensor<{ty}>" for ty, _ in results]
    elements = [t if m == "whole" else ty.rpartition("x")[2] for (ty, m), t in zip(operands, tensors, strict=True)]
    args = ", ".join(f"%x{n}: {e}" for n, e in enumerate(elements))
    params = ", ".join(f"%a{n}: {t}" for n, t in enumerate(tensors))
    ins = f"ins({', '.join(f'%a{n}' for n in range(len(tensors)))} : {', '.join(tensors)}) " if tensors else ""
    lines, _, yielded = body.rpartition("yield")
    bounds = "array<i64" + (f": {', '.join(map(str, space))}>" if space else ">")
    names = [f"%r{n}" for n in range(len(outs))]
    head = f"{', '.join(names)} = " if len(outs) == 1 else f"%r:{len(outs)} = "
    returned = names if len(outs) == 1 else [f"%r#{n}" for n in range(len(outs))]
    kinds_out = ", ".join(ty.rpartition("x")[2] for ty, _ in results)
    block = f"^bb0({args}):" if args else "^bb0:"
    return f"""
func.func @{name}({params}) -> ({", ".join(outs)}) {{
  {head}juju.nest {bounds} [{kinds}] maps [{maps}] {ins}{{
  {block}
{lines}
    juju.yield {yielded.strip()} : {kinds_out}
  }} : {", ".join(outs)}
  func.return {", ".join(returned)} : {", ".join(outs)}
}}
"""
