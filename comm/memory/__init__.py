"""The shared segment and what lies in it: the table of allocations, the symmetric heaps."""
