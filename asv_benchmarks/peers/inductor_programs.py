"""Functions that Inductor compiles, for its Triton back end on emu and for its C++.

As a program, ``python inductor_programs.py triton|cpp NAME``, print the seconds of the first call of a function, caches empty.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch._inductor.utils
import torch.nn.functional as F

ROWS, COLUMNS = 4096, 1024
Function = Callable[..., Any]

FUSED: dict[str, Function] = {
    "layer norm, GELU": lambda x, y, w, b: F.gelu(F.layer_norm(x, (COLUMNS,), w, b)),
    "softmax of a sum": lambda x, y, w, b: torch.softmax(x * 0.125 + y, -1),
    "RMS norm": lambda x, y, w, b: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w,
    "SwiGLU": lambda x, y, w, b: F.silu(x) * y,
    "Adam update": lambda x, y, w, b: (
        x - 0.01 * (y * 0.9 + x * 0.1) / ((y * y * 0.99 + x * x * 0.01).sqrt() + 1e-8)
    ),
    "sum of columns": lambda x, y, w, b: (x * y).sum(0),
    "log-softmax, mean": lambda x, y, w, b: -torch.log_softmax(x, -1)[:, 3].mean(),
    "sin, cos, ReLU": lambda x, y, w, b: torch.relu(torch.sin(x) * torch.cos(y) + w) * b,
}


def operands(rows: int = ROWS) -> list[torch.Tensor]:
    """Return what the functions take: two matrices and two rows."""
    generator = torch.Generator().manual_seed(0)
    shapes = ((rows, COLUMNS), (rows, COLUMNS), (COLUMNS,), (COLUMNS,))
    return [torch.randn(shape, generator=generator) for shape in shapes]


class Block(torch.nn.Module):
    """A block of a transformer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        nn = torch.nn
        self.heads = heads
        self.norm, self.last_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's result."""
        batch, length, width = x.shape
        mixed = self.mixed(self.norm(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = mixed.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        x = x + self.out(mixed.reshape(batch, length, width))
        return x + self.narrow(F.gelu(self.wide(self.last_norm(x))))


def train_step(backend: str | None = None) -> Function:
    """Return a step of training of a transformer of four blocks; without a back end it runs eagerly."""
    width, batch, length = 128, 8, 128
    nn = torch.nn
    torch.manual_seed(0)
    blocks = [Block(width, 4) for _ in range(4)]
    model = nn.Sequential(nn.Embedding(64, width), *blocks, nn.Linear(width, 64))
    optimizer = torch.optim.AdamW(model.parameters())
    ids = torch.randint(0, 64, (batch, length))
    compiled, update = model, optimizer.step
    if backend is not None:
        options = {"cpu_backend": backend}
        compiled = torch.compile(model, options=options)
        update = torch.compile(optimizer.step, options=options)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(compiled(ids).flatten(0, 1), ids.flatten())
        loss.backward()
        update()
        return loss.detach()

    return step


def main() -> None:
    """Print the seconds of a first call."""
    backend, name = sys.argv[1:]
    torch.set_num_threads(1)
    if backend == "triton":
        import emu.inductor

        emu.inductor.install()
    with torch._inductor.utils.fresh_cache():
        arguments = operands(64)
        torch.compile(lambda x: x + 1)(arguments[0])  # Dynamo and the compiler are loaded
        begin = time.perf_counter()
        if name == "train step":
            train_step(backend)()
        else:
            torch.compile(FUSED[name])(*arguments)
        print(time.perf_counter() - begin)


if __name__ == "__main__":
    main()
