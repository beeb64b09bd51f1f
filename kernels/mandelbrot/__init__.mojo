"""Hand-written custom ops that `juju.Primitive` examples call from JAX."""

from .mandelbrot import *
