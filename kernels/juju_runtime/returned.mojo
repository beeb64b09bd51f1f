"""The list of DLPack tensors that are no longer used: where jaxlib's threads leave them, and Python finds them.

jaxlib calls the deleter of a tensor from any thread at any time, also while the interpreter shuts down, when a thread that
asks for Python's lock is ended on the spot and takes the process with it. So the deleter is not Python: it pushes the
tensor on a list, with no lock at all.
"""

from std.atomic import Atomic

from .program import Words

comptime HEAD = 6
"""The word of a DLManagedTensor that is the owner's: here the address of the head of the list."""
comptime NEXT = 8
"""The word after a DLManagedTensor: the tensor that was returned before."""


@always_inline
def push(tensor: Words):
    var head = tensor.unsafe_bitcast[Words]()[unsafe_offset=HEAD]
    var expected = Atomic[Int64].load(head)
    while True:
        tensor[unsafe_offset=NEXT] = expected
        if Atomic[Int64].compare_exchange(head, expected, Int64(Int(tensor))):
            return


@always_inline
def pop_all(head: Words) -> Int:
    """Takes the whole list; returns its first tensor, or 0."""
    return Int(Atomic[Int64]._xchg(head, 0))
