"""Memory for results: aligned blocks that become jax arrays without a copy, and come back when the last of them dies.

A fresh result of some megabytes costs the kernel a page fault for every 4 KiB, several times the work of writing it. A
block that was used before costs none. Each block owns one DLPack tensor; jaxlib calls its deleter once, after the last
array, numpy view and computation that uses the memory is gone, from whatever thread that happens on.

Nothing here takes a lock on the way of a call: `append`, `pop` and dictionary access are atomic in CPython, and a block
that was popped from a list belongs to the thread that popped it. The deleter is not Python, for reasons given in
`juju_runtime/returned.mojo`: it pushes the tensor on a list, which `ResultPool` empties when it is next called.
"""

from __future__ import annotations

import atexit
import ctypes
import math
import mmap
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from juju._jaxcompat import Device, adopt
from juju.engines.launchers import launchers
from juju.errors import ArgumentError, InternalError

BAD_LIMIT = "JUJU_POOL_LIMIT is {text!r}; it must be a number of bytes, such as 0, 500000000, 512M or 4G"

ALIGNMENT = 64
HUGE = 2 << 20
BIG = 1 << 20
"""Blocks from this size on have a mapping of their own, and are trimmed one by one."""

QUIET = 8 << 20
"""With less memory than this there is nothing worth trimming, and no thread that would."""

_COLOUR = 5 * ALIGNMENT
"""Blocks start at different places of a page: equal ones would compete for the same few lines of the first cache."""

_CODES = {"bool": 6, "bfloat16": 4}
_KINDS = {"i": 0, "u": 1, "f": 2, "c": 5}

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

_NAME = b"dltensor"  # a capsule refers to this very object


class _Tensor(ctypes.Structure):
    """DLManagedTensor of DLPack 0, flat, and a word of our own."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("type", ctypes.c_uint32),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("next", ctypes.c_uint64),
    )


class Layout:
    """Shape and dtype of a result, as DLPack describes it, and the shelf its memory comes from."""

    __slots__ = ("__weakref__", "dims", "dims_address", "dtype", "nbytes", "shape", "shelf", "type")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], shelf: Shelf) -> None:
        self.shape, self.dtype, self.shelf = shape, dtype, shelf
        self.nbytes = math.prod(shape) * dtype.itemsize
        self.dims = (ctypes.c_int64 * max(1, len(shape)))(*shape)
        self.dims_address = ctypes.addressof(self.dims)
        code = _CODES[dtype.name] if dtype.name in _CODES else _KINDS[dtype.kind]
        self.type = code | dtype.itemsize * 8 << 8 | 1 << 16  # code, bits and lanes as they lie in memory


class Block:
    """One piece of memory and its DLPack tensor; belongs to whoever took it."""

    __slots__ = ("address", "key", "layout", "region", "shelf", "since", "tensor", "uses")

    def __init__(self, address: int, shelf: Shelf, region: Region, returned: int, deleter: int) -> None:
        self.address, self.shelf, self.region = address, shelf, region
        self.tensor = _Tensor(data=address, device_type=1, context=returned, deleter=deleter)
        self.key = ctypes.addressof(self.tensor)
        self.layout: Layout | None = None
        self.uses = 0
        self.since = 0

    def describe(self, layout: Layout) -> None:
        tensor = self.tensor
        tensor.ndim = len(layout.shape)
        tensor.type = layout.type
        tensor.shape = layout.dims_address
        self.layout = layout


@dataclass(slots=True)
class Region:
    """Memory that is given back to the system as a whole; holds `count` blocks so far, `cold` of them on no shelf."""

    address: int
    size: int
    count: int = 0
    cold: int = 0


class Shelf:
    """Blocks of one size."""

    __slots__ = ("big", "cold", "count", "free", "region", "size", "stride")

    def __init__(self, size: int) -> None:
        self.size = size
        self.big = size >= BIG
        self.stride = size + (_COLOUR if size >= 4096 else 0)
        self.free: deque[Block] = deque()
        """Ready for use: the one used last is at the right, the one unused for longest at the left."""
        self.cold: list[Block] = []
        """Given back to the system; the addresses remain."""
        self.count = 0
        self.region: Region | None = None

    def waiting(self) -> int:
        return len(self.free) * self.size

    def lent(self) -> int:
        return max(0, self.count - len(self.free) - len(self.cold)) * self.size


@dataclass(frozen=True)
class PoolStats:
    """Bytes and counts of a result pool.

    `lent` bytes are in arrays, `free` are ready for the next result (`limit` at most), `cold` were given back to the
    system and only hold addresses; `held` is their sum. `hits` results were put into memory used before, `misses` were
    not; `trimmed` counts all bytes ever given back.
    """

    held: int
    lent: int
    free: int
    cold: int
    hits: int
    misses: int
    trimmed: int
    limit: int


class ResultPool:
    """Lends memory to results. At most `limit` bytes wait for reuse, and none for much longer than `idle_seconds`.

        layout = pool.layout((1024,), "float32")
        block = pool.take(layout)               # a kernel writes to block.address
        array = pool.give(block, device)        # or pool.drop(block)

    The memory of `array` is reused after the last array, numpy view and computation that uses it is gone.
    """

    def __init__(self, limit: int | None = None, idle_seconds: float = 5.0) -> None:
        self.limit = default_limit() if limit is None else limit
        self.idle_seconds = idle_seconds
        self._shelves: dict[int, Shelf] = {}
        self._layouts: weakref.WeakValueDictionary[tuple[Any, ...], Layout] = weakref.WeakValueDictionary()
        self._lent: dict[int, Block] = {}
        self._returned = ctypes.c_uint64()
        self._blocks: list[Block] = []
        self._lock = threading.RLock()
        self._arena, self._arena_left = 0, 0
        self._colour = 0
        self._now = 0
        self._misses = 0
        self._trimmed = 0
        self._watcher: threading.Thread | None = None
        self._stop = threading.Event()
        # Arrays may outlive everything else in Python, and return their tensors to this list.
        for immortal in (self._returned, self._blocks):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(immortal))
        self._returned_address = ctypes.addressof(self._returned)
        self._pop_all: Callable[[int], int] = _none_returned
        atexit.register(self._stop.set)

    def layout(self, shape: Sequence[int], dtype: Any) -> Layout:
        """The description of a result, shared between all that are alike."""
        dtype = np.dtype(dtype)
        key = (tuple(shape), dtype)
        found = self._layouts.get(key)
        if found is None:
            size = shelf_size(math.prod(shape) * dtype.itemsize)
            with self._lock:
                shelf = self._shelves.get(size) or self._shelves.setdefault(size, Shelf(size))
                found = self._layouts.setdefault(key, Layout(key[0], dtype, shelf))
        return found

    def take(self, layout: Layout) -> Block:
        """Memory for one result; its content is arbitrary. Raises `MemoryError` if there is none."""
        if self._returned.value:
            self._collect()
        shelf = layout.shelf
        try:
            block = shelf.free.pop()
        except IndexError:
            block = self._grow(shelf)
        block.uses += 1
        if block.layout is not layout:
            block.describe(layout)
        return block

    def give(self, block: Block, device: Device) -> jax.Array:
        """The block as a jax array, committed to a CPU device; the block comes back when it is no longer used."""
        key = block.key
        self._lent[key] = block
        return adopt(_new_capsule(key, _NAME, None), device, None)

    def giver(self, device: Device, finish: Callable[[jax.Array], jax.Array]) -> Callable[[Block], jax.Array]:
        """A function that gives a block and calls `finish` on the array: the same as both, sooner."""
        lent = self._lent

        def give(block: Block) -> jax.Array:
            key = block.key
            lent[key] = block
            return finish(adopt(_new_capsule(key, _NAME, None), device, None))

        return give

    def drop(self, block: Block) -> None:
        """Returns a block that was taken and not given."""
        block.since = self._now
        block.shelf.free.append(block)
        if block.shelf.big:
            self._bound()

    def stats(self) -> PoolStats:
        """How much memory there is, and how often it was reused."""
        self._collect()
        shelves = list(self._shelves.values())
        free = sum(shelf.waiting() for shelf in shelves)
        cold = sum(len(shelf.cold) * shelf.size for shelf in shelves)
        lent = sum(shelf.lent() for shelf in shelves)
        return PoolStats(
            held=lent + free + cold,
            lent=lent,
            free=free,
            cold=cold,
            hits=max(0, sum(block.uses for block in list(self._blocks)) - self._misses),
            misses=self._misses,
            trimmed=self._trimmed,
            limit=self.limit,
        )

    def trim(self) -> int:
        """Gives everything that waits for reuse back to the system; returns how many bytes that were."""
        self._collect()
        before = self._trimmed
        self._trim_older(self._now + 1)
        return self._trimmed - before

    def _collect(self) -> None:
        """Puts blocks whose arrays have died on their shelves."""
        if not self._returned.value:
            return
        key, lent, now, big = self._pop_all(self._returned_address), self._lent, self._now, False
        found = []
        while key:
            block = lent.pop(key)
            key = block.tensor.next
            block.since = now
            found.append(block)
        while found:  # the one that was returned last is used first
            block = found.pop()
            shelf = block.shelf
            shelf.free.append(block)
            big = big or shelf.big
        if big:
            self._bound()

    def _bound(self) -> None:
        """Keeps what waits for reuse within the limit; what waited longest goes first."""
        shelves = [shelf for shelf in list(self._shelves.values()) if shelf.big]
        while sum(shelf.waiting() for shelf in shelves) > self.limit:
            with suppress(IndexError, ValueError):  # another thread took the block meanwhile
                oldest = min((shelf.free[0].since, shelf.size) for shelf in shelves if shelf.free)
                self._cool([self._shelves[oldest[1]].free.popleft()])

    def _trim_older(self, now: int) -> None:
        """Gives back what has been waiting since a moment before `now`."""
        for shelf in list(self._shelves.values()):
            if shelf.big:
                with suppress(IndexError):
                    while shelf.free[0].since < now:
                        self._cool([shelf.free.popleft()])
            elif shelf.waiting() >= BIG:
                self._trim_regions(shelf, now)

    def _trim_regions(self, shelf: Shelf, now: int) -> None:
        """Gives back the regions of small blocks of which all wait, or are cold already."""
        blocks: list[Block] = []
        with suppress(IndexError):
            while True:
                blocks.append(shelf.free.popleft())
        regions: dict[int, list[Block]] = {}
        for block in blocks:
            regions.setdefault(block.region.address, []).append(block)
        kept = []
        for members in regions.values():
            region = members[0].region
            with self._lock:  # no block is carved from the region, or taken from the cold ones, meanwhile
                if len(members) + region.cold == region.count and max(block.since for block in members) < now:
                    self._cool(members)
                else:
                    kept += members
        shelf.free.extendleft(sorted(kept, key=lambda block: block.since, reverse=True))

    def _cool(self, blocks: list[Block]) -> None:
        """Gives the region of these blocks back to the system; the caller holds all that were not cold."""
        shelf, region = blocks[0].shelf, blocks[0].region
        with self._lock:
            _libc.madvise(region.address, region.size, mmap.MADV_DONTNEED)
            self._trimmed += len(blocks) * shelf.size
            region.cold += len(blocks)
            shelf.cold += blocks

    def _grow(self, shelf: Shelf) -> Block:
        """A block that is not in memory yet."""
        with self._lock:
            self._misses += 1
            try:
                block = shelf.cold.pop()
                block.region.cold -= 1
            except IndexError:
                block = self._map(shelf) if shelf.big else self._carve(shelf)
            if self._watcher is None and (shelf.big or sum(s.count * s.size for s in self._shelves.values()) > QUIET):
                with suppress(RuntimeError):  # the interpreter is ending, and nothing needs trimming any more
                    self._watcher = threading.Thread(target=self._watch, name="juju-pool", daemon=True)
                    self._watcher.start()
        return block

    def _map(self, shelf: Shelf) -> Block:
        """A block with a mapping of its own, in huge pages where they fit."""
        self._colour = (self._colour + _COLOUR) % 4096
        size = shelf.size + 4096
        address = _reserve(size + HUGE)
        start = -(-address // HUGE) * HUGE
        if size >= HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
            # Fails on a kernel without huge pages, which then uses small ones. The last, partial one stays small.
            _libc.madvise(start, size // HUGE * HUGE, mmap.MADV_HUGEPAGE)
        return self._add(shelf, start + self._colour, Region(start, size))

    def _carve(self, shelf: Shelf) -> Block:
        region = shelf.region
        if region is None or (region.count + 1) * shelf.stride > region.size:
            size = max(64 << 10, -(-4 * shelf.stride // 4096) * 4096)
            if self._arena_left < size:
                self._arena, self._arena_left = _reserve(max(size, HUGE)), max(size, HUGE)
            region = shelf.region = Region(self._arena, size)
            self._arena, self._arena_left = self._arena + size, self._arena_left - size
        return self._add(shelf, region.address + region.count * shelf.stride, region)

    def _add(self, shelf: Shelf, address: int, region: Region) -> Block:
        if self._pop_all is _none_returned:
            # Keeps the GIL: it is over at once.
            self._pop_all = ctypes.PYFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)(launchers().pop_all)
        block = Block(address, shelf, region, self._returned_address, launchers().push)
        region.count += 1
        shelf.count += 1
        self._blocks.append(block)
        return block

    def _watch(self) -> None:
        """Gives back what was not used for a while; ends when nothing is left that could become so."""
        while not self._stop.wait(self.idle_seconds / 2):
            self._collect()
            self._now += 1
            self._trim_older(self._now - 1)
            with self._lock:
                if self._settled():
                    self._watcher = None
                    return

    def _settled(self) -> bool:
        """Whether nothing waits that could be given back later, and little is lent."""
        shelves = self._shelves.values()
        recent = (shelf.free and shelf.free[-1].since >= self._now - 1 for shelf in shelves if shelf.waiting() >= BIG)
        return not any(recent) and sum(shelf.lent() for shelf in shelves) < QUIET


def _none_returned(head: int) -> int:
    raise InternalError(f"a tensor was returned to the list at {head:#x}, and none was lent")


def shelf_size(nbytes: int) -> int:
    """The size of the blocks that hold `nbytes`: at most an eighth more from `BIG` on, at most half more below."""
    if nbytes <= 2 * ALIGNMENT:
        return ALIGNMENT if nbytes <= ALIGNMENT else 2 * ALIGNMENT
    top = 1 << (nbytes - 1).bit_length()
    step = top // 16 if nbytes > BIG else top // 4
    return -(-nbytes // step) * step


def default_limit() -> int:
    """`JUJU_POOL_LIMIT`, or a quarter of the memory of this machine (or container) but no more than 4 GiB."""
    text = os.environ.get("JUJU_POOL_LIMIT")
    if not text:
        return min(4 << 30, _memory() // 4)
    factor = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:].upper(), 1)
    digits = text if factor == 1 else text[:-1]
    if not (digits.isascii() and digits.isdecimal()):
        raise ArgumentError(BAD_LIMIT.format(text=text))
    return int(digits) * factor


def _memory() -> int:
    sizes = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    with suppress(OSError, ValueError):  # no such file, or "max"
        sizes.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return min(sizes)


def _reserve(size: int) -> int:
    """Addresses for `size` bytes; they become memory when they are first written."""
    protection, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    address = _libc.mmap(None, size, protection, flags, -1, 0)
    if address is None or address == ctypes.c_void_p(-1).value:
        raise MemoryError(f"cannot map {size} bytes: {os.strerror(ctypes.get_errno())}")
    return address


_creating = threading.Lock()
_pool: ResultPool | None = None


def default_pool() -> ResultPool:
    """The pool of this process. Raises `ArgumentError` if `JUJU_POOL_LIMIT` is not a number of bytes."""
    global _pool
    if _pool is None:
        with _creating:
            _pool = _pool or ResultPool()
    return _pool
