"""Writing by index: an array with windows of it replaced by, or combined with, updates.

Updates of one element are applied in the order of their indices, one after the other, so that the result does not depend
on the number of threads: these share the array, and each looks at all the updates.
"""

from .scatter import scatter
