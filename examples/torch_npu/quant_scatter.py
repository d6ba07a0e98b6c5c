"""An int8 key cache of four sequences, written token by token with npu_quant_scatter_ and checked.

Each step quantises one new key of every sequence and writes it in place, at the position where that
sequence has arrived. The sequences begin with prompts of different lengths.

Run with: emu run -n 1 examples/torch_npu/quant_scatter.py
"""

import torch
import torch_npu

BATCH, HEADS, LENGTH, WIDTH, STEPS = 4, 2, 64, 128, 16

generator = torch.Generator().manual_seed(0)
keys = torch.randn(STEPS, BATCH, HEADS, 1, WIDTH, generator=generator).bfloat16()
scales = (0.01 + 0.03 * torch.rand(WIDTH, generator=generator)).bfloat16()
zero_points = torch.randint(-8, 9, (WIDTH,), generator=generator).bfloat16()
prompts = torch.tensor([0, 7, 20, 41], dtype=torch.int32)

cache = torch.zeros(BATCH, HEADS, LENGTH, WIDTH, dtype=torch.int8).npu()
address = cache.data_ptr()
on_device = scales.npu(), zero_points.npu()
for step in range(STEPS):
    positions = (prompts + step).npu()
    torch_npu.npu_quant_scatter_(
        cache, positions, keys[step].npu(), *on_device, axis=-2, quant_axis=-1
    )

rounded = torch.round(keys.float() / scales.float() + zero_points.float())
quantised = rounded.clamp(-128, 127).to(torch.int8)
expected = torch.zeros(BATCH, HEADS, LENGTH, WIDTH, dtype=torch.int8)
for step in range(STEPS):
    for sequence in range(BATCH):
        expected[sequence, :, prompts[sequence] + step] = quantised[step, sequence, :, 0]
assert cache.data_ptr() == address, "the cache was written in place"
assert torch.equal(cache.cpu(), expected)
print(f"{STEPS * BATCH} keys of {HEADS}x{WIDTH} in a cache on {cache.device}: bit for bit")
