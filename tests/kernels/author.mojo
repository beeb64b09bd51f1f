"""Ops of a kernel author, for tests of `juju.Primitive`."""

import extensibility
from extensibility import InputTensor, OutputTensor, foreach
from max.gpu.host import DeviceContext
from std.utils.coord import Coord
from juju_kernel import LANES


@extensibility.register("author_add")
struct Add:
    """Adds a constant that is known when the graph is compiled."""

    @staticmethod
    def execute[
        target: StaticString, amount: Int
    ](
        result: OutputTensor,
        x: InputTensor[dtype=result.dtype, rank=result.rank, ...],
        ctx: DeviceContext,
    ) raises:
        comptime assert LANES > 0, "juju_kernel is not there"

        @always_inline
        def body[
            width: Int
        ](index: Coord[...]) {var x} -> SIMD[result.dtype, width]:
            return x.load[width](index) + Scalar[result.dtype](amount)

        foreach[target=target](body, result, ctx)


@extensibility.register("author_split")
struct Split:
    """The rows of a matrix summed, and the first row."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        total: OutputTensor[dtype=DType.float32, rank=1, ...],
        first: OutputTensor[dtype=DType.float32, rank=1, ...],
        x: InputTensor[dtype=DType.float32, rank=2, ...],
        ctx: DeviceContext,
    ) raises:
        var rows = x.dim_size[0]()
        var columns = x.dim_size[1]()
        for column in range(columns):
            var sum = Float32(0)
            for row in range(rows):
                sum += x.unsafe_ptr()[unsafe_offset=row * columns + column]
            total.unsafe_ptr()[unsafe_offset=column] = sum
            first.unsafe_ptr()[unsafe_offset=column] = x.unsafe_ptr()[
                unsafe_offset=column
            ]


@extensibility.register("author_positive")
struct Positive:
    """Refuses a first element that is not positive."""

    @staticmethod
    def execute[
        target: StaticString
    ](
        result: OutputTensor[dtype=DType.float32, rank=1, ...],
        x: InputTensor[dtype=DType.float32, rank=1, ...],
        ctx: DeviceContext,
    ) raises:
        if x.unsafe_ptr()[] <= 0:
            raise Error(
                "author_positive: the first element is ", x.unsafe_ptr()[]
            )
        for n in range(x.size()):
            result.unsafe_ptr()[unsafe_offset=n] = x.unsafe_ptr()[
                unsafe_offset=n
            ]
