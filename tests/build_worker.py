"""A process of its own that builds kernels, for the tests: `python build_worker.py race|interrupt|warm`."""

from __future__ import annotations

import json
import sys
import threading
import time

import numpy as np
from build_support import call, make_kernel

from juju.build import BuildEvent, build_kernels, compiler_runs, default_store

KERNELS = [make_kernel(f"race{i}", f"v * {i}.5") for i in range(4)]
SLOW = [make_kernel("slow", "sqrt(v)")]


def race() -> None:
    """Four threads, each builds some of the kernels and calls them."""
    built: list[str] = []
    failures: list[str] = []

    def note(event: BuildEvent) -> None:
        if event.stage == "kernel" and event.state == "done":
            built.append(event.name)

    def work(number: int) -> None:
        try:
            mine = [KERNELS[(number + i) % 4] for i in range(3)]
            x = np.arange(5, dtype=np.float32)
            for kernel, library in zip(mine, build_kernels(mine, progress=note), strict=True):
                np.testing.assert_array_equal(call(library, x), x * (KERNELS.index(kernel) + 0.5))
        except BaseException as error:
            failures.append(repr(error))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps({"built": built, "failures": failures, "runs": compiler_runs()}))


def interrupt() -> None:
    """Builds and says so; expects to be interrupted."""
    try:
        build_kernels(SLOW, progress=lambda event: print(event.state, flush=True))
    except KeyboardInterrupt:
        print("interrupted", flush=True)


def warm() -> None:
    """Finds everything in the store, and lists the processes it started."""
    started: list[str] = []
    watched = {"subprocess.Popen", "os.posix_spawn", "os.fork", "os.exec", "os.system"}
    sys.addaudithook(lambda event, _: started.append(event) if event in watched else None)
    began = time.perf_counter()
    addresses = [library.address() for library in build_kernels(KERNELS)]
    seconds = time.perf_counter() - began
    report = {"started": started, "loaded": len(set(addresses)), "runs": compiler_runs(), "seconds": seconds}
    print(json.dumps({**report, "root": str(default_store().root)}))


if __name__ == "__main__":
    {"race": race, "interrupt": interrupt, "warm": warm}[sys.argv[1]]()
