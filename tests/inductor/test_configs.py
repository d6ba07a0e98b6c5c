"""Sizes of blocks of Inductor's kernels, by what their text says."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

pytest.importorskip("torch")

from emu.inductor import configs

BOTH = {"XBLOCK", "R0_BLOCK"}


def reduction(*loads: str, index: str = "xindex", row: str = "r0_index", block: bool = True) -> str:
    """Return a kernel's text as Inductor writes it, that loads from these offsets."""
    lines = "\n".join(
        f"        tmp{i} = tl.load(in_ptr{i} + ({at}), m)" for i, at in enumerate(loads)
    )
    size = "XBLOCK: tl.constexpr, " if block else ""
    return (
        textwrap.dedent(
            f"""
            @triton_heuristics.reduction()
            @triton.jit
            def kernel(in_ptr0, in_ptr1, xnumel, {size}R0_BLOCK: tl.constexpr):
                x0 = {index}
                x1 = xindex // 32
                for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
                    r0_1 = {row}
            """
        )
        + lines
    )


@pytest.mark.parametrize(
    ("text", "run"),
    [
        (reduction("x0 + 512*r0_1", "x0"), 1024),
        (reduction("r0_1 + 784*x0 + 50176*x1", "r0_1"), 0),
        (reduction("r0_1"), 0),
        (reduction("x0 + 32*r0_1 + 65536*x1", index="(xindex % 32)"), 32),
        (reduction("x0 + 32*r0_1 + 65536*x1", index="(xindex % ks0)"), 1024),
        (
            reduction("x0 + 512*r0_1", "r0_1"),
            1024,
        ),  # a row is read again and again, from the nearest cache
        (reduction("x0 + 512*r0_1", "r0_1 + 1024*x0"), None),
        (reduction("x0 + 4*r0_1 + 64*x1", index="(xindex % 4)"), None),
        (reduction("r0_1 + 7*x0", row="(r0_index % 7)"), None),
        (reduction("3*x0 + 512*r0_1"), None),
        (reduction("x1 + 512*r0_1"), None),
        (reduction("tmp5 + 512*x0"), None),
        (reduction(), None),
    ],
)
def test_the_axis_along_which_loads_are_contiguous(text: str, run: int | None) -> None:
    assert configs.contiguous_run(text) == run


@pytest.mark.parametrize(
    ("kind", "hints", "text", "names", "expected"),
    [
        ("POINTWISE", {"x": 4096}, "", {"XBLOCK"}, {}),
        ("POINTWISE", {"x": 4096}, "x0 = (xindex % 2048)", {"XBLOCK"}, {"XBLOCK": 1024}),
        ("POINTWISE", {"x": 512}, "x1 = xindex // 2048", {"XBLOCK"}, {"XBLOCK": 512}),
        ("POINTWISE", {"x": 4096}, "x1 = ((xindex // 768) % 5)", {"XBLOCK"}, {"XBLOCK": 256}),
        ("POINTWISE", {"x": 4096}, "x0 = (xindex % 1000)", {"XBLOCK"}, {}),
        ("POINTWISE", {"x": 4096}, "x0 = (xindex % ks0)", {"XBLOCK"}, {}),
        ("POINTWISE", {"x": 4096, "y": 64}, "", {"XBLOCK", "YBLOCK"}, None),
        ("REDUCTION", {"x": 8192, "r0_": 512}, reduction("x0 + 8192*r0_1"), BOTH, {"XBLOCK": 1024, "R0_BLOCK": 1}),
        ("REDUCTION", {"x": 256, "r0_": 512}, reduction("x0 + 256*r0_1"), BOTH, {"XBLOCK": 128, "R0_BLOCK": 1}),
        ("REDUCTION", {"x": 32, "r0_": 512}, reduction("x0 + 32*r0_1"), BOTH, {"XBLOCK": 32, "R0_BLOCK": 1}),
        ("REDUCTION", {"x": 64, "r0_": 4096}, reduction("r0_1 + 4096*x0"), BOTH, {"XBLOCK": 1, "R0_BLOCK": 2048}),
        ("REDUCTION", {"x": 64, "r0_": 4096}, reduction("r0_1 + 4096*x0"), {*BOTH, "RSPLIT"}, None),
        ("REDUCTION", {"x": 64, "r0_": 4096}, reduction(), BOTH, None),
        ("PERSISTENT_REDUCTION", {"x": 64, "r0_": 128}, reduction("r0_1 + 128*x0"), {"XBLOCK"}, {"XBLOCK": 8}),
        ("PERSISTENT_REDUCTION", {"x": 64, "r0_": 16384}, reduction("r0_1 + 16384*x0"), {"XBLOCK"}, {"XBLOCK": 2}),
        ("PERSISTENT_REDUCTION", {"x": 64, "r0_": 32}, reduction("x0 + 64*r0_1"), {"XBLOCK"}, {"XBLOCK": 32}),
        ("PERSISTENT_REDUCTION", {"x": 1, "r0_": 32}, reduction("r0_1", block=False), {"XBLOCK"}, {"XBLOCK": 1}),
        ("TEMPLATE", {}, "", {"BLOCK_M"}, None),
    ],
)  # fmt: skip
def test_sizes(
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    hints: dict[str, int],
    text: str,
    names: set[str],
    expected: dict[str, int] | None,
) -> None:
    monkeypatch.setattr(configs.environment, "usable_cores", lambda: 2)
    assert configs.choose(kind, hints, text, names) == expected


@pytest.mark.filterwarnings("ignore")  # torch's own, of its compiler
@pytest.mark.parametrize("how", ["first", "full"])
def test_a_kernel_has_one_configuration_unless_all_are_asked_for(
    inductor: Any, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    torch = inductor
    from torch._inductor.runtime import triton_heuristics

    monkeypatch.setenv("EMU_AUTOTUNE", how)
    counts: list[int] = []
    precompile = triton_heuristics.CachingAutotuner.precompile

    def count(self: Any, *args: Any, **kwargs: Any) -> None:
        counts.append(len(self.configs or ()))
        precompile(self, *args, **kwargs)

    monkeypatch.setattr(triton_heuristics.CachingAutotuner, "precompile", count)
    torch._dynamo.reset()
    torch.manual_seed(
        0
    )  # of other numbers two orders of a sum may differ by more than the tolerance
    x, y = torch.randn(300, 72), torch.randn(300, 72)

    def column_sums(x: Any, y: Any) -> Any:
        return (x * y).sum(0), torch.softmax(x + y, 0).amax(1)

    with torch._inductor.utils.fresh_cache():
        found = torch.compile(column_sums)(x, y)
    torch.testing.assert_close(found, column_sums(x, y))
    assert counts
    assert (set(counts) == {1}) == (how == "first")
