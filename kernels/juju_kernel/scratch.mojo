"""Memory of a kernel's own, for what one pass over a row keeps for the next."""

from std.memory.alloc import unsafe_alloc

from .memory import LINE


@always_inline
def scratch[dt: DType](count: Int) -> Pointer[Scalar[dt], MutAnyOrigin]:
    """Memory for `count` elements, from the beginning of a cache line; `release` gives it back."""
    return unsafe_alloc[Scalar[dt]](max(count, 1), alignment=LINE).as_unsafe_any_origin()


@always_inline
def release[dt: DType, //](p: Pointer[Scalar[dt], MutAnyOrigin]):
    """Gives back what `scratch` lent."""
    p.unsafe_free()
