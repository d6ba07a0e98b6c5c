"""Peaks of memory, counted by hand. A tensor<256xf32> takes 1 KiB."""

from __future__ import annotations

import pytest

import emu.sdy

T = "tensor<256xf32>"
KIB = 1024


def peak(body: str, arguments: str = f"%a: {T}", results: str = T) -> int:
    return emu.sdy.cost(f"func.func @main({arguments}) -> {results} {{\n{body}\n}}").peak_bytes


def test_a_value_lives_from_its_operation_to_its_last_use() -> None:
    chain = f"""
      %0 = stablehlo.negate %a : {T}
      %1 = stablehlo.abs %0 : {T}
      %2 = stablehlo.ceil %1 : {T}
      return %2 : {T}"""
    assert peak(chain) == 3 * KIB  # %a, and two at a time
    kept = chain.replace("stablehlo.ceil %1", "stablehlo.add %0, %1")
    assert peak(kept) == 4 * KIB
    assert peak(chain, f"%a: {T} {{jax.buffer_donor = true}}") == 2 * KIB
    assert peak(f"return %a : {T}") == KIB


def test_views_and_updates_in_place_take_nothing() -> None:
    wide = "tensor<4x256xf32>"
    update = f"""
      %c = stablehlo.constant dense<0> : tensor<i32>
      %r = stablehlo.reshape %a : ({T}) -> tensor<1x256xf32>
      %0 = stablehlo.dynamic_update_slice %b, %r, %c, %c
          : ({wide}, tensor<1x256xf32>, tensor<i32>, tensor<i32>) -> {wide}
      return %0 : {wide}"""
    donated = f"%a: {T}, %b: {wide} {{jax.buffer_donor = true}}"
    assert peak(update, donated, wide) == 5 * KIB + 4
    assert peak(update, donated.split(" {")[0], wide) == 9 * KIB + 4  # the caller keeps %b


def test_a_loop_reuses_what_it_carries() -> None:
    body = f"""
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %start = stablehlo.negate %a : {T}
      %0:2 = stablehlo.while(%i = %zero, %x = %start) : tensor<i32>, {T}
      cond {{
        %n = stablehlo.constant dense<5> : tensor<i32>
        %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      }} do {{
        %one = stablehlo.constant dense<1> : tensor<i32>
        %y = stablehlo.tanh %x : {T}
        %j = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %j, %y : tensor<i32>, {T}
      }}
      return %0#1 : {T}"""
    # %a, what is carried, and %y while %x still lives; the counter and a constant.
    assert peak(body) == 3 * KIB + 8


def test_a_branch_counts_if_it_is_the_larger_one() -> None:
    body = f"""
      %0 = "stablehlo.if"(%p) ({{
        %1 = stablehlo.negate %a : {T}
        stablehlo.return %1 : {T}
      }}, {{
        %1 = stablehlo.negate %a : {T}
        %2 = stablehlo.abs %1 : {T}
        %3 = stablehlo.add %1, %2 : {T}
        stablehlo.return %3 : {T}
      }}) : (tensor<i1>) -> {T}
      return %0 : {T}"""
    # The condition, and the index of the case that is made of it.
    assert peak(body, f"%p: tensor<i1>, %a: {T}") == 4 * KIB + 1 + 4


def test_a_called_function_adds_what_it_needs_inside() -> None:
    text = f"""
    func.func @main(%a: {T}) -> {T} {{
      %0 = func.call @inner(%a) : ({T}) -> {T}
      return %0 : {T}
    }}
    func.func private @inner(%x: {T}) -> {T} {{
      %0 = stablehlo.negate %x : {T}
      %1 = stablehlo.abs %0 : {T}
      return %1 : {T}
    }}"""
    assert emu.sdy.cost(text).peak_bytes == 3 * KIB
    composite = text.replace(
        "func.call @inner(%a)", 'stablehlo.composite "my.op" %a {decomposition = @inner}'
    )
    found = emu.sdy.cost(composite)
    assert (found.peak_bytes, found.flops) == (3 * KIB, 512)


@pytest.mark.parametrize(("element", "size"), [("i1", 1), ("i4", 1), ("bf16", 2), ("f8E4M3FN", 1), ("complex<f64>", 16)])  # fmt: skip
def test_elements_take_whole_bytes(element: str, size: int) -> None:
    type_ = f"tensor<10x{element}>"
    found = emu.sdy.cost(f"func.func @main(%a: {type_}) -> {type_} {{ return %a : {type_} }}")
    assert (found.argument_bytes, found.result_bytes, found.peak_bytes) == (10 * size,) * 3


def test_shards_are_what_a_device_holds() -> None:
    text = """
    sdy.mesh @mesh = <["x"=4]>
    func.func @main(%a: tensor<256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<256xf32> {
      %0 = stablehlo.negate %a : tensor<256xf32>
      return %0 : tensor<256xf32>
    }"""
    found = emu.sdy.cost(text)
    assert (found.argument_bytes, found.peak_bytes, found.flops) == (256, 512, 64)
