"""Device functions of torch's symmetric memory, in kernels."""

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem
import triton
import triton.language as tl
from torch.distributed._symmetric_memory import _nvshmem_triton as nvshmem
from torch.distributed._symmetric_memory._nvshmem_triton import requires_nvshmem


@requires_nvshmem
@triton.jit
def puts(dst, src, count, peer):
    nvshmem.put(dst, src, count, peer)


@requires_nvshmem
@triton.jit
def gets(dst, src, count, peer, nbi: tl.constexpr):
    if nbi:
        nvshmem.get_nbi(dst, src, count, peer)
        nvshmem.quiet()
    else:
        nvshmem.get(dst, src, count, peer)


@requires_nvshmem
@triton.jit
def puts_and_signals(dst, src, nbytes, flag, value, op, peer):
    nvshmem.putmem_signal_block(dst, src, nbytes, flag, value, op, peer)


@requires_nvshmem
@triton.jit
def waits(flag, comparison, value):
    nvshmem.signal_wait_until(flag, comparison, value)


@requires_nvshmem
@triton.jit
def waits_for_int(flag, comparison, value):
    nvshmem.wait_until(flag, comparison, value)


@requires_nvshmem
@triton.jit
def meets(dst, src, count):
    me, n = nvshmem.my_pe(), nvshmem.n_pes()
    if me == 0:
        peer = 1
        while peer < n:
            nvshmem.put(dst, src, count, peer)
            peer += 1
    nvshmem.barrier_all()
    if me != 0:
        tl.store(dst, tl.load(dst) + 1)
    nvshmem.sync_all()


@requires_nvshmem
@triton.jit
def collects(team, gathered, sums, highest, everyone, src, count):
    nvshmem.alltoall(team, gathered, src, count)
    nvshmem.reduce(team, sums, src, count, "sum")
    nvshmem.reduce(team, highest, src, count, "max")
    nvshmem.broadcast(team, everyone, src, count, 1)


dist.init_process_group("nccl")
rank, n = dist.get_rank(), dist.get_world_size()
torch.cuda.set_device(rank)
symm_mem.set_backend("NVSHMEM")
group = dist.group.WORLD.group_name


def symmetric(count, dtype, value):
    made = symm_mem.empty(count, dtype=dtype, device="cuda").fill_(value)
    symm_mem.rendezvous(made, group)
    dist.barrier()
    return made


right, left = (rank + 1) % n, (rank - 1) % n
src, dst = symmetric(6, torch.int64, rank), symmetric(6, torch.int64, -1)
puts[(1,)](dst, src, 5, right)
dist.barrier()
assert dst.tolist() == [left] * 5 + [-1]
for nbi in (False, True):
    dst.fill_(-1)
    gets[(1,)](dst, src, 6, left, nbi)
    assert dst.tolist() == [left] * 6
dist.barrier()

handle = symm_mem.rendezvous(dst, group)
flag = handle.get_signal_pad(rank, (1,), dtype=torch.int64).fill_(0)
dist.barrier()
puts_and_signals[(1,)](dst, src, 16, flag, 7, 5, right)
waits[(1,)](flag, 0, 7)
assert dst.tolist()[:2] == [left] * 2
dist.barrier()

word, value = symmetric(1, torch.int32, 0), symmetric(1, torch.int32, 42)
puts[(1,)](word, value, 1, right)
waits_for_int[(1,)](word, 0, 42)
dist.barrier()

dst, src = symmetric(1, torch.int32, 0), symmetric(1, torch.int32, 41 if rank == 0 else 0)
meets[(1,)](dst, src, 1)
assert dst.item() == (0 if rank == 0 else 42)
dist.barrier()

src = symmetric(3 * n, torch.float32, 0)
src.copy_(torch.arange(3 * n) + 100 * rank)
gathered = symmetric(3 * n, torch.float32, 0)
sums, highest, everyone = (symmetric(3, torch.float32, 0) for _ in range(3))
dist.barrier()
collects[(1,)](0, gathered, sums, highest, everyone, src, 3)
assert gathered.tolist() == [100 * r + 3 * rank + i for r in range(n) for i in range(3)]
assert sums.tolist() == [sum(100 * r + i for r in range(n)) for i in range(3)]
assert highest.tolist() == [100 * (n - 1) + i for i in range(3)]
assert everyone.tolist() == [100 + i for i in range(3)]
print(f"rank {rank} of {n}")
