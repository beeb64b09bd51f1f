"""The words of a program, and one launch of it.

    0  number of launches
    1  out: status of the kernel that failed, or 0
    2  out: index of the launch that failed
    3  number of addresses
    4  addresses of the arrays, one each
    .. launches, one after the other:
       0  address of the kernel
       1  extent: the kernel computes the points 0 ..< extent
       2  grain: the least number of points worth a thread
       3  number of arrays
       4  number of argument words
       .. for every array, its place among the addresses
       .. argument words: room for the addresses of the arrays, then sizes

The same layout is written by `src/juju/engines/trampoline.py`.
"""

from std.utils.numerics import FlushDenormals

comptime Words = Pointer[Int64, MutAnyOrigin]
comptime KernelFn = def(Words, Int, Int) abi("C") thin -> Int

comptime HEADER = 4
comptime LAUNCH = 5
comptime ALIGN = 64
"""Chunks begin at multiples of this many points, so that no two threads write the same cache line."""


@always_inline
def as_words(address: Int) -> Words:
    var slot = Int64(address)
    return Pointer(to=slot).unsafe_bitcast[Words]()[]


@always_inline
def first(program: Words) -> Words:
    """The first launch of a program."""
    return program.unsafe_offset(HEADER + Int(program[unsafe_offset=3]))


@always_inline
def following(launch: Words) -> Words:
    return arguments(launch).unsafe_offset(Int(launch[unsafe_offset=4]))


@always_inline
def arguments(launch: Words) -> Words:
    return launch.unsafe_offset(LAUNCH + Int(launch[unsafe_offset=3]))


@always_inline
def extent(launch: Words) -> Int:
    return Int(launch[unsafe_offset=1])


@always_inline
def grain(launch: Words) -> Int:
    return Int(launch[unsafe_offset=2])


@always_inline
def prepare(program: Words, launch: Words):
    """Copies the addresses of this launch's arrays into its argument words."""
    var args = arguments(launch)
    for i in range(Int(launch[unsafe_offset=3])):
        args[unsafe_offset=i] = program[unsafe_offset=HEADER + Int(launch[unsafe_offset=LAUNCH + i])]


@always_inline
def run(launch: Words, lo: Int, hi: Int) -> Int:
    """Computes the points `lo ..< hi`, with subnormal numbers as zero, as XLA does on CPU."""
    var address = launch[unsafe_offset=0]
    with FlushDenormals():
        return Pointer(to=address).unsafe_bitcast[KernelFn]()[](arguments(launch), lo, hi)


@always_inline
def fail(program: Words, index: Int, status: Int):
    program[unsafe_offset=1] = Int64(status)
    program[unsafe_offset=2] = Int64(index)


def serial(program: Words) -> Int:
    """Runs all launches on the calling thread. Returns the first status that is not 0, and stops there."""
    var launch = first(program)
    for i in range(Int(program[unsafe_offset=0])):
        prepare(program, launch)
        var status = run(launch, 0, extent(launch))
        if status != 0:
            fail(program, i, status)
            return status
        launch = following(launch)
    return 0
