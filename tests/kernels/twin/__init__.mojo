"""Registers a name that `author.mojo` registers, too."""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.gpu.host import DeviceContext


@extensibility.register("author_add")
struct Add:
    @staticmethod
    def execute[
        target: StaticString, amount: Int
    ](
        result: OutputTensor,
        x: InputTensor[dtype=result.dtype, rank=result.rank, ...],
        ctx: DeviceContext,
    ) raises:
        pass
