"""Programs on several streams that lack an order, for ``--check streams``, and how each is repaired.

A line that ends in ``#1`` and one that ends in ``#2`` are the pair that is reported. A line ``#+ TEXT`` is the repair:
the repaired program has TEXT in its place.
"""

from __future__ import annotations

from emu import triton
from emu.triton import language as tl

BEGIN = """\
s0, s1, s2 = torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream()
x = torch.ones(64, device="cuda")
for s in (s1, s2):
    s.wait_stream(s0)
"""

PROGRAMS = {
    "read_of_another_stream": """
with torch.cuda.stream(s1):
    y = x * 2  #1
#+ s0.wait_stream(s1)
z = y + 1  #2
""",
    "side_stream_begins_too_early": """
y = x * 2  #1
with torch.cuda.stream(s1):
    #+ s1.wait_stream(s0)
    z = y + 1  #2
#+ s0.wait_stream(s1)
""",
    "write_after_read": """
with torch.cuda.stream(s1):
    y = x * 2  #1
#+ s0.wait_stream(s1)
x.zero_()  #2
""",
    "write_after_write": """
with torch.cuda.stream(s1):
    x.fill_(1)  #1
with torch.cuda.stream(s2):
    #+ s2.wait_stream(s1)
    x.fill_(2)  #2
""",
    "event_recorded_too_early": """
event = torch.cuda.Event()
with torch.cuda.stream(s1):
    event.record()
    y = x * 2  #1
    #+ event.record()
s0.wait_event(event)
z = y + 1  #2
""",
    "event_on_the_wrong_stream": """
event = torch.cuda.Event()
with torch.cuda.stream(s1):
    y = x * 2  #1
event.record()
#+ event.record(s1)
event.wait()
z = y + 1  #2
""",
    "event_awaited_by_another_stream": """
with torch.cuda.stream(s1):
    y = x * 2  #1
event = s1.record_event()
s2.wait_event(event)
#+ s0.wait_event(event)
z = y + 1  #2
""",
    "host_waits_for_the_wrong_stream": """
with torch.cuda.stream(s1):
    y = x * 2  #1
s2.synchronize()
#+ s1.synchronize()
z = y + 1  #2
""",
    "chain_that_lacks_a_link": """
with torch.cuda.stream(s1):
    y = x * 2  #1
with torch.cuda.stream(s2):
    #+ s2.wait_stream(s1)
    x.sum()
s0.wait_stream(s2)
z = y + 1  #2
""",
    "views_that_overlap": """
with torch.cuda.stream(s1):
    x[:33].fill_(1)  #1
with torch.cuda.stream(s2):
    #+ s2.wait_stream(s1)
    x[32:].fill_(2)  #2
""",
    "columns_that_overlap": """
m = x.view(8, 8)
with torch.cuda.stream(s1):
    m[:, :3].fill_(1)  #1
with torch.cuda.stream(s2):
    #+ s2.wait_stream(s1)
    m[:, 2:4].fill_(2)  #2
""",
    "value_of_another_stream": """
with torch.cuda.stream(s1):
    y = x.sum()  #1
#+ s0.wait_stream(s1)
y.item()  #2
""",
    "blocking_copy_of_another_stream": """
with torch.cuda.stream(s1):
    y = x * 2  #1
#+ s1.synchronize()
y.cpu()  #2
""",
    "list_of_another_stream": """
with torch.cuda.stream(s1):
    y = x * 2  #1
#+ torch.cuda.synchronize()
y.tolist()  #2
""",
    "host_reads_too_early": """
y = x.to("cpu", non_blocking=True)  #1
#+ torch.cuda.synchronize()
y.sum()  #2
""",
    "host_reads_pinned_memory_too_early": """
y = torch.empty(64, pin_memory=True)
y.copy_(x, non_blocking=True)  #1
#+ s0.synchronize()
y.numpy()  #2
""",
    "host_writes_pinned_memory_too_early": """
h = torch.ones(64).pin_memory()
y = h.to("cuda", non_blocking=True)  #1
#+ torch.cuda.synchronize()
h.zero_()  #2
""",
    "prefetch_without_a_wait": """
h = torch.ones(64).pin_memory()
with torch.cuda.stream(s1):
    y = h.cuda(non_blocking=True)  #1
#+ s0.wait_stream(s1)
#+ y.record_stream(s0)
z = y * 2  #2
""",
    "freed_without_record_stream": """
y = torch.ones(64, device="cuda")
s1.wait_stream(s0)
with torch.cuda.stream(s1):
    z = y * 2  #1
#+ y.record_stream(s1)
del y
w = torch.ones(64, device="cuda")  #2
""",
    "freed_in_a_loop": """
def step():
    with torch.cuda.stream(s1):
        batch = torch.ones(64, device="cuda")  #2
    s0.wait_stream(s1)
    #+ batch.record_stream(s0)
    return batch.sum()  #1

a = step()
b = step()
""",
    "gradients_used_on_another_stream": """
w = torch.ones(64, device="cuda", requires_grad=True)
s1.wait_stream(s0)
with torch.cuda.stream(s1):
    (w * x).sum().backward()  #1
#+ s0.wait_stream(s1)
w.grad.zero_()  #2
""",
    "hook_on_another_stream": """
w = torch.ones(64, device="cuda", requires_grad=True)
seen = torch.zeros(64, device="cuda")
s2.wait_stream(s0)
def hook(grad):
    #+ s2.wait_stream(torch.cuda.current_stream())
    grad.record_stream(s2)
    with torch.cuda.stream(s2):
        seen.add_(grad)  #2
w.register_hook(hook)
(w * x).sum().backward()  #1
""",
    "atomic_operations_and_a_store": """
out = torch.zeros(64, device="cuda")
s1.wait_stream(s0)
with torch.cuda.stream(s1):
    count[(1,)](out, BLOCK=64)  #1
#+ s0.wait_stream(s1)
double[(1,)](x, out, 64, BLOCK=64)  #2
""",
    "kernel_reads_too_early": """
out = torch.empty(64, device="cuda")
with torch.cuda.stream(s1):
    y = x * 2  #1
#+ s0.wait_stream(s1)
double[(1,)](y, out, 64, BLOCK=64)  #2
""",
    "result_of_a_kernel_used_too_early": """
out = torch.empty(64, device="cuda")
s1.wait_stream(s0)
with torch.cuda.stream(s1):
    double[(1,)](x, out, 64, BLOCK=64)  #1
#+ s0.wait_stream(s1)
out.sum()  #2
""",
    "kernels_that_overlap": """
out = torch.empty(64, device="cuda")
s1.wait_stream(s0)
s2.wait_stream(s0)
with torch.cuda.stream(s1):
    double[(1,)](x, out, 33, BLOCK=64)  #1
with torch.cuda.stream(s2):
    #+ s2.wait_stream(s1)
    double[(1,)](x, out[32:], 32, BLOCK=64)  #2
""",
    "threads": """
import threading
def work():
    global y
    with torch.cuda.stream(s1):
        y = x * 2  #1
        #+ s1.synchronize()
thread = threading.Thread(target=work)
thread.start()
thread.join()
z = y + 1  #2
""",
    "replay_on_another_stream": """
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    x.mul_(2)
with torch.cuda.stream(s1):
    #+ s1.wait_stream(s0)
    graph.replay()  #1
#+ s0.wait_stream(s1)
x.sum()  #2
""",
    "compiled_function": """
with torch.cuda.stream(s1):
    y = x * 2  #1
#+ s0.wait_stream(s1)
#+ y.record_stream(s0)
z = torch.compile(lambda t: t.sin() + 1, fullgraph=True)(y)  #2
""",
    "result_of_a_compiled_function": """
f = torch.compile(lambda t: t.cos() + 1, fullgraph=True)
s1.wait_stream(s0)
with torch.cuda.stream(s1):
    y = x.clone()
    y.copy_(f(y))  #1
#+ s0.wait_stream(s1)
y.sum()  #2
""",
    "storage_freed_by_hand": """
y = torch.ones(64, device="cuda")
s1.wait_stream(s0)
with torch.cuda.stream(s1):
    z = y * 2  #1
#+ s0.wait_stream(s1)
y.untyped_storage().resize_(0)
w = torch.ones(64, device="cuda")  #2
""",
    "npu": """
a, b = torch.npu.default_stream(), torch.npu.Stream()
t = torch.ones(8, device="npu")
b.wait_stream(a)
with torch.npu.stream(b):
    y = t * 2  #1
#+ a.wait_stream(b)
z = y + 1  #2
""",
    "streams_of_any_accelerator": """
s = torch.Stream(device="cuda")
s.wait_stream(s0)
event = torch.Event(device="cuda")
with s:
    y = x * 2  #1
#+ event.record(s)
event.wait(s0)
z = y + 1  #2
""",
    "copy_between_devices": """
with torch.cuda.stream(s1):
    y = x * 2  #1
#+ s0.wait_stream(s1)
z = y.to("cuda:1")  #2
""",
    "set_stream": """
torch.cuda.set_stream(s1)
y = x * 2  #1
torch.cuda.set_stream(s2)
#+ s2.wait_stream(s1)
z = y + 1  #2
torch.cuda.set_stream(s0)
""",
}
"""Source of each program, after ``BEGIN``."""

RIGHT = {
    "parts_of_a_tensor": """
with torch.cuda.stream(s1):
    x[:32].fill_(1)
with torch.cuda.stream(s2):
    x[32:].fill_(2)
""",
    "columns": """
m = x.view(8, 8)
with torch.cuda.stream(s1):
    m[:, 0].fill_(1)
    m[1:3, 4:6] = 3
with torch.cuda.stream(s2):
    m[:, 1].fill_(2)
    m[1:3, 6:] = 3
""",
    "parts_of_a_tensor_by_kernels": """
out = torch.empty(64, device="cuda")
s1.wait_stream(s0)
s2.wait_stream(s0)
with torch.cuda.stream(s1):
    double[(1,)](x, out, 32, BLOCK=64)
with torch.cuda.stream(s2):
    double[(1,)](x[32:], out[32:], 32, BLOCK=64)
""",
    "atomic_operations_of_two_kernels": """
out = torch.zeros(64, device="cuda")
for s in (s1, s2):
    s.wait_stream(s0)
    with torch.cuda.stream(s):
        count[(4,)](out, BLOCK=64)
""",
    "two_readers": """
with torch.cuda.stream(s1):
    y = x * 2
with torch.cuda.stream(s2):
    z = x * 3
""",
    "shapes_are_no_values": """
with torch.cuda.stream(s1):
    y = x * 2
v, w = y.view(8, 8).t()[1:], torch.zeros_like(y)
assert y.shape == w.shape and y.stride() == (1,) and y.is_contiguous() and y.device.type == "cuda"
""",
    "freed_after_a_wait": """
y = torch.ones(64, device="cuda")
s1.wait_stream(s0)
with torch.cuda.stream(s1):
    z = y * 2
    del y
s0.wait_stream(s1)
w = torch.ones(64, device="cuda")
""",
    "freed_memory_goes_to_its_own_stream": """
y = torch.ones(64, device="cuda")
s1.wait_stream(s0)
with torch.cuda.stream(s1):
    z = y * 2
    del y
    w = torch.ones(64, device="cuda")
""",
    "backward_runs_where_forward_did": """
w = torch.ones(64, device="cuda", requires_grad=True)
s1.wait_stream(s0)
with torch.cuda.stream(s1):
    loss = (w * x).relu().sum()
loss.backward()
w.grad.zero_()
""",
    "backward_in_another_thread": """
import threading
w = torch.ones(64, device="cuda", requires_grad=True)
s1.wait_stream(s0)
with torch.cuda.stream(s2):
    v = (x * 2).sin()
def work():
    global loss
    with torch.cuda.stream(s1):
        loss = (w * x).relu().sum()
thread = threading.Thread(target=work)
thread.start()
thread.join()
loss.backward()
w.grad.zero_()
""",
    "branches_on_streams": """
a, b = (torch.ones(64, device="cuda", requires_grad=True) for _ in range(2))
s1.wait_stream(s0)
s2.wait_stream(s0)
with torch.cuda.stream(s1):
    p = (a * x).sin()
with torch.cuda.stream(s2):
    q = (b * x).cos()
s0.wait_stream(s1)
s0.wait_stream(s2)
((p + q) * 2).sum().backward()
with torch.no_grad():
    a -= a.grad
    b -= b.grad
p.record_stream(s0)
q.record_stream(s0)
""",
    "hooks_of_a_backward_pass": """
w = torch.ones(64, device="cuda", requires_grad=True)
seen = torch.zeros(64, device="cuda")
def hook(grad):
    s2.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s2):
        seen.add_(grad)
    grad.record_stream(s2)
w.register_hook(hook)
s1.wait_stream(s0)
with torch.cuda.stream(s1):
    loss = (w * x).sum()
loss.backward()
s0.wait_stream(s2)
seen.sum().item()
""",
    "checkpoint": """
from torch.utils.checkpoint import checkpoint
layer = torch.nn.Linear(64, 64, device="cuda")
s1.wait_stream(s0)
with torch.cuda.stream(s1):
    y = checkpoint(lambda t: layer(t).relu(), x.requires_grad_(), use_reentrant=False)
    loss = y.sum()
loss.backward()
layer.weight.grad.sum().item()
""",
    "host_weights_of_a_device_model": """
w = torch.ones(64, requires_grad=True)
loss = (w.cuda() * x).sum().cpu()
loss.backward()
w.grad.numpy()
w.data -= w.grad
""",
    "prefetch": """
batches = [torch.ones(64).pin_memory() for _ in range(4)]
total = torch.zeros((), device="cuda")
for host in batches:
    with torch.cuda.stream(s1):
        batch = host.to("cuda", non_blocking=True)
    s0.wait_stream(s1)
    batch.record_stream(s0)
    total += batch.sum()
total.item()
for host in batches:
    host.zero_()
""",
    "blocking_copies": """
h = torch.ones(64).pin_memory()
y = h.to("cuda")
h.zero_()
h.copy_(y)
h.sum()
y.cpu().numpy()
k = torch.empty(64)
k.copy_(y, non_blocking=True)
k.sum()
""",
    "event_is_asked": """
with torch.cuda.stream(s1):
    y = x.to("cpu", non_blocking=True)
    event = s1.record_event()
while not event.query():
    pass
y.sum()
""",
    "capture_on_a_side_stream": """
y = torch.zeros(64, device="cuda")
s1.wait_stream(s0)
with torch.cuda.stream(s1):
    for _ in range(2):
        y.copy_(x * 2)
s0.wait_stream(s1)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y.copy_(x * 2)
graph.replay()
y.sum().item()
""",
    "storage_that_is_freed_and_allocated_again": """
y = torch.ones(64, device="cuda")
s1.wait_stream(s0)
with torch.cuda.stream(s1):
    y.mul_(2)
y.record_stream(s1)
y.untyped_storage().resize_(0)
y.untyped_storage().resize_(256)
y.zero_()
""",
    "masks_make_the_host_wait": """
with torch.cuda.stream(s1):
    y = x[x > 0]
y.sum()
""",
    "compiled_function_that_waits": """
f = torch.compile(lambda t: (torch.cuda.synchronize(), t * 2)[1], fullgraph=True)
f(x)
""",
    "compiled_function": """
f = torch.compile(lambda t: t.sin() + 1)
with torch.cuda.stream(s1):
    y = f(x)
s0.wait_stream(s1)
y.record_stream(s0)
f(y)
""",
    "training": """
model = torch.nn.Sequential(torch.nn.Linear(64, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 1)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
with torch.autocast("cuda", torch.bfloat16):
    for _ in range(2):
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
""",
}
"""Programs in which nothing is missing."""


@triton.jit
def double(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def count(x, BLOCK: tl.constexpr):
    tl.atomic_add(x + tl.arange(0, BLOCK), 1.0)


def repaired(program: str) -> str:
    """Return a program with its repair."""
    return program.replace("#+ ", "")


def expected(text: str) -> tuple[int, int]:
    """Return the lines of a program that are reported."""
    lines = [line.rstrip() for line in text.splitlines()]
    first, second = (
        next(n for n, line in enumerate(lines, 1) if line.endswith(mark)) for mark in ("#1", "#2")
    )
    return first, second


def run(name: str, text: str) -> tuple[int, int] | str | None:
    """Run a program with the check; return the lines of the first race, None if there was none, or another error."""
    import traceback

    import torch

    from emu.accelerator import stream_check
    from emu.accelerator.stream_errors import StreamOrderError

    torch.cuda.set_stream(torch.cuda.default_stream())
    stream_check.start()
    names = {"__name__": name, "torch": torch, "double": double, "count": count}
    try:
        exec(compile(text, f"{name}.py", "exec"), names)  # noqa: S102 - the programs above
    except StreamOrderError as error:
        (race,) = error.races
        return race.first.lineno, race.second.lineno
    except Exception:  # noqa: BLE001 - the test that reads the result shows it
        return traceback.format_exc()
    finally:
        names.clear()
        stream_check.stop()
    return None


def run_all(programs: dict[str, str]) -> dict[str, tuple[int, int] | str | None]:
    """Run programs on two devices, in this process."""
    import os

    import emu.accelerator
    from emu.triton import knobs

    os.environ["EMU_DEVICES"] = "2"
    emu.accelerator.install()
    knobs.runtime.check = "streams"
    return {name: run(name, text) for name, text in programs.items()}
