"""Element-wise operations in native code against the reference interpreter, bit for bit."""

import itertools

import numpy as np
import pytest
from llvmlite import ir

from emu.tile.cpu import native
from emu.tile.cpu.numeric import elementwise, vector_builder
from emu.tile.ir import Operation, Value
from emu.tile.ops import BINARY, BITWISE, COMPARISONS, FLOAT_BINARY, FLOAT_UNARY, UNARY, Code
from emu.tile.reference.elementwise import ELEMENTWISE
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

EXACT_FLOAT = {Code.SQRT, Code.FLOOR, Code.CEIL, Code.TRUNC, Code.RINT}
# NumPy warns of overflow and NaN, which are meant
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

HASWELL = native.Target("haswell", "")


def codes_of(dtype):
    """Every operation of one dtype that is defined exactly."""
    all_ = UNARY | BINARY | COMPARISONS | {Code.SELECT, Code.FMA}
    if dtype.is_float:
        return sorted(all_ - BITWISE - {Code.NOT} - FLOAT_BINARY - (FLOAT_UNARY - EXACT_FLOAT))
    return sorted(all_ - FLOAT_BINARY - FLOAT_UNARY - {Code.FMA})


def _specials(dtype):
    if dtype.is_float:
        info = np.finfo(dtype.numpy) if dtype in (F16, F32, F64) else None
        values = [0.0, 1.0, 1.5, 2.0, 3.0, 0.1, 0.5, 2.5, 3.5, 100.3, 448.0, 464.0, 480.0]
        values += [65504.0, 65520.0, 255.9, 2.0**31, 2.0**32, 2.0**63, 2.0**64, 1e30, 1e300]
        values += [2.0**-9, 2.0**-10, 1.5 * 2**-10, 2.0**-24, 2.0**-25, 2.0**-133, 1e-42, 1e-310]
        values += [float("inf"), float("nan")]
        if info is not None:
            values += [float(info.max), float(info.tiny), float(info.smallest_subnormal)]
        values = np.array(values + [-v for v in values], np.float64)
        return values.astype(dtype.numpy)
    limits = np.iinfo(dtype.numpy)
    values = {0, 1, 2, 3, 7, 15, 31, 32, 63, 64, 100, -1, -2, -7, -32}
    values |= {limits.min, limits.min + 1, limits.max, limits.max - 1, limits.max // 2 + 1}
    values = sorted(v for v in values if limits.min <= v <= limits.max)
    return np.array(values, dtype.numpy)


def _random(dtype, count, seed):
    random = np.random.default_rng(seed)
    values = np.frombuffer(random.bytes(count * dtype.bytes), f"u{dtype.bytes}").copy()
    some = random.random(count) < 0.4  # moderate numbers beside random bits
    if dtype.is_float:
        moderate = random.normal(0, 4, count).astype(dtype.numpy).view(values.dtype)
    else:
        moderate = random.integers(0, 100, count).astype(values.dtype)
    return np.where(some, moderate, values).view(dtype.numpy)


def samples(dtype, seed=0):
    """Every value of a dtype of at most 16 bits; otherwise special and random ones."""
    if dtype.kind is Kind.BOOL:
        return np.array([False, True] * 20)
    if dtype.bits <= 16:
        return np.arange(1 << dtype.bits).astype(f"u{dtype.bytes}").view(dtype.numpy)
    return np.concatenate([_specials(dtype), _random(dtype, 20_001, seed)])


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


def reference(case, *arrays):
    operands = [Value(element) for element in case.operands]
    operation = Operation(case.code, operands, [case.result], case.attributes)
    return np.asarray(ELEMENTWISE[case.code](operation, *arrays))


def assert_same(got, want, label, arrays):
    assert got.dtype == want.dtype, label
    same = got.view(f"u{got.itemsize}") == want.view(f"u{want.itemsize}")
    if got.dtype.kind not in "biu":
        wide, other = got.astype(np.float64), want.astype(np.float64)
        same |= np.isnan(wide) & np.isnan(other)
        if label.startswith(("MIN", "MAX")):
            same |= wide == other  # -0 and +0
    wrong = np.flatnonzero(~same)[:5]
    assert not wrong.size, (label, [[a[i] for a in arrays] for i in wrong], got[wrong], want[wrong])


def check(compiled, cases, lanes=32, target=None):
    for case, function in zip(cases, compiled(cases, lanes, target), strict=True):
        element = case.operands[-1]
        arrays = pairs(element, len(case.operands))
        if case.code is Code.SELECT:
            arrays[0] = np.arange(arrays[1].size) % 3 == 0
        want = reference(case, *arrays)
        label = f"{case.code.name} of {element}, {case.attributes}"
        assert_same(function(*arrays), want, label, arrays)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_operations_are_those_of_the_reference(compiled, make_case, dtype):
    cases = [make_case(code, dtype) for code in codes_of(dtype)]
    if dtype.is_float:
        cases += [make_case(code, dtype, propagate_nan=True) for code in (Code.MIN, Code.MAX)]
    check(compiled, cases)


@pytest.mark.parametrize("dtype", [F16, BF16, F8E4M3FN, I8, I32, F32], ids=str)
def test_operations_are_those_of_the_reference_without_avx512(compiled, make_case, dtype):
    check(compiled, [make_case(code, dtype) for code in codes_of(dtype)], target=HASWELL)


@pytest.mark.parametrize("lanes", [None, 1, 3, 8, 31])
def test_any_number_of_lanes(compiled, make_case, lanes):
    codes = [Code.ADD, Code.MAX, Code.LT, Code.DIV, Code.SELECT, Code.FMA, Code.REM]
    cases = [make_case(code, dtype) for code, dtype in itertools.product(codes, (F32, BF16))]
    cases += [make_case(code, F64) for code in (Code.ADD, Code.LT, Code.REM)]
    integers = (Code.ADD, Code.DIV, Code.REM, Code.SHR, Code.LT)
    cases += [make_case(code, dtype) for code in integers for dtype in (I32, I64)]
    cases += [make_case(code, I1) for code in (Code.ADD, Code.XOR, Code.NOT)]
    check(compiled, cases, lanes)


@pytest.mark.parametrize("source", DTYPES.values(), ids=str)
def test_casts_round_once(compiled, make_case, source):
    check_casts(compiled, make_case, source, None)


@pytest.mark.parametrize("source", [I1, I32, I64, U64, F16, F32, F64], ids=str)
def test_casts_round_once_without_avx512(compiled, make_case, source):
    check_casts(compiled, make_case, source, HASWELL)


def check_casts(compiled, make_case, source, target):
    type_ = type(make_case(Code.CAST, source))
    cases = [
        type_(Code.CAST, (source,), result, {"rounding": rounding})
        for result in DTYPES.values()
        for rounding in ("rtne", "rtz")
        if rounding == "rtne" or (source.is_float and result.is_float)
    ]
    x = cast_samples(source)
    for case, function in zip(cases, compiled(cases, 32, target), strict=True):
        label = f"CAST of {source} to {case.result}, {case.attributes}"
        assert_same(function(x), reference(case, x), label, [x])


def cast_samples(source):
    """Values of a dtype, among them ties and near ties of every narrower one."""
    x = samples(source)
    if source.bits <= 16:
        return x
    if not source.is_float:
        one = source.numpy.type(1)
        powers = one << np.arange(source.bits - 1).astype(source.numpy)
        ties = [powers + powers // n * m for n, m in ((256, 1), (128, 3), (512, 3), (8, 3))]
        ties = np.concatenate(ties).astype(source.numpy)
        return np.concatenate([x, powers, ties, ties + one, ties - one])
    narrow = [d for d in DTYPES.values() if d.is_float and d.bits <= 16]
    values = []
    for dtype in narrow:
        every = samples(dtype)[:: 1 if dtype.bits == 8 else 17].astype(np.float64)
        every = np.sort(every[np.isfinite(every)])
        ties = ((every[1:] + every[:-1]) / 2).astype(source.numpy)
        zero, infinity = source.numpy.type(0), source.numpy.type(np.inf)
        values += [every.astype(source.numpy), ties]
        values += [np.nextafter(ties, zero), np.nextafter(ties, infinity)]
    return np.concatenate([x, *values])


def test_bitcasts_keep_the_bits(compiled, make_case):
    type_ = type(make_case(Code.CAST, F32))
    dtypes = [d for d in DTYPES.values() if d is not I1]
    couples = [(a, b) for a in dtypes for b in dtypes if a.bits == b.bits]
    cases = [type_(Code.BITCAST, (a,), b) for a, b in couples]
    for case, function in zip(cases, compiled(cases), strict=True):
        x = samples(case.operands[0])
        x = x[~np.isnan(x.astype(np.float64))]
        assert function(x).tobytes() == x.tobytes(), case


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


def test_constants_are_rounded_or_wrap():
    assert vector_builder.constant(F16, 65520.0).constant == "0xH7C00"
    assert vector_builder.constant(BF16, 1.00390625).constant == "16256"
    assert vector_builder.constant(I8, 255).constant == "255"
    assert vector_builder.constant(I8, -1).constant == "255"
    assert vector_builder.constant(I1, 2).constant == "true"
    assert str(vector_builder.iota(I32, 3)).endswith("<i32 0, i32 1, i32 2>")


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
