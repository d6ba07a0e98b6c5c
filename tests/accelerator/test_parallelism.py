"""What torch builds on devices and process groups: each result is that of one process on the CPU."""

from __future__ import annotations

import copy
import os
import shutil
import tempfile
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from emulated_devices import LOADED_ONCE

import emu

torch = pytest.importorskip("torch")
pytest.importorskip("torch.distributed")
dist = torch.distributed
nn = torch.nn
F = torch.nn.functional


class Layers(nn.Module):
    def __init__(self, width: int = 8, hidden: int = 16) -> None:
        super().__init__()
        self.a = nn.Linear(width, hidden)
        self.b = nn.Linear(hidden, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(self.b(F.relu(self.a(x))))


def made(seed: int = 0) -> Layers:
    torch.manual_seed(seed)
    return Layers()


def batch(*shape: int) -> torch.Tensor:
    """The same numbers on every rank and in the reference."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(2))


def whole(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def close(got: torch.Tensor, expected: torch.Tensor) -> None:
    got = whole(got)
    assert got.is_cuda, got.device
    assert not expected.is_cuda
    torch.testing.assert_close(got.detach().cpu(), expected.detach(), rtol=1e-4, atol=1e-5)


def everything_close(model: nn.Module, reference: nn.Module) -> None:
    for got, expected in zip(model.parameters(), reference.parameters(), strict=True):
        close(got, expected)


def mesh() -> Any:
    return dist.device_mesh.init_device_mesh("cuda", (dist.get_world_size(),))


def train(
    model: nn.Module,
    reference: nn.Module,
    x: torch.Tensor,
    mine: Callable[[torch.Tensor], torch.Tensor] = lambda x: x,
    clip: bool = False,
) -> None:
    """Train both, the model on ``mine(x)``, the reference on all of x; the parameters must agree."""
    make = torch.optim.AdamW
    steps = [
        (model, make(model.parameters(), lr=0.05, foreach=False), mine(x).cuda()),
        (reference, make(reference.parameters(), lr=0.05), x),
    ]
    for _ in range(3):
        norms = []
        for each, optimizer, given in steps:
            optimizer.zero_grad()
            F.mse_loss(each(given), given * 2).backward()
            if clip:
                norms.append(nn.utils.clip_grad_norm_(each.parameters(), 1.0))
            optimizer.step()
        if clip:
            close(*norms)
    everything_close(model, reference)


def part(x: torch.Tensor) -> torch.Tensor:
    return x.chunk(dist.get_world_size())[dist.get_rank()]


# --- sharded tensors ---------------------------------------------------------------------------


def sharded_tensors() -> None:
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

    everyone = mesh()
    n = dist.get_world_size()
    value = batch(8, 12)
    for placement in (Shard(0), Shard(1), Replicate()):
        x = distribute_tensor(value.cuda(), everyone, [placement])
        assert x.device == x.to_local().device == torch.device("cuda", dist.get_rank())
        assert x.is_cuda
        for other in (Shard(0), Shard(1), Replicate()):
            moved = x.redistribute(everyone, [other])
            assert moved.to_local().is_cuda
            close(moved, value)
        for got, expected in (
            (x + x, value + value),
            (x.sum(), value.sum()),
            (x @ x.T, value @ value.T),
            (x.softmax(-1), value.softmax(-1)),
        ):
            assert got.device == x.device
            close(got, expected)
    leaf = distribute_tensor(value.cuda().requires_grad_(), everyone, [Shard(0)])
    (leaf * leaf).sum().backward()
    assert leaf.grad.is_cuda
    close(leaf.grad, 2 * value)
    ones = torch.ones(3, device="cuda")
    close(DTensor.from_local(ones, everyone, [Partial()]).full_tensor(), torch.full((3,), n * 1.0))
    assert "device='cuda" in repr(x)
    with pytest.raises(RuntimeError, match=r"mixed torch.Tensor and DTensor"):
        x + value.cuda()


def sharded_random_numbers() -> None:
    from torch.distributed.tensor import Replicate, Shard, rand, zeros

    everyone = mesh()
    torch.manual_seed(5)
    shards = rand(64, device_mesh=everyone, placements=[Shard(0)])
    after = torch.rand(1)
    assert shards.is_cuda
    assert shards.full_tensor().unique().numel() == 64  # no shard has another's numbers
    replicas = rand(8, device_mesh=everyone, placements=[Replicate()]).to_local().cpu()
    everybody = [torch.empty(9).cuda() for _ in range(dist.get_world_size())]
    dist.all_gather(everybody, torch.cat([replicas, after]).cuda())
    for other in everybody:  # neither replicas nor the generators drift apart
        assert torch.equal(other, everybody[0])
    torch.manual_seed(5)
    again = rand(64, device_mesh=everyone, placements=[Shard(0)])
    assert torch.equal(again.to_local(), shards.to_local())
    nn.init.uniform_(zeros(8, 8, device_mesh=everyone, placements=[Shard(0)]))


def wrappers_without_a_list_of_content() -> None:
    """A subclass of a script's own, which says only that it is made on the device of its content."""

    class Logged(torch.Tensor):
        @staticmethod
        def __new__(cls, content):
            made = torch.Tensor._make_wrapper_subclass(
                cls, content.size(), dtype=content.dtype, device=content.device
            )
            made.content = content
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            plain = [arg.content if isinstance(arg, Logged) else arg for arg in args]
            return Logged(func(*plain, **(kwargs or {})))

    x = torch.ones(3, device="cuda")
    y = Logged(x) + x
    assert (y.device, y.content.device) == (x.device, x.device)
    with pytest.raises(RuntimeError, match=r"found at least two devices"):
        y + torch.ones(3)


# --- tensor parallel ---------------------------------------------------------------------------


def tensor_parallel() -> None:
    from torch.distributed.tensor import parallel

    reference = made()
    model = parallel.parallelize_module(
        made().cuda(), mesh(), {"a": parallel.ColwiseParallel(), "b": parallel.RowwiseParallel()}
    )
    x = batch(4, 8)
    rows = model.b(F.relu(model.a(x.cuda())))  # an AsyncCollectiveTensor: nobody waited for it
    assert rows.is_cuda
    expected = reference.b(F.relu(reference.a(x)))
    close(x.cuda() + rows, x + expected)
    close(F.mse_loss(rows, x.cuda()), F.mse_loss(expected, x))
    train(model, reference, x)


def sequence_parallel() -> None:
    from torch.distributed.tensor import Replicate, Shard, parallel

    reference = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
    model = parallel.parallelize_module(
        copy.deepcopy(reference).cuda(),
        mesh(),
        {
            "0": parallel.SequenceParallel(),
            "1": parallel.ColwiseParallel(input_layouts=Shard(1)),
            "3": parallel.RowwiseParallel(output_layouts=Shard(1)),
        },
    )
    model = parallel.parallelize_module(
        model,
        mesh(),
        parallel.PrepareModuleOutput(output_layouts=Shard(1), desired_output_layouts=Replicate()),
    )
    x = batch(2, 4 * dist.get_world_size(), 8)
    mine = x.chunk(dist.get_world_size(), 1)[dist.get_rank()].cuda()
    got, expected = model(mine), reference(x)
    close(got, expected)
    got.square().sum().backward()
    expected.square().sum().backward()
    for one, other in zip(model.parameters(), reference.parameters(), strict=True):
        close(one.grad, other.grad)


def parallel_loss() -> None:
    from torch.distributed.tensor import Shard, parallel

    classes = 4 * dist.get_world_size()
    torch.manual_seed(0)
    reference = nn.Linear(8, classes)
    model = parallel.parallelize_module(
        copy.deepcopy(reference).cuda(),
        mesh(),
        parallel.ColwiseParallel(output_layouts=Shard(-1), use_local_output=False),
    )
    x, target = batch(6, 8), torch.arange(6) % classes
    with parallel.loss_parallel():
        loss = F.cross_entropy(model(x.cuda()), target.cuda())
        loss.backward()
    expected = F.cross_entropy(reference(x), target)
    expected.backward()
    close(loss, expected)
    close(model.weight.grad, reference.weight.grad)


# --- data parallel -----------------------------------------------------------------------------


def data_parallel() -> None:
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    rank, n = dist.get_rank(), dist.get_world_size()
    parallel = nn.parallel.DistributedDataParallel
    x = batch(2 * n, 8)
    model = parallel(made(rank).cuda(), device_ids=[rank])  # rank 0's parameters are given to all
    reference = made(0)
    train(model, reference, x, part)
    with model.no_sync():
        model(part(x).cuda()).sum().backward()
    hooked = parallel(made().cuda())
    hooked.register_comm_hook(None, default_hooks.bf16_compress_hook)
    hooked(part(x).cuda()).square().sum().backward()
    plain = made()
    plain(x).square().sum().backward()
    for one, other in zip(hooked.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one.grad.cpu(), other.grad / n, rtol=0.05, atol=0.05)


def fully_sharded() -> None:
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    x = batch(2 * dist.get_world_size(), 8)
    for reshard in (True, False):
        model = nn.Sequential(made(0), made(1)).cuda()
        for block in model:
            fully_shard(block, mesh=mesh(), reshard_after_forward=reshard)
        fully_shard(model, mesh=mesh(), reshard_after_forward=reshard)
        train(model, nn.Sequential(made(0), made(1)), x, part, clip=True)
    with torch.device("meta"):
        empty = Layers()
    fully_shard(empty)  # the mesh of all ranks, on the script's accelerator
    empty.to_empty(device="cuda")
    for layer in empty.children():
        layer.reset_parameters()
    assert empty(part(x).cuda()).is_cuda
    low = made().cuda()
    fully_shard(low, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))
    assert low(part(x).cuda()).dtype is torch.bfloat16


def fully_sharded_of_old() -> None:
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy

    rank = dist.get_rank()
    x = batch(2 * dist.get_world_size(), 8)
    options: tuple[dict[str, Any], ...] = (
        {},
        {"use_orig_params": True, "sharding_strategy": ShardingStrategy.SHARD_GRAD_OP},
        {"device_id": torch.cuda.current_device(), "limit_all_gathers": True},
    )
    for given in options:
        reference = nn.Sequential(made(0), made(1))
        model = copy.deepcopy(reference)
        if "device_id" not in given:
            model.cuda()
        blocks = [FullyShardedDataParallel(block, **given) for block in model]
        sharded = FullyShardedDataParallel(nn.Sequential(*blocks), **given)
        pairs = ((sharded, part(x).cuda()), (reference, x))
        optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each, _ in pairs]
        for _ in range(3):
            for (each, mine), optimizer in zip(pairs, optimizers, strict=True):
                optimizer.zero_grad()
                F.mse_loss(each(mine), mine * 2).backward()
                optimizer.step()
        with FullyShardedDataParallel.summon_full_params(sharded):
            everything_close(sharded, reference)
        assert next(sharded.parameters()).device == torch.device("cuda", rank)
        assert sharded.state_dict()


def batch_norm_of_all() -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    torch.manual_seed(0)
    reference = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    nn.init.normal_(reference[1].weight)
    model = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(reference)).cuda()
    model = nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    x = batch(2 * n, 3, 5, 5).requires_grad_()
    mine = part(x.detach()).cuda().requires_grad_()
    for _ in range(2):
        got, expected = model(mine), reference(x)
        close(got, part(expected))
    got.square().mean().backward()
    expected.square().mean().backward()
    for one, other in zip(model.parameters(), reference.parameters(), strict=True):
        close(one.grad, other.grad)
    close(mine.grad / n, part(x.grad))
    close(model.module[1].running_mean, reference[1].running_mean)
    close(model.module[1].running_var, reference[1].running_var)
    model.eval()
    reference.eval()
    close(model(mine), part(reference(x)))


# --- pipelines and checkpoints -----------------------------------------------------------------


def pipelines() -> None:
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

    rank, n = dist.get_rank(), dist.get_world_size()
    x = batch(8, 8)
    for schedule in (ScheduleGPipe, Schedule1F1B):
        reference = nn.Sequential(*[made(seed) for seed in range(n)])
        F.mse_loss(reference(x), x * 2).backward()
        device = torch.device("cuda", rank)
        stage = PipelineStage(made(rank).to(device), rank, n, device)
        steps = schedule(stage, n_microbatches=4, loss_fn=F.mse_loss)
        if rank == 0:
            steps.step(x.to(device))
        elif rank < n - 1:
            steps.step()
        else:
            close(steps.step(target=(x * 2).to(device), losses=[]), reference(x))
        for one, other in zip(stage.submod.parameters(), reference[rank].parameters(), strict=True):
            close(one.grad, other.grad)


def distributed_checkpoints() -> None:
    from torch.distributed import checkpoint
    from torch.distributed.checkpoint import state_dict as states
    from torch.distributed.fsdp import fully_shard

    folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder)

    def prepare(seed: int) -> tuple[nn.Module, torch.optim.Optimizer]:
        model = made(seed).cuda()
        fully_shard(model, mesh=mesh())
        return model, torch.optim.AdamW(model.parameters(), lr=0.1)

    try:
        model, optimizer = prepare(0)
        model(batch(2, 8).cuda()).square().sum().backward()
        optimizer.step()
        saved, moments = states.get_state_dict(model, optimizer)
        saved = {"model": saved, "optimizer": moments, "step": 7}
        checkpoint.save(saved, checkpoint_id=folder[0])
        other, its_optimizer = prepare(5)
        loaded, moments = states.get_state_dict(other, its_optimizer)
        loaded = {"model": loaded, "optimizer": moments, "step": 0}
        checkpoint.load(loaded, checkpoint_id=folder[0])
        assert loaded["step"] == 7
        for one, expected in zip(other.parameters(), model.parameters(), strict=True):
            assert one.is_cuda
            assert torch.equal(whole(one), whole(expected))
        dist.barrier()
    finally:
        if dist.get_rank() == 0:
            shutil.rmtree(folder[0], ignore_errors=True)


def two_dimensions() -> None:
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import parallel

    n = dist.get_world_size()
    if n < 4:
        return
    both = dist.device_mesh.init_device_mesh("cuda", (2, n // 2), mesh_dim_names=("data", "tensor"))
    plan = {"a": parallel.ColwiseParallel(), "b": parallel.RowwiseParallel()}
    model = parallel.parallelize_module(made().cuda(), both["tensor"], plan)
    fully_shard(model, mesh=both["data"])
    mine = both["data"].get_local_rank()
    train(model, made(), batch(4, 8), lambda x: x.chunk(2)[mine])


# --- running them ------------------------------------------------------------------------------


CHECKS = [
    sharded_tensors,
    sharded_random_numbers,
    wrappers_without_a_list_of_content,
    tensor_parallel,
    sequence_parallel,
    parallel_loss,
    data_parallel,
    fully_sharded,
    fully_sharded_of_old,
    batch_norm_of_all,
    pipelines,
    distributed_checkpoints,
    two_dimensions,
]
ON_FOUR = ["sharded_tensors", "tensor_parallel", "pipelines", "two_dimensions"]


def run_checks(names: list[str]) -> dict[str, str]:
    """Run checks until one fails: ranks that disagree after a failure would wait for each other."""
    import emu.accelerator

    emu.accelerator.install()
    warnings.simplefilter("ignore")
    rank = emu.world().my_pe
    os.environ["RANK"] = os.environ["LOCAL_RANK"] = str(rank)
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    failures: dict[str, str] = {}
    for check in CHECKS:
        if check.__name__ not in names:
            continue
        if failures:
            failures[check.__name__] = "not run"
            continue
        try:
            check()
        except (Exception, pytest.fail.Exception):  # noqa: BLE001 - each is reported by its own test
            failures[check.__name__] = traceback.format_exc()
        failed = [None] * dist.get_world_size()
        dist.all_gather_object(failed, dict(failures))
        for theirs in failed:
            failures |= theirs
    dist.destroy_process_group()
    return failures


def launch(names: list[str], n: int) -> dict[str, str]:
    return emu.launch(run_checks, n, args=(names,), preload=LOADED_ONCE)[0]


@pytest.fixture(scope="module")
def on_two() -> dict[str, str]:
    return launch([check.__name__ for check in CHECKS], 2)


@pytest.fixture(scope="module")
def on_four() -> dict[str, str]:
    return launch(ON_FOUR, 4)


@pytest.mark.parametrize("name", [check.__name__ for check in CHECKS[:-1]])
def test_on_two_devices_it_gives_what_one_process_gives(on_two: dict[str, str], name: str) -> None:
    assert name not in on_two, on_two[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_FOUR)
def test_on_four_devices_it_gives_what_one_process_gives(
    on_four: dict[str, str], name: str
) -> None:
    assert name not in on_four, on_four[name]
