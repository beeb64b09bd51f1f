"""What a kernel is called with: argument words, and how nests share one launch."""

comptime Args = Pointer[Int64, MutAnyOrigin]
comptime GRAIN = 64
"""Points of a launch that one row stands for in a nest that is computed row by row; chunks begin at multiples."""


@always_inline
def array[dt: DType](args: Args, k: Int) -> Pointer[Scalar[dt], MutAnyOrigin]:
    """The k-th argument word as the address of an array."""
    return args.unsafe_bitcast[Pointer[Scalar[dt], MutAnyOrigin]]()[unsafe_offset=k]


@always_inline
def size(args: Args, k: Int) -> Int:
    """The k-th argument word as a number."""
    return Int(args[unsafe_offset=k])


@always_inline
def padded(n: Int) -> Int:
    """The points a nest of `n` takes in a launch of several: a multiple of 64, so that chunks start aligned."""
    return (n + 63) & ~63
