"""Compiles the launch graph: `python -P _launch_graph.py juju_runtime.mojoc launch.mef`. A program, not to be imported.

A process of its own can be ended at any moment, and MAX's compiler cannot take the user's process down with it.
"""

import sys
from pathlib import Path

from max.driver import CPU
from max.dtype import DType
from max.engine import InferenceSession
from max.graph import BufferType, DeviceRef, Graph, KernelLibrary, ops


def main(package: str, output: str) -> None:
    cpu = DeviceRef.CPU()
    with Graph(
        "juju_launch",
        input_types=[BufferType(DType.int64, ["words"], device=cpu)],
        kernel_library=KernelLibrary([Path(package)]),
    ) as graph:
        ops.inplace_custom("juju_launch", device=cpu, values=[graph.inputs[0].buffer])
        graph.output()
    compiled = InferenceSession(devices=[CPU()]).compile(graph, custom_extensions=[package])
    compiled.export_mef(output)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
