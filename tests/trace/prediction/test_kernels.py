"""The roofline of a launch: its limits, its waves, what bounds it, and that more of a device is never slower."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.trace.prediction.devices.device import Device
from emu.trace.prediction.devices.files import load_device
from emu.trace.prediction.errors import PredictionError
from emu.trace.prediction.kernels import kernel_time, occupancy_of, rate_of
from emu.trace.prediction.products import fastest_product, product_work
from emu.trace.prediction.reuse import memory_bytes
from emu.trace.prediction.work import Traffic, Work

H100 = load_device("h100")
FREE = ["launch.latency=0", "program.start=0", "program.op=0"]


@st.composite
def works(draw: st.DrawFn) -> Work:
    size = st.floats(0, 1e13)
    tensors = []
    for _ in range(draw(st.integers(0, 3))):
        unique = draw(size)
        tensors.append(Traffic(unique * draw(st.floats(1, 1000)), unique))
    return Work(
        programs=draw(st.integers(1, 10**6)),
        dot=draw(st.dictionaries(st.sampled_from(["f16", "tf32", "i8", "odd"]), size, max_size=2)),
        vector=draw(st.dictionaries(st.sampled_from(["f32", "f64", "i64"]), size, max_size=2)),
        special=draw(size),
        atomics=draw(st.floats(0, 1e9)),
        tensors=tuple(tensors),
        ops=draw(st.floats(0, 1e4)),
        most=draw(st.floats(1, 50)),
        warps=draw(st.none() | st.integers(1, 64)),
    )


RATES = (
    "hbm",
    "l2",
    "l2_size",
    "sms",
    "special",
    "dot.f16",
    "dot.tf32",
    "vector.f32",
    "efficiency.dot",
    "reuse.share",
)


@settings(max_examples=150, deadline=None)
@given(key=st.sampled_from(RATES), work=works(), factor=st.floats(1, 100))
def test_more_of_a_device_is_never_slower(key: str, work: Work, factor: float) -> None:
    if key == "sms":
        base, factor = H100.changed(["sms=4"]), math.ceil(factor)
    else:
        base = H100.changed([f"{key}=0.01x", "hbm=2x"])
    more = base.changed([f"{key}={factor}x"])
    assert kernel_time(work, more).seconds <= kernel_time(work, base).seconds * (1 + 1e-9)


@settings(max_examples=50, deadline=None)
@given(work=works(), key=st.sampled_from(["launch.latency", "program.start", "program.op"]))
def test_longer_overheads_are_never_faster(work: Work, key: str) -> None:
    assert (
        kernel_time(work, H100.changed([f"{key}=1ms"])).seconds >= kernel_time(work, H100).seconds
    )


@settings(max_examples=50, deadline=None)
@given(work=works())
def test_memory_and_links_without_limits_leave_the_arithmetic(work: Work) -> None:
    device = H100.changed([*FREE, "hbm=inf", "l2=inf", "atomic=inf"])
    time = kernel_time(work, device)
    assert time.memory == 0
    assert time.seconds == time.compute
    assert time.bound == ("compute" if time.compute else "launch")


@settings(max_examples=50, deadline=None)
@given(work=works())
def test_what_comes_from_memory_is_between_what_is_touched_and_what_is_moved(work: Work) -> None:
    moved = memory_bytes(work, H100, 132.0)
    assert work.footprint * (1 - 1e-9) <= moved <= work.total * (
        1 + 1e-9
    ) or moved == pytest.approx(work.footprint)


@settings(max_examples=40, deadline=None)
@given(work=works(), factor=st.integers(2, 9))
def test_more_work_of_each_kind_is_never_faster(work: Work, factor: int) -> None:
    tensors = tuple(Traffic(t.moved * factor, t.unique * factor) for t in work.tensors)
    more = Work(
        programs=work.programs,
        dot={k: v * factor for k, v in work.dot.items()},
        vector={k: v * factor for k, v in work.vector.items()},
        special=work.special * factor,
        atomics=work.atomics * factor,
        tensors=tensors,
        ops=work.ops * factor,
        most=work.most,
        warps=work.warps,
    )
    assert kernel_time(more, H100).seconds >= kernel_time(work, H100).seconds * (1 - 1e-9)


def test_a_large_product_is_bound_by_its_tensor_cores() -> None:
    time = kernel_time(product_work(8192, 8192, 8192, "f16"), H100)
    assert (time.bound, time.unit) == ("compute", "dot f16")
    ideal = 2 * 8192**3 / (H100["dot.f16"] * H100["efficiency.dot"])
    assert ideal <= time.seconds < 1.1 * ideal
    assert time.waves == math.ceil(64 * 32 / 132)


def test_a_copy_is_bound_by_memory_and_a_small_one_by_its_launch() -> None:
    def copied(nbytes: float) -> Work:
        return Work(programs=1024, tensors=(Traffic(nbytes, nbytes), Traffic(nbytes, nbytes)))

    time = kernel_time(copied(1e9), H100)
    assert (time.bound, time.unit) == ("memory", "hbm")
    assert time.execution == pytest.approx(2e9 / (3.35e12 * H100["efficiency.hbm"]))
    assert kernel_time(copied(1e4), H100).bound == "launch"


def test_the_last_wave_may_be_nearly_empty() -> None:
    device = H100.changed(FREE)
    full = kernel_time(Work(programs=132, dot={"f16": 132e9}), device)
    one_more = kernel_time(Work(programs=133, dot={"f16": 133e9}), device)
    assert one_more.compute == pytest.approx(2 * full.compute)
    assert (full.tail, one_more.tail) == (1.0, pytest.approx(133 / 264))
    assert (full.waves, one_more.waves) == (1, 2)


def test_few_programs_use_few_multiprocessors() -> None:
    device = H100.changed(FREE)
    one = kernel_time(Work(programs=1, dot={"f16": 1e9}), device)
    all_of = kernel_time(Work(programs=132, dot={"f16": 1e9}), device)
    assert one.compute == pytest.approx(132 * all_of.compute)


def test_the_busiest_program_ends_last() -> None:
    device = H100.changed(FREE)
    even = kernel_time(Work(programs=132, special=1e9), device)
    uneven = kernel_time(Work(programs=132, special=1e9, most=3.0), device)
    assert uneven.compute == pytest.approx(3 * even.compute)


def test_units_come_one_after_the_other_unless_they_overlap() -> None:
    work = Work(programs=132, dot={"f16": 1e12}, special=4e9)
    apart = kernel_time(work, H100)
    assert apart.compute == pytest.approx(sum(time for _, time in apart.units))
    together = kernel_time(work, H100.changed(["overlap=1"]))
    assert together.compute == pytest.approx(max(time for _, time in together.units))


def test_a_weight_that_all_programs_read_is_read_once() -> None:
    work = Work(programs=4096, tensors=(Traffic(1e9, 1e9), Traffic(4096 * 32768.0, 32768.0)))
    assert memory_bytes(work, H100, 1056) == pytest.approx(1e9 + 32768, rel=1e-3)


def test_programs_in_a_square_share_more_than_those_that_share_nothing() -> None:
    work = product_work(16384, 16384, 16384, "f16")
    grouped = memory_bytes(work, H100, 132)
    rows = memory_bytes(work, H100.changed(["reuse.spread=1"]), 132)
    assert grouped < rows / 2


def test_what_the_wave_before_has_left_in_the_cache_is_not_read_again() -> None:
    work = product_work(8192, 8192, 8192, "f16")
    nothing_kept = memory_bytes(work, H100.changed(["reuse.share=0"]), 132)
    kept = memory_bytes(work, H100.changed(["reuse.share=1"]), 132)
    assert work.footprint < kept < 0.95 * nothing_kept


def test_occupancy_follows_warps_and_products() -> None:
    assert occupancy_of(Work(programs=9), H100) == 16
    assert occupancy_of(Work(programs=9, warps=32), H100) == 2
    assert occupancy_of(Work(programs=9, dot={"f16": 1.0}), H100) == 1
    assert occupancy_of(Work(programs=9, warps=64), load_device("a2")) == 1


def test_a_dtype_without_a_rate_takes_that_of_a_wider_one() -> None:
    a2 = load_device("a2")
    assert rate_of(a2, "dot", "f8") == a2["dot.f16"]
    assert rate_of(a2, "dot", "tf32") == a2["dot.f32"]
    assert rate_of(a2, "vector", "f64") == a2["vector.f32"]
    assert rate_of(H100, "vector", "i64") == H100["vector.i32"]
    assert rate_of(H100, "dot", "strange") == H100["dot.f32"]


def test_the_fastest_tile_of_a_small_product_is_small() -> None:
    small = fastest_product(512, 512, 512, "f16", H100)
    assert small.seconds < kernel_time(product_work(512, 512, 512, "f16"), H100).seconds


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"programs": 0}, "programs must be an integer of at least 1, but got 0"),
        ({"programs": True}, "programs must be an integer"),
        ({"programs": 1.5}, "programs must be an integer"),
        (
            {"programs": 1, "special": -1.0},
            r"special must be a number in \[0, 1e\+30\], but got -1.0",
        ),
        ({"programs": 1, "ops": math.nan}, "ops must be a number"),
        ({"programs": 1, "most": 0.5}, r"most must be a number in \[1, "),
        ({"programs": 1, "dot": {"f16": math.inf}}, r"dot\['f16'\] must be a number"),
        ({"programs": 1, "vector": {"f32": "x"}}, r"vector\['f32'\] must be a number"),
        (
            {"programs": 1, "tensors": (Traffic(1.0, 2.0),)},
            "unique must be at most the 1 bytes that are moved, but got 2",
        ),
        ({"programs": 1, "warps": 65}, r"warps must be in \[1, 64\], but got 65"),
    ],
)
def test_impossible_work_is_refused(how: dict[str, object], message: str) -> None:
    with pytest.raises(PredictionError, match=message):
        Work(**how)  # type: ignore[arg-type]


def test_impossible_products_are_refused() -> None:
    for arguments, message in (
        ((0, 1, 1), "m must be in"),
        ((1, 1, 2.5), "k must be in"),
        ((1, True, 1), "n must be in"),
    ):
        with pytest.raises(PredictionError, match=message):
            product_work(*arguments)  # type: ignore[arg-type]
    with pytest.raises(PredictionError, match="dtype must be one of f64, f32"):
        product_work(1, 1, 1, "f15")


def test_a_device_is_a_value() -> None:
    assert isinstance(H100, Device)
