"""juju compiles JAX functions into fused Mojo kernels and runs them on MAX.

import jax.numpy as jnp, juju

@juju.fuse
def f(x, y):
    return jnp.sin((x + y) ** 2)
"""

from juju import errors as errors
from juju._fuse import Fused as Fused
from juju._fuse import fuse as fuse
from juju._stages import Compiled as Compiled
from juju._stages import Lowered as Lowered
from juju._stages import compile_all as compile_all
from juju._stats import CacheStats as CacheStats
from juju._stats import cache_stats as cache_stats
from juju.errors import ArgumentError as ArgumentError
from juju.errors import ForkError as ForkError
from juju.errors import InternalError as InternalError
from juju.errors import JujuError as JujuError
from juju.errors import KernelCompileError as KernelCompileError
from juju.errors import KernelStatusError as KernelStatusError
from juju.errors import LeakedTracerError as LeakedTracerError
from juju.errors import PrimitiveError as PrimitiveError
from juju.errors import SideEffectError as SideEffectError
from juju.errors import StoreError as StoreError
from juju.errors import StoreWarning as StoreWarning
from juju.errors import ToolchainError as ToolchainError
from juju.errors import UnsupportedPrimitive as UnsupportedPrimitive
from juju.jit import jit as jit
from juju.jit import make_max_graph as make_max_graph
from juju.primitive import Primitive as Primitive

__version__ = "0.1.0"
