"""Element-wise operations in native code against the reference interpreter, bit for bit."""

import itertools

import numpy as np
import pytest
from llvmlite import ir
from tile_samples import HASWELL, _random, _specials, assert_same, reference, samples
from variants import thorough

from emu.tile.cpu import native
from emu.tile.cpu.numeric import elementwise, vector_builder
from emu.tile.ops import BINARY, BITWISE, COMPARISONS, FLOAT_BINARY, FLOAT_UNARY, UNARY, Code
from emu.tile.types import (
    BF16,
    DTYPES,
    F8E4M3FN,
    F16,
    F32,
    F64,
    I1,
    I8,
    I32,
    I64,
    U64,
    Kind,
    Pointer,
)

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


EXACT_FLOAT = {Code.SQRT, Code.FLOOR, Code.CEIL, Code.TRUNC, Code.RINT}


def codes_of(dtype):
    """Every operation of one dtype that is defined exactly."""
    all_ = UNARY | BINARY | COMPARISONS | {Code.SELECT, Code.FMA}
    if dtype.is_float:
        return sorted(all_ - BITWISE - {Code.NOT} - FLOAT_BINARY - (FLOAT_UNARY - EXACT_FLOAT))
    return sorted(all_ - FLOAT_BINARY - FLOAT_UNARY - {Code.FMA})


def pairs(dtype, count):
    """Tuples of operands: every pair of a dtype of 8 bits; otherwise special and random ones."""
    if count == 1:
        return [samples(dtype)]
    if dtype.bits <= 8 and count == 2:
        few = samples(dtype) if dtype.kind is not Kind.BOOL else np.array([False, True])
    else:
        few = np.array([False, True]) if dtype.kind is Kind.BOOL else _specials(dtype)
        few = few[:: 2 if count == 3 and len(few) > 30 else 1]
    grids = [grid.ravel() for grid in np.meshgrid(*[few] * count)]
    if dtype.kind is Kind.BOOL:
        return [np.tile(grid, 11) for grid in grids]
    random = [_random(dtype, 10_001 if count == 2 else 2_001, seed) for seed in range(count)]
    return [np.concatenate(both) for both in zip(grids, random, strict=True)]


def test_division_of_long_integers_by_doubles_and_one_by_one(compiled, make_case):
    random = np.random.default_rng(2)
    for dtype, bits in itertools.product((I64, U64), (52, 55, 63)):
        cases = [make_case(code, dtype) for code in (Code.DIV, Code.REM)]
        a = random.integers(1, 1 << bits, 64_000) >> random.integers(0, bits, 64_000)
        b = random.integers(1, 1 << bits, 64_000) >> random.integers(0, bits, 64_000)
        limit = (1 << bits) - 1
        large = limit - random.integers(0, 1000, 64_000)
        small = random.integers(1, 1000, 64_000)
        multiples = b * np.maximum(limit // b, 1) - 1  # one below where the quotient changes
        a, b = np.concatenate([a, large, multiples]), np.concatenate([b, small, b])
        if dtype is I64:
            a, b = a * random.choice([-1, 1], a.size), b * random.choice([-1, 1], b.size)
        a, b = a.astype(dtype.numpy), b.astype(dtype.numpy)
        for case, function in zip(cases, compiled(cases), strict=True):
            assert_same(function(a, b), reference(case, a, b), case.code.name, [a, b])


def check(compiled, cases, lanes=32, target=None):
    for case, function in zip(cases, compiled(cases, lanes, target), strict=True):
        element = case.operands[-1]
        arrays = pairs(element, len(case.operands))
        if case.code is Code.SELECT:
            arrays[0] = np.arange(arrays[1].size) % 3 == 0
        want = reference(case, *arrays)
        label = f"{case.code.name} of {element}, {case.attributes}"
        assert_same(function(*arrays), want, label, arrays)


@pytest.mark.parametrize(
    "dtype", thorough(list(DTYPES.values()), I1, I8, I32, BF16, F32, F8E4M3FN), ids=str
)
def test_operations_are_those_of_the_reference(compiled, make_case, dtype):
    cases = [make_case(code, dtype) for code in codes_of(dtype)]
    if dtype.is_float:
        cases += [make_case(code, dtype, propagate_nan=True) for code in (Code.MIN, Code.MAX)]
    check(compiled, cases)


@pytest.mark.parametrize("dtype", thorough([F16, BF16, F8E4M3FN, I8, I32, F32], BF16, I32), ids=str)
def test_operations_are_those_of_the_reference_without_avx512(compiled, make_case, dtype):
    check(compiled, [make_case(code, dtype) for code in codes_of(dtype)], target=HASWELL)


@pytest.mark.parametrize("lanes", thorough([None, 1, 3, 8, 31], None, 31))
def test_any_number_of_lanes(compiled, make_case, lanes):
    codes = [Code.ADD, Code.MAX, Code.LT, Code.DIV, Code.SELECT, Code.FMA, Code.REM]
    cases = [make_case(code, dtype) for code, dtype in itertools.product(codes, (F32, BF16))]
    cases += [make_case(code, F64) for code in (Code.ADD, Code.LT, Code.REM)]
    integers = (Code.ADD, Code.DIV, Code.REM, Code.SHR, Code.LT)
    cases += [make_case(code, dtype) for code in integers for dtype in (I32, I64)]
    cases += [make_case(code, I1) for code in (Code.ADD, Code.XOR, Code.NOT)]
    check(compiled, cases, lanes)


def test_addresses_move_by_elements(compiled, make_case):
    type_ = type(make_case(Code.CAST, F32))
    for index, dtype in itertools.product(("i8", "u8", "i32", "u32", "i64"), (F16, F64, I1)):
        pointer = Pointer(dtype)
        case = type_(Code.PTR_ADD, (pointer, DTYPES[index]), pointer)
        (function,) = compiled([case])
        offsets = samples(DTYPES[index])[:500]
        start = np.uint64(1 << 40) + np.arange(offsets.size, dtype=np.uint64)
        assert np.array_equal(function(start, offsets), reference(case, start, offsets))


def test_what_is_not_defined_for_a_dtype_is_refused(compiled, make_case):
    with pytest.raises(ValueError, match="operation of f32, but got AND"):
        compiled([make_case(Code.AND, F32)])
    with pytest.raises(ValueError, match="operation of i32, but got EXP"):
        compiled([make_case(Code.EXP, I32)])
    with pytest.raises(ValueError, match="operation of i1, but got FMA"):
        compiled([make_case(Code.FMA, I1)])
    with pytest.raises(ValueError, match="operation of f16, but got NOT"):
        compiled([make_case(Code.NOT, F16)])


def _text(code, element, **options):
    module = ir.Module("text")
    type_ = vector_builder.register_type(element, 16)
    function = ir.Function(module, ir.FunctionType(type_, [type_, type_]), "f")
    builder = ir.IRBuilder(function.append_basic_block())
    values = list(function.args)
    builder.ret(elementwise.emit(builder, code, {}, [element, element], element, values, **options))
    return str(module)


def test_only_what_may_be_contracted_says_so():
    for code, name in ((Code.ADD, "fadd"), (Code.SUB, "fsub"), (Code.MUL, "fmul")):
        assert f"{name} contract <16 x float>" in _text(code, F32, contract=True)
        assert f"{name} <16 x float>" in _text(code, F32)
        assert "contract" not in _text(code, BF16, contract=True)
    assert "contract" not in _text(Code.DIV, F64, contract=True)


def test_code_stays_in_vectors_and_in_its_block():
    codes = sorted((BINARY | {Code.ATAN2, Code.POW}) - BITWISE)
    for code, element in itertools.product(codes, (F16, F32)):
        text = _text(code, element)
        body = text[text.index('@"f"(') :].partition("\n}")[0]
        assert "extractelement" not in body
        assert body.count("label") == 0
        assert body.count("\n") < 40, (code, element)


def test_division_by_a_constant_is_left_to_llvm():
    module = ir.Module("text")
    type_ = vector_builder.register_type(I32, 16)
    function = ir.Function(module, ir.FunctionType(type_, [type_]), "f")
    builder = ir.IRBuilder(function.append_basic_block())
    seven = vector_builder.constant(I32, 7, 16)
    builder.ret(elementwise.emit(builder, Code.DIV, {}, [I32, I32], I32, [function.args[0], seven]))
    assert "fdiv" not in str(module)
    assembly = native.to_assembly(str(module))
    assert "idiv" not in assembly
    assert "vdiv" not in assembly
