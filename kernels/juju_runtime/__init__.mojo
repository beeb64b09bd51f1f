"""The launcher: runs a list of compiled kernels, given by address, in order.

`program` is what a call hands over: plain 64-bit words. `serial` runs it on the calling thread; the op `juju_launch`
runs it inside a MAX graph and splits large launches over MAX's threads.
"""

from .op import JujuLaunch
