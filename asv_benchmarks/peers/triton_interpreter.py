"""Triton's own interpreter: reads numbers of calls, one a line, and writes the seconds that each took.

Started with the number of elements to add; TRITON_INTERPRET must be 1.
"""

from __future__ import annotations

import sys
import time

import torch
import triton
import triton.language as tl


@triton.jit
def add(x_at, y_at, out_at, count, BLOCK: tl.constexpr):
    places = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    mask = places < count
    x = tl.load(x_at + places, mask=mask)
    y = tl.load(y_at + places, mask=mask)
    tl.store(out_at + places, x + y, mask=mask)


def main() -> None:
    count = int(sys.argv[1])
    x, y = torch.rand(count), torch.rand(count)
    out = torch.empty_like(x)
    for line in sys.stdin:
        start = time.perf_counter()
        for _ in range(int(line)):
            add[(triton.cdiv(count, 1024),)](x, y, out, count, BLOCK=1024)
        spent = time.perf_counter() - start
        if not torch.equal(out, x + y):
            raise SystemExit("Triton's interpreter added wrongly")
        print(spent, flush=True)


if __name__ == "__main__":
    main()
