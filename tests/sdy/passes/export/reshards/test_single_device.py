"""Reshards around operations on one device; the pass that lets only that device run them."""

from __future__ import annotations

import pytest

import emu.sdy

HEAD = """
sdy.mesh @g = <["x"=2, "y"=2]>
sdy.mesh @zero = <[], device_ids=[0]>
sdy.mesh @three = <[], device_ids=[3]>
"""
T = "tensor<4x8xf32>"
CUT = '[{"x"}, {}]'
INSERT = "func.func(sdy-insert-explicit-reshards)"
RESOLVE = "func.func(sdy-resolve-single-device-sharding)"


def on(mesh: str, dims: str = "[]") -> str:
    return f"<@{mesh}, {dims}>"


def program(body: str, given: str = '[{"x"}, {}]', returned: str = "[{}, {}]") -> str:
    return (
        f"{HEAD}func.func @main(%x: {T} {{sdy.sharding = #sdy.sharding{on('g', given)}}}) -> "
        f"({T} {{sdy.sharding = #sdy.sharding{on('g', returned)}}}) {{\n{body}\n}}\n"
    )


def lines(text: str, *passes: str) -> list[str]:
    """The lines of the function after passes."""
    module = emu.sdy.parse(text)
    emu.sdy.run_passes(module, ",".join(passes))
    found = [line.strip().replace(f" : {T}", "") for line in str(module).splitlines()]
    start = next(i for i, line in enumerate(found) if line.startswith("func.func @main"))
    return found[start + 1 : found.index(next(f for f in found[start:] if f.startswith("return")))]


def single(op: str, mesh: str) -> str:
    return f"{op} {{sdy.sharding = #sdy.sharding_per_value<[{on(mesh)}]>}} : {T}"


BODY = f"  %0 = {single('stablehlo.tanh %x', 'three')}\n  return %0 : {T}"
SHARDED = "sdy.sharding = #sdy.sharding_per_value<[<@three, []>]>"
INSERTED = [
    "%0 = sdy.reshard %arg0 <@g, [{}, {}]>",
    "%1 = sdy.reshard %0 <@three, []>",
    f"%2 = stablehlo.tanh %1 {{{SHARDED}}}",
    "%3 = sdy.reshard %2 <@g, [{}, {}]>",
]


@pytest.mark.parametrize("full", ["false", "true"])
def test_operands_and_results_are_whole_outside(full: str) -> None:
    passes = INSERT.replace(")", f"{{enable-full-version={full}}})")
    assert lines(program(BODY), passes) == INSERTED


def test_a_whole_operand_goes_straight_to_the_device() -> None:
    assert (
        lines(program(BODY, given="[{}, {}]"), INSERT)[0] == "%0 = sdy.reshard %arg0 <@three, []>"
    )


def test_a_second_run_leaves_what_the_first_inserted() -> None:
    once = lines(program(BODY), INSERT)
    twice = lines(program(BODY), INSERT, INSERT)
    # The result is made whole once more; reshards that change nothing go later.
    assert [line for line in twice if "@three" in line] == [
        line for line in once if "@three" in line
    ]
    collectives = "func.func(sdy-reshard-to-collectives)"
    assert lines(program(BODY), INSERT, INSERT, collectives) == lines(
        program(BODY), INSERT, collectives
    )


def test_a_reshard_of_the_user_is_an_operation_on_one_device() -> None:
    body = f"  %0 = sdy.reshard %x <@three, []> : {T}\n  return %0 : {T}"
    assert [line.partition("<")[2] for line in lines(program(body), INSERT)] == [
        "@g, [{}, {}]>",
        "@three, []>",
        "@three, []>",
        "@g, [{}, {}]>",
    ]


def test_from_device_to_device() -> None:
    body = (
        f"  %0 = {single('stablehlo.tanh %x', 'three')}\n"
        f"  %1 = {single('stablehlo.sine %0', 'zero')}\n  return %1 : {T}"
    )
    found = lines(program(body, given="[{}, {}]"), INSERT)
    assert [line.split(" ")[2] for line in found] == [
        "sdy.reshard", "stablehlo.tanh", "sdy.reshard", "sdy.reshard", "stablehlo.sine",
        "sdy.reshard",
    ]  # fmt: skip


def test_two_devices_at_once() -> None:
    module = emu.sdy.parse(
        program(
            f"  %0:2 = stablehlo.custom_call @two(%x) {{sdy.sharding = #sdy.sharding_per_value<["
            f"{on('zero')}, {on('three')}]>}} : ({T}) -> ({T}, {T})\n  return %0#0 : {T}"
        )
    )
    with pytest.raises(emu.sdy.PassFailed, match="has conflicting single-device result shardings"):
        emu.sdy.run_passes(module, INSERT)


def test_without_a_global_mesh_nothing_is_inserted() -> None:
    text = program(BODY).replace('sdy.mesh @g = <["x"=2, "y"=2]>', "")
    text = text.replace('{sdy.sharding = #sdy.sharding<@g, [{"x"}, {}]>}', "")
    text = text.replace("{sdy.sharding = #sdy.sharding<@g, [{}, {}]>}", "")
    assert lines(text, INSERT, RESOLVE) == [f"%0 = stablehlo.tanh %arg0 {{{SHARDED}}}"]


# The pass that resolves them


def test_only_the_device_runs_it() -> None:
    found = lines(program(BODY, given="[{}, {}]"), INSERT, RESOLVE)
    assert [line.replace(f" : {T}", "") for line in found] == [
        "%0 = stablehlo.partition_id : tensor<ui32>",
        "%1 = stablehlo.convert %0 : (tensor<ui32>) -> tensor<i64>",
        "%c = stablehlo.constant dense<3> : tensor<i64>",
        "%2 = stablehlo.compare EQ, %1, %c : (tensor<i64>, tensor<i64>) -> tensor<i1>",
        '%3 = "stablehlo.if"(%2) ({',
        "%5 = stablehlo.tanh %arg0",
        "stablehlo.return %5",
        "}, {",
        "%cst = stablehlo.constant dense<0.000000e+00>",
        "stablehlo.return %cst",
        f"}}) : (tensor<i1>) -> {T}",
        '%4 = sdy.all_reduce {"x", "y"} %3 out_sharding=<@g, [{}, {}]>',
    ]


def test_devices_may_be_replicas() -> None:
    passes = RESOLVE.replace(")", "{replica-count=4})")
    found = lines(program(BODY, given="[{}, {}]"), INSERT, passes)
    assert found[0] == "%0 = stablehlo.replica_id : tensor<ui32>"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("replica-count=2 partition-count=2", "devices are replicas or partitions"),
        ("replica-count=0", "must be at least 1"),
    ],
)
def test_wrong_counts(options: str, message: str) -> None:
    module = emu.sdy.parse(program(BODY))
    with pytest.raises(emu.sdy.PassFailed, match=message):
        emu.sdy.run_passes(module, RESOLVE.replace(")", f"{{{options}}})"))


def test_a_device_outside_of_the_mesh() -> None:
    module = emu.sdy.parse(program(BODY).replace("device_ids=[3]", "device_ids=[4]"))
    with pytest.raises(emu.sdy.PassFailed, match="on device 4, which is none of the 4 devices of"):
        emu.sdy.run_passes(module, f"{INSERT},{RESOLVE}")


def test_results_elsewhere_need_reshards_first() -> None:
    module = emu.sdy.parse(
        program(
            f"  %0:2 = stablehlo.custom_call @two(%x) {{sdy.sharding = #sdy.sharding_per_value<["
            f"{on('zero')}, {on('g', CUT)}]>}} : ({T}) -> ({T}, {T})\n  return %0#0 : {T}"
        )
    )
    with pytest.raises(emu.sdy.PassFailed, match="sdy-insert-explicit-reshards"):
        emu.sdy.run_passes(module, RESOLVE)
