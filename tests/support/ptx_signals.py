"""A barrier of blocks on several devices, written in PTX as libraries of kernels over symmetric memory write it."""

import numpy as np
import triton
import triton.language as tl

import emu


@triton.jit
def send(flags, sem: tl.constexpr):
    """Raise flags of others, each once it is down."""
    tl.inline_asm_elementwise(
        f"""
        {{
            .reg .u32   %was<1>;
            .reg .pred  %done<1>;
            raise:
                atom.global.{sem}.sys.cas.b32 %was0, [$1], 0, 1;
                setp.eq.u32 %done0, %was0, 0;
                @!%done0 bra raise;
        }}
        """,
        "=r, l",
        [flags],
        dtype=flags.dtype,
        is_pure=False,
        pack=1,
    )


@triton.jit
def wait(flags, sem: tl.constexpr):
    """Take flags of this device down, each once it is up."""
    tl.inline_asm_elementwise(
        f"""
        {{
            .reg .u32   %was<1>;
            .reg .pred  %done<1>;
            take:
                atom.global.sys.{sem}.cas.b32 %was0, [$1], 1, 0;
                setp.eq.u32 %done0, %was0, 1;
                @!%done0 bra take;
        }}
        """,
        "=r, l",
        [flags],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def number_of_thread():
    return tl.inline_asm_elementwise(
        "mov.u32 $0, %tid.x; mov.u32 $1, %tid.y; mov.u32 $2, %tid.z;",
        "=r,=r,=r",
        [],
        dtype=(tl.uint32, tl.uint32, tl.uint32),
        is_pure=True,
        pack=1,
    )


@triton.jit
def sums(pads, buffers, out, rank, n: tl.constexpr, WORLD: tl.constexpr):
    """Meet, read what all have, and meet again: program p has flags of its own."""
    x, y, z = number_of_thread()
    pads = pads.to(tl.pointer_type(tl.uint64))
    everyone = tl.arange(0, WORLD)
    block = tl.program_id(0) * WORLD
    theirs = tl.load(pads + everyone).to(tl.pointer_type(tl.uint32)) + block + rank
    mine = tl.load(pads + rank).to(tl.pointer_type(tl.uint32)) + block + everyone
    send(theirs, "release")
    wait(mine, "acquire")
    i = tl.program_id(0) * n + tl.arange(0, n)
    total = tl.zeros([n], tl.float32)
    for pe in range(WORLD):
        total += tl.load(tl.load(buffers + pe).to(tl.pointer_type(tl.float32)) + i)
    tl.store(out + i, total + (x + y + z))
    tl.debug_barrier()
    send(theirs, "relaxed")
    wait(mine, "relaxed")


world = emu.world()
blocks, n = 3, 32
pads = world.alloc(blocks * world.n_pes, np.uint32, poison=False)
data = world.alloc(blocks * n, np.float32)
tables = [
    np.array([a.on(pe).ctypes.data for pe in range(world.n_pes)], np.uint64) for a in (pads, data)
]
out = np.empty(blocks * n, np.float32)
for turn in range(4):
    data.local[:] = np.arange(blocks * n) * (world.my_pe + 1) + turn
    sums[(blocks,)](*tables, out, world.my_pe, n, world.n_pes)
    factor = sum(range(1, world.n_pes + 1))
    assert np.array_equal(out, np.arange(blocks * n) * factor + turn * world.n_pes), turn
world.barrier()
assert not pads.local.any()
print("met")
