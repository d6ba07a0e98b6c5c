"""Operations, blocks and uses in memory."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from emu.mlir import parse
from emu.mlir.ir import Block, Operation
from emu.mlir.types import IntegerType


def test_values_know_their_newest_use_first() -> None:
    module = parse(
        '%0 = "t.a"() : () -> i32\n"t.b"(%0) : (i32) -> ()\n'
        '"t.c"(%0, %0) ({"t.d"(%0) : (i32) -> ()}) : (i32, i32) -> ()'
    )
    first = module.body().first
    assert first is not None
    uses = [(op.name, index) for op, index in first.result.uses]
    assert uses == [("t.c", 1), ("t.c", 0), ("t.d", 0), ("t.b", 0)]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 200), st.booleans()), max_size=120))
def test_operations_of_a_block_are_in_order(places: list[tuple[int, bool]]) -> None:
    # Far more at one place than the numbers between two operations allow.
    block, expected = Block(), []
    for place, is_detached in [*places, *[(1, False)] * 80]:
        index = min(place, len(expected))
        before = expected[index] if index < len(expected) else None
        op = block.insert_before(before, Operation("test.op"))
        expected.insert(index, op)
        if is_detached:
            expected.pop(index // 2).detach()
    assert block.operations == expected
    for one, other in pairwise(expected):
        assert one.is_before(other)
        assert not other.is_before(one)


def test_users_one_by_one_are_newest_first() -> None:
    block = Block([IntegerType(1)])
    (argument,) = block.arguments
    users = [block.append(Operation("test.use", [argument])) for _ in range(3)]
    assert list(argument.walk_users()) == users[::-1] == argument.users
