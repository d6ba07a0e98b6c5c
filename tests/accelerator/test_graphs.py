"""CUDA graphs: a capture changes nothing, a replay computes again, and what waits is refused."""

from __future__ import annotations

import copy
import pathlib
import tempfile
import threading

import pytest
from emulated_devices import check_on_devices

torch = pytest.importorskip("torch")


def operators_are_recorded_and_replayed():
    graph = torch.cuda.CUDAGraph()
    x = torch.arange(6.0, device="cuda:1")
    total, table = torch.zeros(6, device="cuda:1"), torch.randn(6, 3, device="cuda:1")
    at = torch.zeros(6, dtype=torch.int64, device="cuda:1")
    with torch.cuda.graph(graph):
        assert torch.cuda.is_current_stream_capturing()
        assert torch.cuda.current_stream().is_capturing()
        at.copy_(x)  # was 0, is restored
        y = torch.nn.functional.layer_norm(x * 2 + torch.ones(6, device="cuda:1"), (6,))
        z = table[at] + y[:, None]
        total += z.sum(1)
        kept = y.view(2, 3)
        host = torch.ones(2) + 1  # at once: the host is no part of it
    assert not torch.cuda.is_current_stream_capturing()
    assert host.tolist() == [2, 2]
    assert total.eq(0).all()
    assert at.eq(0).all()
    assert z.isnan().all()  # nothing has run
    assert z.device == torch.device("cuda:1")
    versions = [t._version for t in (total, y)]
    for factor in (1, 3):
        x.copy_(torch.tensor([0.0, 5, 1, 4, 2, 3]) % (6 // factor))
        graph.replay()
        expected = torch.nn.functional.layer_norm(x * 2 + 1, (6,))
        torch.testing.assert_close(y, expected)
        torch.testing.assert_close(z, table[x.long()] + expected[:, None])
        assert kept.data_ptr() == y.data_ptr()
    assert [t._version for t in (total, y)] == versions
    before = total.clone()
    graph.replay()
    torch.testing.assert_close(total, before + z.sum(1))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "graph.txt")
        graph.debug_dump(str(path))
        assert "layer_norm" in path.read_text(encoding="utf-8")


def kernels_are_recorded_and_replayed():
    from emu import triton
    from emu.kernels.core.launch_count import Launches
    from emu.triton import language as tl

    @triton.jit
    def scale(x, y, n: tl.constexpr):
        at = tl.arange(0, n)
        tl.store(y + at, tl.load(x + at) * 3)

    x, y = torch.ones(8, device="cuda"), torch.zeros(8, device="cuda")
    scale[(1,)](x, y, 8)
    y.zero_()
    graph, side = torch.cuda.CUDAGraph(), torch.zeros(8, device="cuda")
    with torch.cuda.graph(graph):
        inner = x + 1
        scale[(1,)](inner, y, 8)
        out = y * 2
        other = threading.Thread(target=lambda: scale[(1,)](x, side, 8))
        other.start()
        other.join()
    assert y.eq(0).all()
    assert side.eq(3).all()  # launched by a thread that captures nothing
    x.fill_(4)
    before = Launches.count
    graph.replay()
    assert Launches.count == before + 1
    assert out.eq(30).all()


def a_step_of_training_is_captured():
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(5, 7), torch.nn.ReLU(), torch.nn.Linear(7, 2)
    ).cuda()
    other = copy.deepcopy(model)
    inputs = [torch.randn(4, 5, device="cuda") for _ in range(4)]
    fixed = inputs[0].clone()

    def step(model, optimizer, x):
        optimizer.zero_grad(set_to_none=False)
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    mine = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    theirs = torch.optim.SGD(other.parameters(), lr=0.1, momentum=0.9)
    step(model, mine, inputs[0])
    step(other, theirs, inputs[0])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step(model, mine, fixed)
    for x in inputs[1:]:
        fixed.copy_(x)
        graph.replay()
        torch.testing.assert_close(loss, step(other, theirs, x))
    for found, expected in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(found, expected)


def callables_are_graphed():
    layer = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.Dropout(0.5)).cuda()
    plain = copy.deepcopy(layer).eval()
    sample = torch.randn(64, 8, device="cuda", requires_grad=True)
    graphed = torch.cuda.make_graphed_callables(layer, (sample,))
    x = torch.randn(64, 8, device="cuda", requires_grad=True)
    first, second = graphed(x).clone(), graphed(x).clone()
    assert not torch.equal(first, second)  # each replay draws new numbers
    kept = first != 0
    torch.testing.assert_close(first[kept], (2 * plain(x))[kept])
    graphed(x).sum().backward()
    assert x.grad is not None
    assert x.grad.is_cuda


def what_waits_is_refused():
    x, event = torch.ones(3, device="cuda"), torch.cuda.Event()
    refused = "not permitted when stream is capturing"
    for name in ("item", "tolist", "cpu", "nonzero", "synchronize", "event", "replay", "bool"):
        graph = torch.cuda.CUDAGraph()
        calls = {
            "event": event.synchronize,
            "synchronize": torch.cuda.synchronize,
            "replay": graph.replay,
            "item": lambda: x.sum().item(),
            "bool": lambda: bool(x.sum() > 0),
        }
        call = calls.get(name, lambda name=name: getattr(x, name)())
        said = refused if name != "replay" else "captured before"
        with torch.cuda.graph(graph), pytest.raises(RuntimeError, match=said):
            call()
        assert not torch.cuda.is_current_stream_capturing()
        if name != "replay":
            with pytest.raises(RuntimeError, match="capture failed"):
                graph.replay()
    assert x.tolist() == [1, 1, 1]


def wrong_calls_are_named():
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="before it is replayed"):
        graph.replay()
    with pytest.raises(RuntimeError, match="after capture_begin"):
        graph.pool()
    with pytest.raises(RuntimeError, match="after capture_begin"):
        graph.capture_end()
    with pytest.raises(ValueError, match=r"capture_error_mode must be one of .*, but got 'no'"):
        graph.capture_begin(capture_error_mode="no")
    graph.capture_begin(pool=torch.cuda.graph_pool_handle())
    with pytest.raises(RuntimeError, match="while the graph is captured"):
        graph.reset()
    with pytest.raises(RuntimeError, match="while a graph is captured"):
        torch.cuda.CUDAGraph().capture_begin()
    graph.capture_end()
    with pytest.raises(RuntimeError, match="already owns"):
        graph.capture_begin()
    graph.reset()
    with torch.cuda.graph(graph, pool=graph.pool()):
        pass
    graph.replay()
    with pytest.raises(NotImplementedError, match="list of calls"):
        graph.raw_cuda_graph()
    assert isinstance(graph, torch.cuda.graphs.CUDAGraph)


def each_replay_draws_the_next_numbers():
    own = torch.Generator("cuda").manual_seed(1)
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(own)
    torch.manual_seed(4)
    before, host = torch.cuda.get_rng_state(), torch.get_rng_state()
    with torch.cuda.graph(graph):
        drawn = torch.rand(4, device="cuda")
        others = torch.empty(4, device="cuda").normal_(generator=own)
    assert torch.equal(torch.cuda.get_rng_state(), before)  # nothing has run
    found = []
    for _ in range(2):
        graph.replay()
        found.append((drawn.tolist(), others.tolist()))
    torch.manual_seed(4)
    own.manual_seed(1)
    for rand, normal in found:
        assert torch.rand(4, device="cuda").tolist() == rand
        assert torch.empty(4, device="cuda").normal_(generator=own).tolist() == normal
    assert torch.equal(torch.get_rng_state(), host)


@pytest.mark.parametrize(
    "check",
    [
        each_replay_draws_the_next_numbers,
        operators_are_recorded_and_replayed,
        kernels_are_recorded_and_replayed,
        a_step_of_training_is_captured,
        callables_are_graphed,
        what_waits_is_refused,
        wrong_calls_are_named,
    ],
)
def test_graphs(check) -> None:
    check_on_devices(check)
