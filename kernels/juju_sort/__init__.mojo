"""Ordering rows: sorted values, the places they come from, and the largest few.

Everything is stable and exact, so that results are the same whichever way a row is sorted and on however many threads.
A row is a run of `n` elements; all functions take the rows `first ..< last` of an array.
"""

from .key import Order
from .order import order_rows, order_rows_again
from .row import sort_rows
from .top import top_rows
