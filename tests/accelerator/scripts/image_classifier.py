"""An image classifier, trained in the manner of scripts that read data with worker processes."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def top(output, target, k):
    with torch.no_grad():
        _, best = output.topk(k, 1, True, True)
        hits = best.t().eq(target.view(1, -1).expand_as(best.t()))
        return hits[:k].reshape(-1).float().sum(0, keepdim=True).mul_(100.0 / target.size(0))


def main(checkpoint):
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    gpu = rank % torch.cuda.device_count()
    dist.init_process_group(backend="nccl", init_method="env://", world_size=ranks, rank=rank)
    torch.cuda.set_device(gpu)
    layers = (nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))
    model = nn.parallel.DistributedDataParallel(model.cuda(gpu), device_ids=[gpu])
    criterion = nn.CrossEntropyLoss().cuda(gpu)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.1)
    data = TensorDataset(torch.randn(32, 3, 8, 8), torch.randint(0, 10, (32,)))
    sampler = DistributedSampler(data)
    loader = DataLoader(
        data, batch_size=4, num_workers=2, pin_memory=True, sampler=sampler, persistent_workers=True
    )
    held_out = DataLoader(Subset(data, range(10)), batch_size=5, pin_memory=True)
    copies = torch.cuda.Stream()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for epoch in range(2):
        sampler.set_epoch(epoch)
        model.train()
        begin.record()
        for images, target in loader:
            assert images.is_pinned()
            with torch.cuda.stream(copies):
                images = images.cuda(gpu, non_blocking=True)
                target = target.cuda(gpu, non_blocking=True)
            torch.cuda.current_stream().wait_stream(copies)
            images.record_stream(torch.cuda.current_stream())
            target.record_stream(torch.cuda.current_stream())
            output = model(images)
            loss = criterion(output, target)
            accuracy = top(output, target, 5)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        end.record()
        torch.cuda.synchronize()
        assert begin.elapsed_time(end) > 0
        totals = torch.tensor([loss.item(), 1.0], dtype=torch.float32, device=f"cuda:{gpu}")
        dist.all_reduce(totals, dist.ReduceOp.SUM, async_op=False)
        assert totals[1].item() == ranks
        assert 0 <= accuracy.item() <= 100
        model.eval()
        with torch.no_grad():
            for images, target in held_out:
                criterion(model(images.cuda(gpu)), target.cuda(gpu))
        scheduler.step()
    if rank == 0:
        torch.save({"epoch": 2, "state": model.state_dict()}, checkpoint)
        for where, device in (
            (f"cuda:{gpu}", f"cuda:{gpu}"),
            ({"cuda:0": "cuda:1"}, "cuda:1"),
            (lambda storage, place: storage.cuda(1), "cuda:1"),
            (lambda storage, place: storage, "cpu"),
        ):
            saved = torch.load(checkpoint, map_location=where)
            assert {str(value.device) for value in saved["state"].values()} == {device}
        model.load_state_dict(saved["state"])
    dist.destroy_process_group()
    print("done")


main(sys.argv[1])
