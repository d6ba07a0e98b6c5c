"""The programs whose mutants are run, and those mutants that no report is expected of, each with its reason."""

from __future__ import annotations

_OURS = "tests/check/mutation/programs"

PROGRAMS = {
    f"{_OURS}/barrier.py": 3,
    f"{_OURS}/collectives.py": 3,
    f"{_OURS}/fence.py": 2,
    f"{_OURS}/groups.py": 4,
    f"{_OURS}/halo.py": 3,
    f"{_OURS}/hccl.py": 3,
    f"{_OURS}/lock.py": 3,
    f"{_OURS}/nonblocking.py": 3,
    f"{_OURS}/pypto_barrier.py": 3,
    f"{_OURS}/pypto_clear.py": 3,
    f"{_OURS}/pypto_halves.py": 3,
    f"{_OURS}/pypto_ring.py": 4,
    f"{_OURS}/tickets.py": 3,
    f"{_OURS}/triton_flags.py": 1,
    f"{_OURS}/triton_masks.py": 1,
    f"{_OURS}/two_buffers.py": 2,
    "examples/comm/allreduce.py": 3,
    "examples/comm/histogram_atomics.py": 3,
    "examples/comm/ring.py": 3,
    "examples/comm/signal_pipeline.py": 3,
    "examples/kernels/user_atomics.py": 3,
    "examples/mc2/all_gather_matmul_custom.py": 8,
    "examples/pypto/allgather.py": 2,
    "examples/pypto/allgather_matmul.py": 2,
    "examples/pypto/allreduce_one_shot.py": 2,
    "examples/pypto/allreduce_two_shot.py": 2,
    "examples/pypto/matmul_allreduce_rmsnorm.py": 2,
    "examples/pypto/moe_dispatch_combine.py": 2,
    "examples/pypto/reduce_scatter.py": 2,
    "examples/pypto/two_groups.py": 3,
    "examples/triton/all_reduce.py": 3,
    "examples/triton/fused_softmax.py": 1,
    "examples/triton/matmul.py": 1,
}
"""Programs, and on how many PEs each is run. ``pypto/shmem_store_fixed.py`` is not among them: as its page has it, all PEs store to one place, of which the check tells."""

Key = tuple[str, str, str]
"""Program, kind and text of a mutant."""

EQUIVALENT: dict[Key, str] = {
    (f"{_OURS}/lock.py", "barrier", "world.barrier()"): (
        "nothing comes before it but alloc, whose memory is zero on all PEs for whoever has it"
    ),
}
"""Mutants that mean what the original means."""

_OPEN = (
    "which of two waits takes a signal that both may take is open, but no race of accesses: a right program may have such waits; "
    "where the later one takes the first signal, a race or a deadlock is told"
)

NOT_SEEN: dict[Key, str] = {
    **{
        (
            f"{_OURS}/pypto_ring.py",
            "pred",
            f"dist.shmem_wait_until({word}, 0, 1, clear_signal=True, pred=[block])",
        ): _OPEN
        for word in ("inbox", "free")
    },
    ("examples/triton/all_reduce.py", "mask", "tl.atomic_add(sums + i, mine, mask=i < n)"): (
        "an address that a kernel makes of an integer has no bounds, and 0 is added behind the array's end"
    ),
    ("examples/triton/all_reduce.py", "barrier", "world.barrier()"): (
        "what a Triton kernel does by addresses of a symmetric array is not seen between PEs"
    ),
    ("examples/comm/signal_pipeline.py", "fence", "world.fence()"): (
        "the second of two signals may come first, but in this run it did not; explored orders show it (tests/schedule)"
    ),
    ("examples/kernels/user_atomics.py", "barrier", "world.barrier()"): (
        "what a compiled function does with a symmetric array is not seen between PEs"
    ),
    (
        f"{_OURS}/tickets.py",
        "wait",
        "world.wait_until(done, emu.Cmp.EQ, 3 * n)",
    ): "where PE 0 is the last, its own fetch_add has ordered all others before it; other runs are told of",
}
"""Mutants that mean something else, of which one run may say nothing."""
