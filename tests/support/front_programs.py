"""Programs of the front ends that find the same bits wherever their PEs are, and what runs them over several hosts.

Each returns an object for JSON. ``python front_programs.py N NAME ...`` runs them on N PEs, as each process of an MPI
program, and leaves what all PEs have found in a file of the folder ``HOST_PROGRAMS_FOLDER``.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from pathlib import Path

import numpy as np
from host_programs import digest, values

import emu
from emu.comm.errors import CommError

EXAMPLES = Path(emu.__file__).parents[1] / "examples"


def number():
    """The number of the PE."""
    return emu.world().my_pe


# --- torch.distributed --------------------------------------------------------------------


def _torch(backend):
    from distributed_tensors import begin
    from distributed_tensors import values as values_of

    torch, dist, on_device = begin(backend)
    return torch, dist, on_device, lambda *tensors: digest(*map(values_of, tensors))


def _collectives(backend, **kinds):
    torch, dist, on_device, bits = _torch(backend)
    rank, n = dist.get_rank(), dist.get_world_size()
    found = [rank, n, dist.get_backend()]
    for kind, ops in kinds.items():
        for op in ops.split():
            x, rows = (_drawn(torch, on_device, kind, shape, rank) for shape in ((3, 5), (n, 40)))
            part = torch.empty_like(rows[0])
            dist.reduce_scatter_tensor(part, rows, op=getattr(dist.ReduceOp, op))
            dist.reduce(rows, n - 1, op=getattr(dist.ReduceOp, op))
            dist.all_reduce(x, op=getattr(dist.ReduceOp, op))
            found.append(bits(x, part, rows))
        mine = _drawn(torch, on_device, kind, (2, 3), rank)
        sent = mine.clone()
        dist.broadcast(sent, n - 1)
        everyone = [torch.empty_like(mine) for _ in range(n)]
        dist.all_gather(everyone, mine)
        joined = torch.empty(2 * n, 3, dtype=mine.dtype, device=mine.device)
        dist.all_gather_into_tensor(joined, mine)
        gathered = [torch.empty_like(mine) for _ in range(n)]
        dist.gather(mine, gathered if rank == 1 else None, dst=1)
        got = torch.empty_like(mine)
        dist.scatter(got, everyone if rank == n - 1 else None, src=n - 1)
        out = torch.empty_like(joined)
        dist.all_to_all_single(out, joined + rank)
        found.append(bits(sent, joined, got, out, *everyone, *(gathered if rank == 1 else ())))
    counts = [(rank + other) % 3 for other in range(n)]
    uneven = _drawn(torch, on_device, "int32", (sum(counts), 2), rank)
    out = torch.empty_like(uneven)
    dist.all_to_all_single(out, uneven, counts, counts)
    large = _drawn(torch, on_device, "float32", 300_001, rank)
    dist.all_reduce(large)
    found.append(bits(out, large))
    dist.destroy_process_group()
    return found


def _drawn(torch, on_device, kind, shape, rank):
    return on_device(values(shape, np.dtype(np.float32), 17 + rank) * 9).to(getattr(torch, kind))


def nccl_collectives():
    """All collectives of backend "nccl"."""
    return _collectives("nccl", float32="SUM AVG", bfloat16="SUM PRODUCT", int64="MIN MAX")


def hccl_collectives():
    """All collectives of backend "hccl", of one dtype."""
    return _collectives("hccl", float16="SUM")


def torch_groups():
    """Groups of PEs of one host and of several, deferred works, objects, the store, and a group of gloo's."""
    torch, dist, on_device, bits = _torch("nccl")
    rank, n = dist.get_rank(), dist.get_world_size()
    objects = [None] * n
    dist.all_gather_object(objects, {"rank": rank, "text": "x" * rank})
    found = [objects]
    for members in ([0, 1], [n - 1, 0], list(range(1, n)), list(range(n))):
        group = dist.new_group(members)
        if rank in members:
            x = _drawn(torch, on_device, "float32", 90, rank)
            work = dist.all_reduce(x, group=group, async_op=True)
            y = x * 1
            work.wait()
            found.append([dist.get_rank(group), bits(y, x)])
    plain = torch.full((3,), float(rank))
    dist.all_reduce(plain, group=dist.new_group(list(range(n)), backend="gloo"))
    store = dist.distributed_c10d._get_default_store()
    store.set(f"of {rank}", f"{rank}" * 3)
    found += [plain.tolist(), store.get(f"of {(rank + 2) % n}").decode()]
    dist.barrier()
    dist.destroy_process_group()
    return found


def torch_messages():
    """Messages of several sizes round a ring, without waiting for it, in batches and blocking."""
    torch, dist, on_device, bits = _torch("nccl")
    rank, n = dist.get_rank(), dist.get_world_size()
    after, before, found = (rank + 1) % n, (rank - 1) % n, []
    for size in (1, 70, 500_000):
        mine = _drawn(torch, on_device, "float32", size, rank)
        ways = [torch.empty_like(mine) for _ in range(3)]
        works = [dist.isend(mine, after), dist.irecv(ways[0], before)]
        batch = [dist.P2POp(dist.isend, mine, before), dist.P2POp(dist.irecv, ways[1], after)]
        for work in (*works, *dist.batch_isend_irecv(batch)):
            work.wait()
        if rank % 2:
            dist.recv(ways[2], before)
            dist.send(mine, after)
        else:
            dist.send(mine, after)
            dist.recv(ways[2], before)
        found.append(bits(*ways))
    dist.destroy_process_group()
    return found


def torch_training():
    """Steps of DistributedDataParallel."""
    torch, dist, on_device, bits = _torch("nccl")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    layers = torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers).to("cuda"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    found = []
    for step in range(3):
        optimizer.zero_grad()
        x = on_device(values((5, 8), np.dtype(np.float32), 10 * step + rank))
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        found.append(bits(loss, *model.parameters()))
    dist.destroy_process_group()
    return found


# --- PyPTO --------------------------------------------------------------------------------


def _example(name):
    return runpy.run_path(str(EXAMPLES / name))


def pypto_collectives():
    """The examples' collectives of tiles, whose 16-bit sums round in the order of arrival, of numbers that add exactly."""
    from emu.commands import stand_ins

    stand_ins.install()
    import pypto

    world, found = emu.world(), []
    shape = (3 * world.n_pes, 10)
    for name in ("allreduce_two_shot", "allreduce_one_shot"):
        run = _example(f"pypto/{name}.py")["all_reduce"]
        for dtype in (pypto.DT_BF16, pypto.DT_INT32):
            x = np.arange(30 * world.n_pes).reshape(shape) % 7 + world.my_pe
            out = np.zeros(shape, dtype.np_dtype)
            run(x.astype(dtype.np_dtype), out, world.n_pes)
            found.append(digest(out))
    return found


def pypto_experts():
    """Tokens go to the PEs of their experts and back, which the data decide."""
    from emu.commands import stand_ins

    stand_ins.install()
    import pypto

    module = _example("pypto/moe_dispatch_combine.py")
    return float(module["check"](pypto.DT_BF16)) < 1


# --- Shardy -------------------------------------------------------------------------------


def partitioned():
    """A partitioned program on PEs that are there: sums, products and exchanges between all devices."""
    import emu.sdy

    program = emu.sdy.compile(emu.sdy.parse(SHARDED))
    x, w = (values((8, 12), np.dtype(np.float32), seed) for seed in (1, 2))
    return [digest(*program(x * turn, w)) for turn in (1, 2)]


SHARDED = """
sdy.mesh @mesh = <["a"=2, "b"=2]>
func.func @main(%x: tensor<8x12xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {"b"}]>},
                %w: tensor<8x12xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"a", "b"}]>})
    -> (tensor<8x8xf32>, tensor<12xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"b"}]>},
        tensor<12x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a", "b"}, {}]>}) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [1]
      : (tensor<8x12xf32>, tensor<8x12xf32>) -> tensor<8x8xf32>
  %1 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
      : (tensor<8x12xf32>, tensor<f32>) -> tensor<12xf32>
  %2 = stablehlo.transpose %x, dims = [1, 0] : (tensor<8x12xf32>) -> tensor<12x8xf32>
  return %0, %1, %2 : tensor<8x8xf32>, tensor<12xf32>, tensor<12x8xf32>
}
"""


# --- Triton -------------------------------------------------------------------------------


def kernels():
    """Communication inside kernels."""
    import front_kernels

    return front_kernels.kernels()


def kernels_of_a_host():
    """What kernels do among the PEs of one host, and what they cannot do with others."""
    import front_kernels

    return front_kernels.kernels_of_a_host()


def fused():
    """A fused operator in a group of one host's PEs, and among all."""
    from emu.mc2 import matmul_reduce_scatter

    world = emu.world()
    x1, x2 = (values((64, 48), np.dtype(np.float16), seed + world.my_pe) for seed in (1, 20))
    return [
        digest(matmul_reduce_scatter(x1, x2.T.copy(), group=group, comm_turn=2))
        for group in (_half(world), world)
    ]


# --- NVSHMEM's host side -------------------------------------------------------------------


def nvshmem_host():
    """Puts, gets, signals, waits, teams and collectives of ``nvshmem.core`` and its bindings; views of peers on one host."""
    import emu.accelerator

    emu.accelerator.install()
    import nvshmem.core as nv
    import torch
    from nvshmem.bindings import nvshmem as bindings

    torch.cuda.set_device(emu.world().my_pe % torch.cuda.device_count())
    nv.init(initializer_method="mpi")
    me, n = nv.my_pe(), nv.n_pes()
    far, right, found = (me + n // 2) % n, (me + 1) % n, [me, n]

    def bits(*tensors):
        return digest(*(t.detach().cpu().view(torch.uint8).numpy() for t in tensors))

    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        inbox, out = nv.tensor((n, 40), dtype), torch.empty(40, dtype=dtype, device="cuda")
        arrived = nv.tensor(1, dtype=torch.int64)
        arrived.zero_()
        inbox.zero_()
        nv.barrier_all()
        mine = (torch.arange(40, device="cuda") + 50 * me).to(dtype)
        nv.put_signal(inbox[me], mine, arrived, 1, nv.SignalOp.SIGNAL_ADD, remote_pe=far)
        nv.put(inbox[me], mine, remote_pe=right)
        nv.quiet()
        nv.signal_op(arrived, 1, nv.SignalOp.SIGNAL_ADD, right)
        nv.signal_wait(arrived, 2, nv.ComparisonType.CMP_GE)
        nv.get(out, inbox[me], remote_pe=far)
        nv.barrier_all()
        found.append(bits(inbox, out))
        parts, whole, other = (
            nv.tensor((n, 40), dtype),
            nv.tensor((n, 40), dtype),
            nv.tensor(40, dtype),
        )
        for team in (nv.Teams.TEAM_WORLD, nv.team_split_strided(nv.Teams.TEAM_WORLD, 0, 1, n)):
            nv.reduce(team, parts, inbox, "sum")
            nv.alltoall(team, whole, parts)
            nv.fcollect(team, inbox, whole[me])
            nv.broadcast(team, whole, inbox, n - 1)
            nv.reducescatter(team, other, whole, "max")
            nv.barrier(team)
            found.append(bits(parts, whole, inbox, other))
        nv.barrier_all()
    start = bindings.calloc(64, 4)
    source = nv.tensor(64, dtype=torch.int32)
    source.copy_(torch.arange(64) * (me + 1))
    bindings.putmem(start, source.data_ptr(), 256, far)
    bindings.barrier_all()
    back = torch.zeros(64, dtype=torch.int32, device="cuda")
    bindings.getmem(back.data_ptr(), start, 256, far)
    found.append(bits(back))
    source_there = torch.empty(64, dtype=torch.int32, device="cuda")
    found.append(_told(lambda: nv.put(source, source_there, remote_pe=n)))
    found.append(_told(lambda: nv.get(source, mine, remote_pe=far)))
    bindings.barrier_all()
    views = [_told(lambda: nv.get_peer_tensor(source, far)), bindings.ptr(start, far) != 0]
    views += [_told(lambda: nv.get_peer_buffer(nv.tensor_get_buffer(source)[0], far))]
    neighbour = me ^ 1
    found.append(nv.get_peer_tensor(source, neighbour).tolist())
    nv.finalize()
    return [found, views]


# --- what takes a group of one host --------------------------------------------------------


def torch_symmetric_memory():
    """A rank reads the buffers of the others of its host; among all ranks it may be refused."""
    torch, dist, on_device, bits = _torch("nccl")
    import torch.distributed._symmetric_memory as symm_mem

    world = emu.world()
    half = world.n_pes // 2
    groups = [dist.new_group(range(half)), dist.new_group(range(half, world.n_pes))]
    group = groups[world.my_pe // half]
    torch.cuda.set_device(world.my_pe % torch.cuda.device_count())
    buffer = symm_mem.empty(100, dtype=torch.float32, device="cuda")
    handle = symm_mem.rendezvous(buffer, group)
    buffer.copy_(_drawn(torch, on_device, "float32", 100, world.my_pe))
    handle.barrier(channel=0)
    theirs = handle.get_buffer(1 - handle.rank, (100,), torch.float32).clone()
    total = torch.ops.symm_mem.one_shot_all_reduce(buffer, "sum", group.group_name)
    found = [bits(theirs, total)]
    handle.barrier(channel=0)
    other = symm_mem.empty(100, dtype=torch.float32, device="cuda")
    found.append(_told(lambda: symm_mem.rendezvous(other, dist.group.WORLD)))
    dist.barrier()
    dist.destroy_process_group()
    return found


def _half(world):
    """Return the group of the PEs of this PE's host, where there are two."""
    half = world.n_pes // 2
    first = world.my_pe // half * half
    return world.group(f"half {first}", range(first, first + half))


def _told(call):
    try:
        call()
    except CommError as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


IN_A_HOST = (torch_symmetric_memory, kernels_of_a_host, nvshmem_host)
"""Programs that find another thing over hosts: the second is what is refused there."""

PROGRAMS = (
    fused,
    nccl_collectives,
    hccl_collectives,
    torch_groups,
    torch_messages,
    torch_training,
    pypto_collectives,
    pypto_experts,
    partitioned,
    kernels,
)


def run_all(names):
    """Run programs by name; return what each has found."""
    return {name: globals()[name]() for name in names}


def from_outside(transport):
    """A partitioned program that starts its own PEs, compared operation by operation with the whole one."""
    import emu.sdy

    x, w = (values((8, 12), np.dtype(np.float32), seed) for seed in (1, 2))
    options = emu.LaunchOptions(transport=transport)
    with emu.sdy.compile(emu.sdy.parse(SHARDED), check="unsharded") as program:
        found = digest(*program(x, w, options=options))
        assert program.verdict is not None
        return [found, str(program.verdict)]


def run_on(n_pes, names, transport):
    """Return what programs have found, in PE order."""
    uses_torch = any(name.startswith(("nccl", "hccl", "torch", "nvshmem")) for name in names)
    return emu.launch(
        run_all,
        n_pes,
        args=(names,),
        transport=transport,
        preload=("torch",) if uses_torch else (),
    )


def main():
    found = run_on(int(sys.argv[1]), sys.argv[2:], "mpi")
    path = Path(os.environ["HOST_PROGRAMS_FOLDER"], f"FRONTS-{os.getpid()}")
    outside = from_outside("mpi") if "partitioned" in sys.argv else None
    path.write_text(json.dumps([found, outside]))


if __name__ == "__main__":
    main()
