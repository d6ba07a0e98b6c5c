"""Collectives in compiled programs: their buffers lie where all processes can use them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import emu
import emu.sdy
from emu.comm.world.current import world
from emu.sdy.execution.device import WorldDevice
from emu.stablehlo.compiled import CompiledProgram, compile_program
from emu.stablehlo.compiled.communication import SHARED_BYTES
from emu.stablehlo.compiled.storage import Kind
from emu.stablehlo.reference import evaluate
from emu.stablehlo.reference.devices import Device, run_on_threads

N_PES = 4
ROWS, COLUMNS = 256, SHARED_BYTES // 4 // 256
GROUPS = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids"
ALL = f"replica_groups = dense<[[2, 0, 1, 3]]> : tensor<1x4xi64>, {GROUPS}"
PAIRS = f"replica_groups = dense<[[0, 3], [2, 1]]> : tensor<2x2xi64>, {GROUPS}"
BIG = f"tensor<{ROWS}x{COLUMNS}xi32>"
ADD = """({ ^bb0(%p: tensor<i32>, %q: tensor<i32>):
        %s = stablehlo.add %p, %q : tensor<i32>
        stablehlo.return %s : tensor<i32> })"""

PROGRAM = f"""func.func @main(%x: {BIG}, %n: tensor<i32>) -> ({BIG}, {BIG}, tensor<{ROWS}x{COLUMNS // 2}xi32>) {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %twice = stablehlo.add %x, %x : {BIG}
  %loop:2 = stablehlo.while(%i = %zero, %y = %twice) : tensor<i32>, {BIG}
  cond {{
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }} do {{
    %j = stablehlo.add %i, %one : tensor<i32>
    %turned = stablehlo.reverse %y, dims = [0] : {BIG}
    %sum = "stablehlo.all_reduce"(%turned) {ADD} {{{ALL}}} : ({BIG}) -> {BIG}
    %z = stablehlo.subtract %sum, %x : {BIG}
    stablehlo.return %j, %z : tensor<i32>, {BIG}
  }}
  %part = "stablehlo.reduce_scatter"(%loop#1) {ADD} {{{PAIRS}, scatter_dimension = 1 : i64}}
    : ({BIG}) -> tensor<{ROWS}x{COLUMNS // 2}xi32>
  %more = stablehlo.negate %part : tensor<{ROWS}x{COLUMNS // 2}xi32>
  %gathered = "stablehlo.all_gather"(%more) {{{PAIRS}, all_gather_dim = 1 : i64}}
    : (tensor<{ROWS}x{COLUMNS // 2}xi32>) -> {BIG}
  %other = stablehlo.multiply %gathered, %loop#1 : {BIG}
  %sent = "stablehlo.all_to_all"(%other) {{
    replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>,
    channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
    split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 4 : i64}} : ({BIG}) -> {BIG}
  %last = stablehlo.xor %sent, %x : {BIG}
  return %last, %loop#1, %more : {BIG}, {BIG}, tensor<{ROWS}x{COLUMNS // 2}xi32>
}}"""


def inputs(process: int, rounds: int) -> list[np.ndarray]:
    rng = np.random.default_rng(process)
    x = rng.integers(-1000, 1000, (ROWS, COLUMNS)).astype(np.int32)
    return [x, np.array(rounds, np.int32)]


def run_in_world(program: CompiledProgram, rounds: list[int]) -> list[list[np.ndarray]]:
    here = world()
    device = WorldDevice(here, 1, here.n_pes)
    bound = program.bind(device)
    return [bound(inputs(here.my_pe, count)) for count in rounds]


def test_buffers_of_collectives_are_shared_and_the_values_are_those_of_the_reference() -> None:
    module = emu.sdy.parse(PROGRAM)
    program = compile_program(module)
    assert program.planned is not None
    shared = [r for r in program.planned.roots if r.is_shared]
    assert shared
    assert all(r.kind is Kind.BUFFER and r.nbytes >= SHARED_BYTES for r in shared)
    assert program.planned.shared >= max(r.nbytes for r in shared)
    rounds = [3, 0, 1]
    found = emu.launch(run_in_world, N_PES, args=(program, rounds))
    for number, count in enumerate(rounds):

        def reference(device: Device, count=count) -> list[np.ndarray]:
            return evaluate(module, *inputs(device.process, count), device=device)

        for pe, wanted in enumerate(run_on_threads(reference, 1, N_PES)):
            for a, b in zip(found[pe][number], wanted, strict=True):
                np.testing.assert_array_equal(a, b)


def test_buffers_that_overlap_in_time_do_not_overlap_in_the_arena_of_their_kind() -> None:
    planned = compile_program(emu.sdy.parse(PROGRAM)).planned
    assert planned is not None
    buffers = [r for r in planned.roots if r.kind is Kind.BUFFER]
    for index, a in enumerate(buffers):
        assert a.offset + a.nbytes <= (planned.shared if a.is_shared else planned.arena)
        for b in buffers[:index]:
            if a.is_shared == b.is_shared and a.start <= b.end and b.start <= a.end:
                assert a.offset + a.nbytes <= b.offset or b.offset + b.nbytes <= a.offset


def test_small_buffers_of_collectives_stay_private() -> None:
    text = PROGRAM.replace(f"x{COLUMNS}x", "x8x").replace(f"x{COLUMNS // 2}x", "x4x")
    planned = compile_program(emu.sdy.parse(text)).planned
    assert planned is not None
    assert planned.shared == 0


SUM = f"""func.func @main(%x: tensor<{{count}}xf32>) -> tensor<{{count}}xf32> {{{{
  %y = stablehlo.multiply %x, %x : tensor<{{count}}xf32>
  %z = "stablehlo.all_reduce"(%y) ({{{{ ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32> }}}}) {{{{{ALL}}}}} : (tensor<{{count}}xf32>) -> tensor<{{count}}xf32>
  %w = stablehlo.negate %z : tensor<{{count}}xf32>
  return %w : tensor<{{count}}xf32>
}}}}"""


def sums(program: CompiledProgram, count: int) -> list[bytes]:
    here = world()
    x = np.random.default_rng(here.my_pe).normal(size=count).astype(np.float32)
    x[here.my_pe * 7] = [np.nan, np.inf, -np.inf, 1e38][here.my_pe]
    bound = program.bind(WorldDevice(here, 1, here.n_pes))
    return [bound([x])[0].tobytes() for _ in range(3)]


@pytest.mark.parametrize("heap_size", [1 << 30, 1 << 21])
def test_bits_are_the_same_on_all_members_and_in_all_calls(heap_size: int) -> None:
    """In a heap that has no room for them the buffers are private, and the bits are the same."""
    count = 3 * SHARED_BYTES // 4 + 37  # uneven slices
    program = compile_program(emu.sdy.parse(SUM.format(count=count)))
    assert program.planned is not None
    assert program.planned.shared >= 4 * count
    found = emu.launch(sums, N_PES, args=(program, count), heap_size=heap_size)
    assert len({bits for per_pe in found for bits in per_pe}) == 1
    members = [np.random.default_rng(pe).normal(size=count).astype(np.float32) for pe in range(4)]
    for pe, x in enumerate(members):
        x[pe * 7] = [np.nan, np.inf, -np.inf, 1e38][pe]
    with np.errstate(over="ignore"):
        members = [x * x for x in members]
        wanted = -(((members[2] + members[0]) + members[1]) + members[3])
    np.testing.assert_array_equal(np.frombuffer(found[0][0], np.float32), wanted)
    assert math.isnan(wanted[0])
