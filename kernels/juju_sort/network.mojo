"""Sorting networks: many short rows side by side, one in each lane."""


@always_inline
def network[dt: DType, //, w: Int, size: Int](mut lines: Array[SIMD[dt, w], size]):
    """Sorts each lane of `size` vectors, a power of two, by Batcher's odd-even merges."""
    comptime for merge in range(8):
        comptime p = 1 << merge
        comptime if p < size:
            comptime for halving in range(merge + 1):
                comptime step = p >> halving
                comptime begin = 0 if halving == 0 else step
                comptime for pair in range(size):
                    comptime if pair + step < size and _joined(pair, step, p, begin):
                        var low = min(lines[pair], lines[pair + step])
                        lines[pair + step] = max(lines[pair], lines[pair + step])
                        lines[pair] = low


def _joined(i: Int, step: Int, p: Int, begin: Int) -> Bool:
    """Whether a comparator joins `i` and `i + step`; it stays within one block of `2 * p`."""
    if i < begin or ((i - begin) // step) % 2 != 0:
        return False
    return i // (2 * p) == (i + step) // (2 * p)
