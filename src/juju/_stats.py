"""What the store on disk and the result pool of this process hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from juju.build import StoreStats
    from juju.engines.pool import PoolStats


@dataclass(frozen=True)
class CacheStats:
    """`store`: entries and bytes on disk. `pool`: bytes and counts of the result pool of this process."""

    store: StoreStats
    pool: PoolStats


def cache_stats() -> CacheStats:
    """Figures of the kernel store and of the pool that results come from.

    >>> import juju
    >>> juju.cache_stats().pool.lent >= 0
    True
    """
    from juju.build import default_store
    from juju.engines.pool import default_pool

    return CacheStats(default_store().stats(), default_pool().stats())
