"""The dialect, evaluated with NumPy: what rules and passes are compared with, and what they are tested through.

Every value of a nest's body is an array with one axis for each loop, of extent 1 where the value does not depend on the
loop. Scalar operations are JAX's primitives, evaluated one by one; NumPy does the rest.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.extend.core.primitives as jex_primitives
import jax.numpy as jnp
import numpy as np
from support import _assert_values
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, TensorType, i1
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from juju._trace import trace
from juju.dialect.body import CumulateOp, ExtentOp, IndexOp, ReadOp, ReduceOp, WeaveOp
from juju.dialect.ops import ConstOp, KernelOp, NestOp, ReshapeOp, ScalarOp, YieldOp, param_values
from juju.dialect.types import DTYPES, INDEX, element_of, shape_of
from juju.rules import lower_program

Env = dict[SSAValue, np.ndarray]


class OutOfBounds(Exception):
    """A computed read, or a read at a map, leaves its array."""


Passes = Callable[[ModuleOp], Any] | None
"""Rewrites a module in place."""


def interpret(f: Callable[..., Any], *args: Any, passes: Passes = None) -> Any:
    """`f(*args)` by the rules and this interpreter; `passes` may rewrite the module in between."""
    traced = trace(f, args, {}, name="f")
    module = lower_program(traced.program).module
    if passes is not None:
        passes(module)
        module.verify()
    operands = [*jax.tree_util.tree_leaves(args), *(x for _, x in traced.program.constants)]
    avals = [v.aval for v in (*traced.program.operands, *(v for v, _ in traced.program.constants))]
    arrays = [np.asarray(x).astype(aval.dtype) for x, aval in zip(operands, avals, strict=True)]
    return jax.tree_util.tree_unflatten(traced.out_tree, evaluate(module, arrays))


def assert_interpreted(
    f: Callable[..., Any], *args: Any, ulp: float = 0, scale: float = 0, x64: bool = True, passes: Passes = None
) -> None:
    """The rules of `f` mean what `jax.jit` computes: structure, dtypes, shapes and values."""
    with jax.enable_x64(x64):
        args = jax.tree_util.tree_map(jnp.asarray, args)
        want = jax.jit(f)(*args)
        got = interpret(f, *args, passes=passes)
    assert jax.tree_util.tree_structure(got) == jax.tree_util.tree_structure(want)
    for (path, g), w in zip(jax.tree_util.tree_leaves_with_path(got), jax.tree_util.tree_leaves(want), strict=True):
        where = jax.tree_util.keystr(path)
        assert (g.dtype, g.shape) == (w.dtype, w.shape), f"{where}: {g.dtype}{g.shape}, not {w.dtype}{w.shape}"
        _assert_values(where, g, np.asarray(w), ulp, scale, False)


def evaluate(module: ModuleOp, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of the module's function."""
    function = next(op for op in module.ops if isinstance(op, FuncOp))
    block = function.body.block
    with jax.enable_x64(True), np.errstate(all="ignore"):
        env = dict(zip(block.args, arrays, strict=True))
        return _statements(block.ops, env)


def _statements(ops: Any, env: Env) -> list[np.ndarray]:
    for op in ops:
        if isinstance(op, (ReturnOp, YieldOp)):
            return [env[v] for v in op.operands]
        ins = [env[v] for v in op.operands]
        if isinstance(op, NestOp):
            outs = _Nest(op).run(ins)
        elif isinstance(op, KernelOp):
            outs = _statements(op.body.block.ops, dict(zip(op.body.block.args, ins, strict=True)))
        elif isinstance(op, ReshapeOp):
            outs = [ins[0].reshape(shape_of(op.result.type))]
        else:
            raise NotImplementedError(f"the interpreter does not know {op.name}")
        for result, value in zip(op.results, outs, strict=True):
            assert (value.shape, value.dtype) == (shape_of(result.type), numpy_dtype(element_of(result.type)))
            env[result] = value
    raise AssertionError("a block without an end")


def numpy_dtype(element: Attribute) -> np.dtype:
    return np.dtype(np.int64) if element == INDEX else jnp.dtype(DTYPES[element])


class _Nest:
    """One nest under evaluation."""

    def __init__(self, nest: NestOp) -> None:
        self.nest = nest
        self.space = nest.space
        self.rank = len(nest.space)
        self.empty = 0 in nest.space
        self.grid = [
            np.arange(n).reshape([-1 if d == k else 1 for k in range(self.rank)]) for d, n in enumerate(self.space)
        ]

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        nest, env = self.nest, {}
        for arg, array, amap in zip(nest.body.block.args, arrays, nest.in_maps(), strict=True):
            whole = isinstance(arg.type, TensorType)
            env[arg] = array if whole else self.element(array, [self.position(e) for e in amap.results])
        results = self.body(nest.body.block.ops, env)
        return [
            v if isinstance(y.owner, WeaveOp) else self.written(v, m, t.type)
            for v, y, m, t in zip(results, nest.yielded(), nest.out_maps(), nest.outs, strict=True)
        ]

    def body(self, ops: Any, env: Env) -> list[np.ndarray]:
        for op in ops:
            if isinstance(op, YieldOp):
                return [env[v] for v in op.operands]
            outs = self.operation(op, [env[v] for v in op.operands], env)
            if isinstance(op, WeaveOp):
                env[op.result] = outs[0]
                continue
            for result, value in zip(op.results, outs, strict=True):
                assert value.dtype == numpy_dtype(result.type), f"{op.name}: {value.dtype}, not {result.type}"
                env[result] = value
        raise AssertionError("a body without a yield")

    def operation(self, op: Operation, ins: list[np.ndarray], env: Env) -> list[np.ndarray]:
        if isinstance(op, ScalarOp):
            return [scalar(op, ins)]
        if isinstance(op, ConstOp):
            value = op.value.value.data
            truth = isinstance(op.value, IntegerAttr) and op.result.type == i1
            return [self.uniform(np.asarray(value != 0 if truth else value), numpy_dtype(op.result.type))]
        if isinstance(op, ExtentOp):
            return [self.uniform(np.asarray(op.number), np.dtype(np.int64))]
        if isinstance(op, IndexOp):
            return [self.grid[op.loop]]
        if isinstance(op, ReadOp):
            return [self.read(op, env)]
        if isinstance(op, ReduceOp):
            return self.reduce(op, env)
        if isinstance(op, CumulateOp):
            return [self.cumulate(op, env[op.x])]
        if isinstance(op, WeaveOp):
            return [np.stack([np.broadcast_to(x, self.space) for x in ins], -1)]
        raise NotImplementedError(f"the interpreter does not know {op.name}")

    def uniform(self, value: np.ndarray, dtype: np.dtype) -> np.ndarray:
        return value.astype(dtype).reshape([1] * self.rank)

    def position(self, expr: AffineExpr) -> np.ndarray:
        """An affine expression at every point."""
        found = np.asarray(expr.eval(self.grid, []))
        return found.reshape([1] * self.rank) if found.ndim == 0 else found

    def element(self, array: np.ndarray, indices: list[np.ndarray], mask: np.ndarray | None = None) -> np.ndarray:
        """`array` at indices; where `mask` is false, zero."""
        if not indices and mask is None:
            return array.reshape([1] * self.rank)
        shape = np.broadcast_shapes((1,) * self.rank, *(i.shape for i in indices), () if mask is None else mask.shape)
        wanted = np.ones(shape, bool) if mask is None else np.broadcast_to(mask, shape)
        inside = np.ones(shape, bool)
        for index, extent in zip(indices, array.shape, strict=True):
            inside &= (index >= 0) & (index < extent)
        if not self.empty and (wanted & ~inside).any():
            raise OutOfBounds(f"{self.nest.ins} of shape {array.shape} read at {[i.tolist() for i in indices]}")
        result = np.zeros(shape, array.dtype)
        safe = wanted & inside
        result[safe] = array[tuple(np.broadcast_to(i, shape)[safe] for i in indices)]
        return result

    def read(self, op: ReadOp, env: Env) -> np.ndarray:
        mask = None if op.mask is None else env[op.mask]
        return self.element(env[op.array], [env[i] for i in op.indices], mask)

    def full(self, x: np.ndarray, loops: Sequence[int]) -> np.ndarray:
        """`x` with the extents of `loops`."""
        return np.broadcast_to(x, [n if d in loops else x.shape[d] for d, n in enumerate(self.space)])

    def reduce(self, op: ReduceOp, env: Env) -> list[np.ndarray]:
        loops = self.nest.reduced
        kind = op.kind.data
        xs = [self.full(env[v], loops) for v in op.elements]
        if kind in ("argmax", "argmin"):
            return [self.argument(kind, xs[0]).astype(numpy_dtype(op.results[0].type))]
        if kind != "general":
            return [combine(kind, xs[0], loops)]
        assert op.combine is not None
        totals = [env[v] for v in op.firsts]
        for point in itertools.product(*(range(self.space[d]) for d in loops)):
            at = dict(zip(loops, point, strict=True))
            place = tuple(slice(at[d], at[d] + 1) if d in at else slice(None) for d in range(self.rank))
            inner = dict(zip(op.combine.block.args, [*totals, *(x[place] for x in xs)], strict=True))
            totals = self.body(op.combine.block.ops, {**env, **inner})
        return totals

    def argument(self, kind: str, x: np.ndarray) -> np.ndarray:
        """The place along the one reduction loop that is longer than 1."""
        long = [d for d in self.nest.reduced if self.space[d] != 1]
        assert len(long) <= 1, "argmax along several loops"
        kept = tuple(1 if d in self.nest.reduced else n for d, n in enumerate(x.shape))
        if not long or not x.size:
            return np.zeros(kept, np.int64)
        return getattr(np, kind)(_comparable(x), axis=long[0], keepdims=True)

    def cumulate(self, op: CumulateOp, x: np.ndarray) -> np.ndarray:
        long = [d for d in self.nest.reduced if self.space[d] != 1]
        assert len(long) <= 1, "a running total along several loops"
        if not long:
            return x
        x = self.full(x, long)
        x = np.flip(x, long) if op.reverse is not None else x
        wide = x.astype(np.float32) if x.dtype.itemsize == 2 and jnp.issubdtype(x.dtype, jnp.floating) else x
        total = _ufunc(op.kind.data, wide).accumulate(wide, axis=long[0], dtype=wide.dtype).astype(x.dtype)
        total = _zeros_in_order(op.kind.data, total, x, lambda m: np.logical_or.accumulate(m, axis=long[0]))
        return np.flip(total, long) if op.reverse is not None else total

    def written(self, value: np.ndarray, amap: Any, ty: Attribute) -> np.ndarray:
        loops = [e.position for e in amap.results]
        assert loops == sorted(loops), "results are written in the order of loops"
        value = self.full(value, loops)
        assert all(value.shape[d] == 1 for d in range(self.rank) if d not in loops), "a result changes along a loop"
        return np.ascontiguousarray(value).reshape(shape_of(ty))


def combine(kind: str, x: np.ndarray, loops: Sequence[int]) -> np.ndarray:
    """A reduction by an operation of the table; 16-bit floats are added and multiplied in float32."""
    axes = tuple(loops)
    wide = x.astype(np.float32) if x.dtype.itemsize == 2 and jnp.issubdtype(x.dtype, jnp.floating) else x
    ufunc = _ufunc(kind, wide)
    total = ufunc.reduce(wide, axis=axes, keepdims=True, dtype=wide.dtype, initial=identity(kind, wide.dtype))
    return _zeros_in_order(kind, total.astype(x.dtype), x, lambda m: m.any(axis=axes, keepdims=True))


def identity(kind: str, dtype: np.dtype) -> Any:
    """What a reduction of nothing gives."""
    if kind in ("max", "min"):
        low = kind == "max"
        if dtype.kind == "b":
            return not low
        if jnp.issubdtype(dtype, jnp.floating):
            return -np.inf if low else np.inf
        return np.iinfo(dtype).min if low else np.iinfo(dtype).max
    if kind == "and":
        return dtype.type({"b": 1, "i": -1}.get(dtype.kind, np.iinfo(dtype).max if dtype.kind == "u" else 0))
    return dtype.type({"add": 0, "mul": 1, "or": 0, "xor": 0}[kind])


def _ufunc(kind: str, x: np.ndarray) -> np.ufunc:
    if x.dtype == bool:
        kind = {"add": "or", "max": "or", "mul": "and", "min": "and"}.get(kind, kind)
        return {"or": np.logical_or, "and": np.logical_and, "xor": np.logical_xor}[kind]
    named = {"mul": np.multiply, "max": np.maximum, "min": np.minimum}
    named |= {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "logaddexp": np.logaddexp}
    return named.get(kind, np.add)


def _zeros_in_order(
    kind: str, total: np.ndarray, x: np.ndarray, some: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """The greatest of zeros is +0 if there is one, the least -0; NumPy takes either."""
    if kind not in ("max", "min") or not jnp.issubdtype(x.dtype, jnp.floating):
        return total
    wanted = (x == 0) & (np.signbit(x) == (kind == "min"))
    zero = np.asarray(0.0 if kind == "max" else -0.0, x.dtype)
    return np.where((total == 0) & some(wanted), zero, total)


def _comparable(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float32) if x.dtype.itemsize == 2 and jnp.issubdtype(x.dtype, jnp.floating) else x


# ---------------------------------------------------------------------------------------------------------------------
# Scalar operations.

_LAX = {
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "not": "bitwise_not",
    "add_any": "add",
}

_INDEX: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "div": lambda x, y: np.sign(x) * np.sign(y) * (np.abs(x) // np.abs(y)),
    "rem": np.fmod,
    "neg": np.negative,
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
"""Operations on indices, for which JAX has no dtype."""


def scalar(op: ScalarOp, ins: list[np.ndarray]) -> np.ndarray:
    """A row of the table on arrays."""
    name = op.ROW.name
    ins = list(np.broadcast_arrays(*ins))
    if name == "select":
        which, *cases = ins
        # As in JAX's lowering, an index beyond the cases takes the nearest.
        place = np.clip(which.astype(np.int64), 0, len(cases) - 1)
        return np.take_along_axis(np.stack(cases), place[None], axis=0)[0]
    if name == "bitcast":
        return np.ascontiguousarray(ins[0]).view(numpy_dtype(op.result.type))
    if op.operands[0].type == INDEX and name != "convert":
        return np.asarray(_INDEX[name](*ins))
    return _by_length(_function(op), ins)


def _function(op: ScalarOp) -> Callable[..., Any]:
    """JAX's function of a row."""
    name, params = op.ROW.name, param_values(op)
    if name == "convert":
        return functools.partial(jax.lax.convert_element_type, new_dtype=numpy_dtype(op.result.type))
    if name.startswith("round_half"):
        method = jax.lax.RoundingMethod(0 if name == "round_half_away" else 1)
        return functools.partial(jax.lax.round, rounding_method=method)
    if op.operands[0].type == i1:
        name = {"add": "or", "add_any": "or", "mul": "and"}.get(name, name)  # JAX's rows, which lax refuses
    function = getattr(jax.lax, _LAX.get(name, name), None)
    if function is None:
        primitive = getattr(jax.lax, op.ROW.primitive, None) or getattr(jex_primitives, op.ROW.primitive)
        function = primitive.bind
    return functools.partial(function, **params)


def _by_length(f: Callable[..., Any], ins: list[np.ndarray]) -> np.ndarray:
    """`f` on arrays of rank 1 and of few different lengths, for each of which JAX compiles anew."""
    size = ins[0].size
    padded = [np.resize(np.ravel(x), 1 << max(6, (size - 1).bit_length())) if size else np.ravel(x) for x in ins]
    return np.asarray(f(*padded))[:size].reshape(ins[0].shape)
