"""A hand-written Mojo kernel, `kernels/mandelbrot`, called from JAX code through `juju.Primitive`."""

import jax.numpy as jnp
from jax.core import ShapedArray
from max.dtype import DType
from max.graph import DeviceRef, TensorType, ops

from juju import Primitive, jit, make_max_graph

WIDTH = 15
HEIGHT = 15
MAX_ITERATIONS = 100
MIN_X = -1.5
MAX_X = 0.7
MIN_Y = -1.12
MAX_Y = 1.12


# What the primitive is in a MAX graph: graph values in, a graph value out.
def mandelbrot_max_lowering_rule(min_x, min_y, scale_x, scale_y, max_iterations, *, width, height):
    return ops.custom(
        name="mandelbrot",
        device=DeviceRef.CPU(),
        values=[min_x, min_y, scale_x, scale_y, max_iterations],
        out_types=[TensorType(DType.int32, [height, width], device=DeviceRef.CPU())],
    )[0]


# What the primitive is for JAX: types in, a type out.
def mandelbrot_abstract_eval(*operands, width, height):
    return ShapedArray((height, width), jnp.int32)


mandelbrot = Primitive(
    "mandelbrot",
    mandelbrot_max_lowering_rule,
    mandelbrot_abstract_eval,
    multiple_results=False,
)


def compute_mandelbrot(min_x, min_y, max_x, max_y, max_iterations):
    scale_x = (max_x - min_x) / WIDTH
    scale_y = (max_y - min_y) / HEIGHT
    return mandelbrot(min_x, min_y, scale_x, scale_y, max_iterations, width=WIDTH, height=HEIGHT)


# The scales are computed by a kernel that juju writes; it stands in the graph before the hand-written one.
print(make_max_graph(compute_mandelbrot)(MIN_X, MIN_Y, MAX_X, MAX_Y, MAX_ITERATIONS))

print(jit(compute_mandelbrot)(MIN_X, MIN_Y, MAX_X, MAX_Y, MAX_ITERATIONS).to_numpy())
