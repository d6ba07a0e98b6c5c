"""What front ends do is recorded, too: kernels, operators, ops, products and turns, ranges by other names, checks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import emu
import emu.shmem
import emu.trace
import emu.triton.language as tl
from emu import triton
from emu.trace.events import MEETING_BIT, TURN_BIT, Kind
from emu.trace.reading import Trace, read_trace


@triton.jit
def double(x, out, size: tl.constexpr):
    at = tl.program_id(0) * size + tl.arange(0, size)
    tl.store(out + at, 2 * tl.load(x + at))


@triton.jit
def tell(flag, pe):
    if emu.shmem.my_pe() == 0:
        emu.shmem.signal(flag, 1, pe)
    else:
        emu.shmem.wait_until(flag, "eq", 1)
    emu.shmem.barrier()


def launches() -> None:
    x = np.arange(64, dtype=np.float32)
    double[(4,)](x, np.empty_like(x), 16)


def talks() -> None:
    world = emu.world()
    flag = world.alloc(1, np.int64, name="flag", poison=False)
    tell[(1,)](flag.local, 1)


def multiplies() -> None:
    from emu.mc2 import matmul_reduce_scatter

    world = emu.world()
    x = np.ones((64 * world.n_pes, 32), np.float16)
    matmul_reduce_scatter(x, np.ones((32, 16), np.float16))


def computes() -> None:
    from emu import pypto

    @pypto.frontend.jit
    def add(x: pypto.Tensor(), out: pypto.Tensor()) -> None:
        out[:, :] = x + x

    x = np.ones((8, 8), np.float32)
    add(x, np.zeros_like(x))


def several() -> None:
    launches()
    talks()
    multiplies()


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    path = tmp_path_factory.mktemp("fronts") / "a.emutrace"
    emu.launch(several, 2, trace=path)
    return read_trace(path)


def of_kind(trace: Trace, pe: int, kind: Kind) -> dict[str, list[np.void]]:
    """The events of a kind by name."""
    found: dict[str, list[np.void]] = {}
    for event in trace.events[pe]:
        if event["kind"] == kind:
            found.setdefault(trace.sites[pe][event["site"]].name, []).append(event)
    return found


def line_of(text: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if text in line)


def test_a_launch_has_its_grid_and_line(trace: Trace) -> None:
    (launch,) = of_kind(trace, 0, Kind.LAUNCH)["double"]
    site = trace.sites[0][launch["site"]]
    assert site.details == {"grid": [4, 1, 1]}
    assert (Path(site.file), site.line) == (Path(__file__), line_of("double[(4,)](x"))
    assert launch["duration"] > 0


def test_what_kernels_tell_each_other_is_recorded(trace: Trace) -> None:
    (signal,) = of_kind(trace, 0, Kind.ATOMIC)["atomic in a kernel"]
    (wait,) = of_kind(trace, 1, Kind.WAIT)["wait in a kernel"]
    assert signal["peer"] == 1
    assert wait["peer"] == 0
    assert wait["flow"] == signal["flow"] != 0
    barriers = [of_kind(trace, pe, Kind.BARRIER)["barrier in a kernel"] for pe in range(2)]
    assert [len(each) for each in barriers] == [1, 1]
    assert barriers[0][0]["flow"] == barriers[1][0]["flow"] >= MEETING_BIT
    (launch,) = of_kind(trace, 0, Kind.LAUNCH)["tell"]
    assert launch["start"] <= signal["start"] <= launch["start"] + launch["duration"]
    (launch,) = of_kind(trace, 1, Kind.LAUNCH)["tell"]
    assert wait["duration"] > 0  # since the kernel began to look
    assert launch["start"] <= wait["start"]
    assert wait["start"] + wait["duration"] <= launch["start"] + launch["duration"]
    assert wait["start"] + wait["duration"] > signal["start"]


def test_turns_and_products_of_a_fused_operator_are_recorded(trace: Trace) -> None:
    turns = [of_kind(trace, pe, Kind.TURN) for pe in range(2)]
    for pe in range(2):
        assert any(event["thread"] == 0 for each in turns[pe].values() for event in each)
    flows = [{int(event["flow"]) for event in turns[pe]["ReduceScatter"]} for pe in range(2)]
    assert flows[0] == flows[1]
    assert all(TURN_BIT <= flow < MEETING_BIT for flow in flows[0])
    assert {int(e["thread"]) for e in turns[0]["ReduceScatter"]} == {1}


def sends() -> None:
    from emu import pypto
    from emu.pypto import distributed as dist

    @pypto.frontend.jit
    def send(x: pypto.Tensor()) -> None:
        inbox = dist.create_shmem_tensor("alone", 1, x.dtype, [1, 4])
        pypto.set_vec_tile_shapes(1, 4)
        stored = dist.shmem_put(x, [0, 0], inbox, 0)
        dist.shmem_signal(inbox, 0, 1, target_pe=0, pred=[stored])
        dist.shmem_wait_until(inbox, 0, 1)

    for _ in range(20):
        send(pypto.from_numpy(np.ones((1, 4), np.float32)))


def test_creates_of_pypto_have_no_sites_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "a.emutrace"
    emu.launch(sends, 1, trace=path)
    names = [site.name for site in read_trace(path).sites[0]]
    assert not [name for name in names if any(digit in name for digit in "123456789")]
    assert len(names) < 30


def test_ops_of_pypto_are_recorded(tmp_path: Path) -> None:
    path = tmp_path / "a.emutrace"
    emu.launch(computes, 1, trace=path)
    taken = read_trace(path)
    assert any("add" in name for name in of_kind(taken, 0, Kind.OP))


def trains() -> None:
    torch = pytest.importorskip("torch")
    import emu.accelerator

    emu.accelerator.install()
    x = torch.ones(8, 8, device="cuda", requires_grad=True)
    with torch.profiler.record_function("forward"):
        y = (x @ x).sum()
    torch.cuda.nvtx.range_push("pushed")
    y.backward()
    torch.cuda.nvtx.range_pop()
    torch.cuda.nvtx.mark("marked")
    del x, y


def names() -> None:
    torch = pytest.importorskip("torch")
    import emu.accelerator

    emu.accelerator.install()
    mstx = torch.npu.mstx

    @mstx.mstx_range("decorated", domain="mine")
    def decorated() -> int:
        return mstx.range_start("inner")  # type: ignore[no-any-return]

    outer = mstx.range_start("outer", None)
    inner = decorated()
    mstx.mark("marked")
    mstx.range_end(outer)
    mstx.range_end(inner)
    mstx.range_end(inner)  # it has ended
    mstx.range_end(0)
    mstx.range_start("without an end")


def test_names_of_mstx_are_recorded(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "a.emutrace"
    emu.launch(names, 1, trace=path, preload=["torch"])
    taken = read_trace(path)
    ranges = of_kind(taken, 0, Kind.RANGE)
    assert set(ranges) == {"outer", "mine: decorated", "inner"}
    (outer,), (inner,), (decorated_,) = ranges["outer"], ranges["inner"], ranges["mine: decorated"]
    assert outer["start"] <= decorated_["start"] <= inner["start"]
    assert outer["start"] + outer["duration"] <= inner["start"] + inner["duration"]
    site = taken.sites[0][outer["site"]]
    assert (Path(site.file), site.line) == (Path(__file__), line_of('mstx.range_start("outer"'))
    assert list(of_kind(taken, 0, Kind.INSTANT)) == ["marked"]


def test_torch_is_recorded_with_the_ranges_that_it_names(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "a.emutrace"
    emu.launch(trains, 1, trace=path, preload=["torch"])
    taken = read_trace(path)
    ops, ranges = of_kind(taken, 0, Kind.OP), of_kind(taken, 0, Kind.RANGE)
    assert {"ones", "sum"} <= set(ops)
    assert set(ranges) == {"forward", "pushed", "autograd.backward"}
    (forward,), (sum_,) = ranges["forward"], ops["sum"]
    assert forward["start"] <= sum_["start"] <= forward["start"] + forward["duration"]
    (pushed,), (backward,) = ranges["pushed"], ranges["autograd.backward"]
    assert pushed["start"] <= backward["start"]
    assert list(of_kind(taken, 0, Kind.INSTANT)) == ["marked"]
    memory = of_kind(taken, 0, Kind.ALLOCATE)
    assert any(event["size"] == 256 for event in memory["device memory"])
    assert sum(event["size"] for event in memory["free of device memory"]) < 0


def races() -> None:
    world = emu.world()
    cell = world.alloc(4, np.float32, name="cell")
    world.put(cell, np.ones(4, np.float32), 0)  # the race
    world.barrier()


def test_a_race_is_found_at_the_same_lines_and_is_an_instant(tmp_path: Path) -> None:
    path = tmp_path / "a.emutrace"
    with pytest.raises(emu.CheckError) as caught:
        emu.launch(races, 2, trace=path, checks=emu.Checks(race=True))
    (report,) = caught.value.reports
    assert report.first.line == report.second.line == line_of("# the race")
    taken = read_trace(path)
    assert taken.status == "ok"
    for pe in range(2):
        (instant,) = of_kind(taken, pe, Kind.INSTANT)["race"]
        site = taken.sites[pe][instant["site"]]
        assert site.line == report.first.line
        assert site.details == {"text": report.text}


def in_turn() -> None:
    world = emu.world()
    flag = world.alloc(1, np.int64, name="flag", poison=False)
    world.signal_op(flag, 1, 1 - world.my_pe)
    world.wait_until(flag, emu.Cmp.EQ, 1)
    world.sync()


@pytest.mark.parametrize("fields", ["schedule", "link"])
def test_worlds_of_other_kinds_are_recorded(tmp_path: Path, fields: str) -> None:
    path = tmp_path / "a.emutrace"
    given = {
        "schedule": {"schedule": emu.Schedule(strategy="delay")},
        "link": {"link": emu.Link(bandwidth=1e9, latency=1e-6)},
    }
    emu.launch(in_turn, 2, trace=path, **given[fields])
    taken = read_trace(path)
    for pe in range(2):
        (wait,) = of_kind(taken, pe, Kind.WAIT)["wait_until"]
        assert wait["peer"] == 1 - pe
        assert len(of_kind(taken, pe, Kind.BARRIER)) == 1
    assert (taken.meta["link"] is None) == (fields == "schedule")
