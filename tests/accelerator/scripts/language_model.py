"""A small language model, trained in the manner of scripts for several GPUs under torchrun."""

import inspect
import math
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel

WIDTH, HEADS, LENGTH, WORDS = 32, 4, 16, 65


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        lower = torch.tril(torch.ones(LENGTH, LENGTH))
        self.register_buffer("mask", lower.view(1, 1, LENGTH, LENGTH))
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = (
            y.view(b, t, HEADS, c // HEADS).transpose(1, 2) for y in self.qkv(x).split(WIDTH, dim=2)
        )
        fused = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
        explicit = self.drop(F.softmax(scores, dim=-1)) @ v
        return self.out((fused + explicit).transpose(1, 2).contiguous().view(b, t, c))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        self.norm, self.attention = nn.LayerNorm(WIDTH), Attention()
        self.rest = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.GELU())
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.words.weight = self.head.weight

    def forward(self, tokens, targets=None):
        places = torch.arange(tokens.size(1), dtype=torch.long, device=tokens.device)
        x = self.words(tokens) + self.places(places)
        x = x + self.attention(self.norm(x))
        logits = self.head(x + self.rest(x))
        if targets is None:
            return logits[:, [-1], :], None
        return logits, F.cross_entropy(logits.view(-1, WORDS), targets.view(-1), ignore_index=-1)

    @torch.no_grad()
    def generate(self, tokens, count):
        for _ in range(count):
            logits = self(tokens[:, -LENGTH:])[0][:, -1, :]
            best, _ = torch.topk(logits, 10)
            logits[logits < best[:, [-1]]] = -float("inf")
            tokens = torch.cat((tokens, torch.multinomial(F.softmax(logits, -1), 1)), dim=1)
        return tokens


def main(checkpoint):
    init_process_group(backend="nccl")
    rank = int(os.environ["LOCAL_RANK"])
    device = f"cuda:{rank}"
    torch.cuda.set_device(device)
    torch.manual_seed(1337 + rank)
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.set_float32_matmul_precision("high")
    data = (np.arange(4000) * 7 % WORDS).astype(np.uint16)

    def batch():
        starts = torch.randint(len(data) - LENGTH - 1, (4,))
        pieces = [torch.from_numpy(data[i : i + LENGTH + 1].astype(np.int64)) for i in starts]
        both = torch.stack(pieces)
        return (
            part.contiguous().pin_memory().to(device, non_blocking=True)
            for part in (both[:, :-1], both[:, 1:])
        )

    bare = Model().to(device)
    scaler = torch.amp.GradScaler("cuda")
    fused = "fused" in inspect.signature(torch.optim.AdamW).parameters
    groups = [
        {"params": [p for p in bare.parameters() if p.dim() >= 2], "weight_decay": 0.1},
        {"params": [p for p in bare.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.95), fused=fused)
    model = DistributedDataParallel(torch.compile(bare), device_ids=[rank])
    torch.cuda.reset_peak_memory_stats()
    losses = []
    for _ in range(8):
        for micro in range(2):
            model.require_backward_grad_sync = micro == 1
            x, y = batch()
            with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                _, loss = model(x, y)
            scaler.scale(loss / 2).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
    assert losses[-1] < losses[0], losses
    assert 0 < torch.cuda.memory_allocated() < torch.cuda.max_memory_allocated()
    total = torch.stack([p.sum() for p in bare.parameters()]).sum()
    sums = [torch.zeros_like(total) for _ in range(torch.distributed.get_world_size())]
    torch.distributed.all_gather(sums, total)
    assert all(torch.equal(one, sums[0]) for one in sums)  # the ranks hold the same model
    if rank == 0:
        torch.save({"model": bare.state_dict(), "optimizer": optimizer.state_dict()}, checkpoint)
        saved = torch.load(checkpoint, map_location=device)
        bare.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        written = bare.generate(torch.zeros((1, 1), dtype=torch.long, device=device), 5)
        assert written.shape == (1, 6)
        assert written.is_cuda
    destroy_process_group()
    print("done")


main(sys.argv[1])
