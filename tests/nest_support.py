"""Hand-made nests as text: from MLIR to a function of arrays, all of a file built together."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
from jax.core import ShapedArray

from juju._lower import Lowering, make_plan
from juju.build import Built, build_kernels
from juju.dialect import parse_text
from juju.dialect._xdsl import make_context
from juju.dialect.types import DTYPES, element_of, shape_of
from juju.engines import max as max_engine
from juju.passes import PASSES
from juju.plan import Plan


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


@dataclass
class Runner:
    """A built function: call it with arrays, through the engine or in pieces of its launches."""

    plan: Plan
    units: dict[str, Built]
    avals: list[ShapedArray]

    def __post_init__(self) -> None:
        self.run = max_engine.load(self.plan, [self.units[kernel.key] for kernel in self.plan.kernels], [], self.avals)

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        return [np.asarray(x) for x in self.run(arrays)]

    def in_pieces(self, arrays: Sequence[np.ndarray], points: int) -> list[np.ndarray]:
        """Launches in pieces of so many points, the last first."""
        arrays = [np.ascontiguousarray(a) for a in arrays]
        buffers = [
            arrays[buffer.index] if buffer.kind == "operand" else np.zeros(buffer.shape, buffer.dtype)
            for buffer in self.plan.buffers
        ]
        for launch in self.plan.launches:
            words = [buffers[b].ctypes.data for b in launch.buffers] + list(launch.sizes)
            args = (ctypes.c_int64 * len(words))(*words)
            address = self.units[self.plan.kernels[launch.kernel].key].address()
            kernel = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(address)
            for lo in reversed(range(0, launch.extent, points)):
                assert kernel(args, lo, min(lo + points, launch.extent)) == 0
        return [buffers[b] for b in self.plan.results]


def build(texts: Sequence[str]) -> list[Runner]:
    """Each function as one of arrays; their kernels are compiled in one go."""
    plans = [plan_of(text) for text in texts]
    kernels = {kernel.key: kernel for plan, _ in plans for kernel in plan.kernels}
    units = dict(zip(kernels, build_kernels(list(kernels.values())), strict=True))
    return [Runner(plan, units, avals) for plan, avals in plans]


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
