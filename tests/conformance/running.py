"""Running harnesses: all of a file are compiled together when the first one runs, and compared with `jax.jit`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax import lax
from support import assert_same

import juju
from conformance.harnesses import arguments, is_wide

TOLERANCE = {"float16": 2e-3, "bfloat16": 1e-2, "float32": 2e-5, "float64": 1e-11}
"""Largest difference from jax.jit in parts of the largest value; both may be off from the truth."""


def tolerance(results: Any) -> float:
    """What the dtypes of some results allow."""
    return max((TOLERANCE.get(str(leaf.dtype), 0.0) for leaf in jax.tree_util.tree_leaves(results)), default=0.0)


class Runner:
    """Harnesses by name, compiled at first use."""

    def __init__(self, harnesses: dict[str, Any]) -> None:
        self.harnesses = harnesses
        self._done: dict[str, Any] | None = None

    def compiled(self, name: str) -> Any:
        """The compiled harness. Raises what went wrong."""
        if self._done is None:
            lowered, failed = {}, {}
            for key, harness in self.harnesses.items():
                with jax.enable_x64(is_wide(harness)):
                    try:
                        lowered[key] = juju.fuse(harness.dyn_fun, name=harness.group_name).lower(*arguments(harness))
                    except Exception as error:
                        failed[key] = error
            done = juju.compile_all(list(lowered.values()), return_exceptions=True)
            self._done = {**failed, **dict(zip(lowered, done, strict=True))}
        found = self._done[name]
        if isinstance(found, Exception):
            raise found
        return found

    def check(self, name: str) -> None:
        """The results are those of `jax.jit`."""
        harness = self.harnesses[name]
        args = arguments(harness)
        with jax.enable_x64(is_wide(harness)):
            got = self.compiled(name).call_flat([jax.numpy.asarray(x) for x in args])
            want = jax.jit(reference(harness))(*args)
            assert_same(got, want, ulp=4, scale=tolerance(want))


def reference(harness: Any) -> Callable[..., Any]:
    """What a harness is compared with: itself, but where it leaves the order of equal elements open, a stable sort."""
    if harness.params.get("is_stable", True):
        return harness.dyn_fun
    dimension, keys = harness.params["dimension"], harness.params["num_keys"]
    return lambda *args: list(lax.sort(args, dimension=dimension, num_keys=keys, is_stable=True))
