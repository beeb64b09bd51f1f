"""The one module with private names of jax and jaxlib: each guarded, with a public way to the same result.

The private ways are there for speed (`jax.dlpack.from_dlpack` takes 25 us, this import 3), or because the public one
copies (an array that is not committed, a weak type). `PRIVATE` says which of them this jaxlib has.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core as jex

try:
    from jaxlib._jax import dlpack_managed_tensor_to_buffer as _import_tensor  # pyright: ignore[reportMissingImports]
except ImportError:
    _import_tensor = None
try:
    from jaxlib._jax import ArrayImpl as _ArrayImpl  # pyright: ignore[reportMissingImports]
except ImportError:
    _ArrayImpl = None
try:
    from jaxlib._jax import array_result_handler as _result_handler  # pyright: ignore[reportMissingImports]
except ImportError:
    _result_handler = None
try:
    from jax._src.config import trace_context as _trace_context
except ImportError:
    _trace_context = None
try:
    from jax._src.core import trace_state_clean as _trace_state_clean
except ImportError:
    _trace_state_clean = None

Device: TypeAlias = Any
"""`jax.Device`, which type checkers do not see as a type."""

PRIVATE = {
    "import": _import_tensor is not None,
    "pointer": _ArrayImpl is not None,
    "handler": _result_handler is not None,
    "trace_context": _trace_context is not None,
    "trace_state_clean": _trace_state_clean is not None,
}

CONFIG = (
    "jax_enable_x64",
    "jax_threefry_partitionable",
    "jax_numpy_dtype_promotion",
    "jax_numpy_rank_promotion",
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_softmax_custom_jvp",
    "jax_random_seed_offset",
    "jax_disable_jit",
    "jax_use_simplified_jaxpr_constants",
)
"""Public options that change what a function traces to."""


class _Producer:
    """What `jax.dlpack.from_dlpack` takes: an object that hands out a DLPack capsule of CPU memory once."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def public_import(capsule: Any, device: Device, stream: None) -> jax.Array:
    """`adopt` by public functions."""
    return jax.device_put(jax.dlpack.from_dlpack(_Producer(capsule)), device)


adopt: Callable[[Any, Device, None], jax.Array] = _import_tensor if _import_tensor is not None else public_import
"""`adopt(capsule, device, None)`: the memory of a DLPack capsule as a committed jax array on a CPU device.

Nothing is copied if the memory is aligned to 64 bytes.
"""


def holder(dtype: Any) -> Callable[[jax.Array], Any]:
    """A function that waits until an array of this dtype is computed, and returns what keeps its memory.

    The memory then stays whatever other threads do to the array, `delete()` and donation included. (The capsule of
    `__dlpack__` does not do that: jaxlib 0.10 aborts the process when an array with one is deleted.) It raises
    `RuntimeError` or `BufferError` if the array was deleted.
    """
    return np.asarray if np.dtype(dtype).name == "bfloat16" else memoryview  # pyright: ignore[reportReturnType]


public_pointer: Callable[[jax.Array], int] = operator.methodcaller("unsafe_buffer_pointer")

pointer: Callable[[jax.Array], int] = _ArrayImpl.unsafe_buffer_pointer if _ArrayImpl is not None else public_pointer
"""The address of an array's memory. Does not wait until it is computed; raises for what is not a jax array."""


def public_finisher(aval: Any, device: Device, committed: bool) -> Callable[[jax.Array], jax.Array]:
    """`finisher` by public functions; it copies unless the result is committed and strong."""
    if aval.weak_type:
        # A function compiled for a weak type takes strong arrays as well, and returns weak ones.
        sharding = jax.sharding.SingleDeviceSharding(device) if committed else None
        weak = jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=True, sharding=sharding)
        with jax.default_device(device):
            weaken = jax.jit(lambda x: x).lower(weak).compile()

    def finish(array: jax.Array) -> jax.Array:
        if not committed:
            with jax.default_device(device):
                array = jnp.array(np.asarray(array))
        return weaken(array) if aval.weak_type else array

    return finish


def finisher(aval: Any, device: Device, committed: bool) -> Callable[[jax.Array], jax.Array]:
    """What makes of an adopted array one with this aval, weak type included, that is committed to `device` or not.

    finish = finisher(jax.core.ShapedArray((2,), "float32", weak_type=True), jax.devices()[0], committed=False)
    array = finish(adopt(capsule, jax.devices()[0], None))
    """
    if _result_handler is None:
        return public_finisher(aval, device, committed)
    sharding = jax.sharding.SingleDeviceSharding(device)
    try:
        return _result_handler(aval, sharding, committed, _skip_checks=True)
    except TypeError:  # jaxlib 0.12 has no checks to skip
        return _result_handler(aval, sharding, committed)


_public_context = operator.attrgetter(*CONFIG)


def public_trace_context() -> Hashable:
    """`trace_context` by public functions: the options of `CONFIG`; knows nothing of a mesh in `jax.set_mesh`."""
    return _public_context(jax.config)


trace_context: Callable[[], Hashable] = _trace_context if _trace_context is not None else public_trace_context
"""Everything outside its arguments that decides what a function traces to, as a value with `==` and `hash`."""

_CLEAN_STATE = jex.get_opaque_trace_state(convention="flax")


def public_trace_state_clean() -> bool:
    """`trace_state_clean` by public functions."""
    return jex.get_opaque_trace_state(convention="flax") == _CLEAN_STATE


trace_state_clean: Callable[[], bool] = _trace_state_clean or public_trace_state_clean
"""False under `jit`, `grad`, `vmap` and every other transformation."""
