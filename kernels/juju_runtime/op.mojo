"""`juju_launch`: a MAX op that runs a program and splits large launches over MAX's threads."""

import extensibility
from extensibility import _MutableInputTensor as MutableInputTensor
from max.algorithm import sync_parallelize
from max.gpu.host import DeviceContext
from max.runtime.asyncrt import parallelism_level

from .program import ALIGN, Words, extent, fail, first, following, grain, prepare, run

comptime TASKS_PER_THREAD = 4
"""More tasks than threads, so that a thread that is late or preempted does not hold up the others."""


def parallel(program: Words):
    """Runs all launches in order, each on as many threads as it is worth. Stops after the first that fails."""
    program[unsafe_offset=1] = 0
    var limit = parallelism_level(None) * TASKS_PER_THREAD
    var launch = first(program)
    for i in range(Int(program[unsafe_offset=0])):
        prepare(program, launch)
        var points = extent(launch)
        var tasks = max(1, min(limit, points // max(grain(launch), 1)))
        var size = ((points + tasks - 1) // tasks + ALIGN - 1) // ALIGN * ALIGN

        def task(t: Int) {var program, var launch, var i, var points, var size}:
            var lo = t * size
            var status = run(launch, lo, min(lo + size, points))
            if status != 0:
                fail(program, i, status)

        sync_parallelize(task, max(1, (points + size - 1) // max(size, 1)))
        if program[unsafe_offset=1] != 0:
            return
        launch = following(launch)


@extensibility.register("juju_launch")
struct JujuLaunch:
    @staticmethod
    def execute[
        target: StaticString
    ](program: MutableInputTensor[dtype=DType.int64, rank=1, ...], ctx: DeviceContext) raises:
        parallel(rebind[Words](program.unsafe_ptr()))
