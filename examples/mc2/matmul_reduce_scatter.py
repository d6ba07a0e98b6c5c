"""Every PE multiplies its slice of k and gets its rows of the sum; prints the trace of turns.

Run with: emu run -n 4 examples/mc2/matmul_reduce_scatter.py
"""

import numpy as np

import emu
from emu.mc2 import compare, matmul_reduce_scatter

ROWS, K, N = 256, 512, 384  # rows of the result on each PE, k of each PE, columns

world = emu.world()
me, n = world.my_pe, world.n_pes

x1s = [
    np.random.default_rng(pe).uniform(-1, 1, (n * ROWS, K)).astype(np.float16) for pe in range(n)
]
x2s = [
    np.random.default_rng(99 + pe).uniform(-0.1, 0.1, (K, N)).astype(np.float16) for pe in range(n)
]

matmul_reduce_scatter(x1s[me], x2s[me])  # the first call starts the communication servers
trace = []
y = matmul_reduce_scatter(x1s[me], x2s[me], comm_turn=4, trace=trace)

own = slice(me * ROWS, (me + 1) * ROWS)
expected = sum(
    x1[own].astype(np.float64) @ x2.astype(np.float64) for x1, x2 in zip(x1s, x2s, strict=True)
)
found = compare(y, expected)
assert found, found
if me == 0:
    print(found)
    begin = min(span.start_ns for span in trace)
    for span in sorted(trace, key=lambda span: span.start_ns):
        times = f"{(span.start_ns - begin) / 1e6:7.2f} to {(span.end_ns - begin) / 1e6:7.2f} ms"
        print(f"turn {span.turn}: {times}  {span.name}")
