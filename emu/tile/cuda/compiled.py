"""The functions of generated kernels as compiled code. Nothing here runs in the simulator.

What is not a function of libdevice is built as LLVM IR. Sums and products of floats go through libdevice's
functions with the rounding in their name: the code generator for NVIDIA devices would otherwise fuse them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from llvmlite import ir
from numba.cuda import extending, libdevice

from emu.kernels.core.annotations import NumbaType
from emu.kernels.cuda.intrinsics import types
from emu.tile.cuda.expressions import numba_name, register
from emu.tile.cuda.floats import Floats
from emu.tile.llvm import IrPointer, IrType, Register
from emu.tile.types import DTYPES, DType, Kind

if TYPE_CHECKING:
    from numba.core.base import BaseContext
    from numba.core.typing.templates import Signature

_I1, _I8, _I16, _I32, _I64 = (ir.IntType(width) for width in (1, 8, 16, 32, 64))
_F32, _F64 = ir.FloatType(), ir.DoubleType()
_GLOBAL = 1  # the address space


def _numba(dtype: DType) -> NumbaType:
    return getattr(types, numba_name(dtype))


def _llvm(dtype: DType) -> IrType:
    if dtype.is_float:
        return _F64 if dtype.bits == 64 else _F32
    return ir.IntType(dtype.bits)


DeviceFunction: TypeAlias = Any
"""A function that generated kernels may call: an intrinsic of ours, or one of libdevice. Numba has no type for it."""

Codegen: TypeAlias = Callable[..., Register]
"""Called by Numba with its context, an IR builder, the signature and the arguments."""


class Recipe(NamedTuple):
    """A function that is built as LLVM IR.

    Attributes:
        result: Dtype of the register with its value; ``None`` if it gives nothing.
        arguments: Dtypes of its arguments' registers.
        build: Called with an IR builder and the arguments' values, returns the value.
    """

    result: DType | None
    arguments: tuple[DType, ...]
    build: Callable[..., Register | None]


def _intrinsic(recipe: Recipe) -> DeviceFunction:
    result, arguments, build = recipe
    kind = types.void if result is None else _numba(result)
    signature = kind(*(_numba(a) for a in arguments))

    def codegen(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[Register]
    ) -> Register:
        value = build(builder, *args)
        return context.get_dummy_value() if result is None else value

    # Numba counts the parameters.
    typings: dict[int, Callable[..., tuple[Signature, Codegen]]] = {
        1: lambda typingctx, a: (signature, codegen),
        2: lambda typingctx, a, b: (signature, codegen),
        3: lambda typingctx, a, b, c: (signature, codegen),
    }
    return extending.intrinsic(typings[len(arguments)])


# ---- integers


def _divided(b: ir.IRBuilder, dtype: DType, x: Register, y: Register) -> tuple[Register, Register]:
    """Emit quotient and remainder as in C; 0 and the dividend where the divisor is 0."""
    kind = x.type
    zero = b.icmp_unsigned("==", y, kind(0))
    if dtype.kind is Kind.UINT:
        divisor = b.select(zero, kind(1), y)
        return b.select(zero, kind(0), b.udiv(x, divisor)), b.select(zero, x, b.urem(x, divisor))
    minus = b.icmp_unsigned("==", y, kind(-1))  # the smallest integer by -1 does not fit
    divisor = b.select(b.or_(zero, minus), kind(1), y)
    quotient = b.select(minus, b.neg(x), b.sdiv(x, divisor))
    remainder = b.select(minus, kind(0), b.srem(x, divisor))
    return b.select(zero, kind(0), quotient), b.select(zero, x, remainder)


def _shifted(b: ir.IRBuilder, dtype: DType, op: str, x: Register, y: Register) -> Register:
    kind = x.type
    inside = b.icmp_unsigned("<", y, kind(dtype.bits))
    if op == "shr" and dtype.kind is Kind.INT:
        return b.ashr(x, b.select(inside, y, kind(dtype.bits - 1)))
    safe = b.select(inside, y, kind(0))
    return b.select(inside, b.shl(x, safe) if op == "shl" else b.lshr(x, safe), kind(0))


def _upper_half(b: ir.IRBuilder, dtype: DType, x: Register, y: Register) -> Register:
    wide = ir.IntType(dtype.bits * 2)
    extend = b.sext if dtype.kind is Kind.INT else b.zext
    product = b.mul(extend(x, wide), extend(y, wide))
    return b.trunc(b.lshr(product, wide(dtype.bits)), x.type)


def integer(b: ir.IRBuilder, dtype: DType, op: str, *args: Register) -> Register:
    """Build an operation of integers or ``i1``."""
    boolean = dtype.kind is Kind.BOOL
    if boolean:
        op = {"add": "xor", "sub": "xor", "mul": "and", "min": "and", "max": "or"}.get(op, op)
    plain = {"and": "and_", "or": "or_", "not": "not_"}.get(op, op)
    if op in ("add", "sub", "mul", "and", "or", "xor", "neg", "not"):
        return getattr(b, plain)(*args)
    if op in ("min", "max"):
        compare = b.icmp_signed if dtype.kind is Kind.INT else b.icmp_unsigned
        return b.select(compare("<" if op == "min" else ">", *args), *args)
    if op in ("div", "rem"):
        return _divided(b, dtype, *args)[op == "rem"]
    if op in ("shl", "shr"):
        return _shifted(b, dtype, op, *args)
    if op == "abs":
        (x,) = args
        if dtype.kind is not Kind.INT:
            return x
        return b.select(b.icmp_signed("<", x, x.type(0)), b.neg(x), x)
    if op == "fma":
        return b.add(b.mul(args[0], args[1]), args[2])
    if op == "mulhi":
        return _upper_half(b, dtype, *args)
    if op == "xchg":
        return args[1]
    raise KeyError(op)


# ---- floats

_LIBDEVICE = {
    "add": ("fadd_rn", "dadd_rn"),
    "mul": ("fmul_rn", "dmul_rn"),
    "div": ("fdiv_rn", "ddiv_rn"),
    "fma": ("fmaf_rn", "fma_rn"),
    "sqrt": ("fsqrt_rn", "dsqrt_rn"),
    "rem": ("fmodf", "fmod"),
    "min": ("fminf", "fmin"),
    "max": ("fmaxf", "fmax"),
    **{
        op: (f"{op}f", op)
        for op in (
            *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "rsqrt", "pow", "erf"),
            *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh"),
            *("floor", "ceil", "trunc", "rint"),
        )
    },
}


def _float(op: str, dtype: DType) -> Recipe | DeviceFunction:
    if op in _LIBDEVICE:
        return getattr(libdevice, _LIBDEVICE[op][dtype.bits == 64])
    if op == "sub":  # libdevice has none of fp64
        letter, code = "fd"[dtype.bits == 64], f"sub.rn.f{dtype.bits} $0, $1, $2;"
        return Recipe(
            dtype,
            (dtype, dtype),
            lambda b, x, y: _instruction_of(b, code, f"={letter},{letter},{letter}", x, y),
        )
    floats = Floats(dtype.bits)
    if op in ("neg", "abs"):
        return Recipe(dtype, (dtype,), floats.negate if op == "neg" else floats.absolute)
    relation = {"minnan": "<", "maxnan": ">"}[op]
    return Recipe(dtype, (dtype, dtype), lambda b, x, y: floats.extreme(b, relation, x, y))


# ---- conversions


def _cast(source: DType, target: DType) -> Recipe:
    kind, signed = _llvm(target), source.kind is Kind.INT

    def build(b: ir.IRBuilder, x: Register) -> Register:
        if target.kind is Kind.BOOL:
            compare = b.fcmp_unordered if source.is_float else b.icmp_unsigned
            return compare("!=", x, x.type(0))
        if source.is_float and target.is_float:
            wider = target.bits > source.bits
            return (b.fpext if wider else b.fptrunc)(x, kind) if x.type != kind else x
        if source.is_float:
            return Floats(source.bits).to_integer(b, x, kind, target.kind is Kind.INT)
        if target.is_float:
            return (b.sitofp if signed else b.uitofp)(x, kind)
        if target.bits <= source.bits:
            return b.trunc(x, kind) if target.bits < source.bits else x
        return (b.sext if signed else b.zext)(x, kind)

    return Recipe(target, (source,), build)


def _narrowing(op: str, dtype: DType) -> Recipe:
    f32 = DTYPES["f32"]
    narrow = Floats(32)
    if op == "round":
        return Recipe(f32, (f32,), lambda b, x: narrow.rounded(b, dtype.name, x))
    return Recipe(f32, (f32,), lambda b, x: narrow.truncated(b, dtype.name, x))


def to_bits(b: ir.IRBuilder, dtype: DType, value: Register) -> Register:
    """Build the pattern in memory of a value in its register."""
    if dtype.is_float:
        return Floats(register(dtype).bits).pattern(b, dtype.name, value)
    return b.zext(value, _I8) if dtype.kind is Kind.BOOL else value


def from_bits(b: ir.IRBuilder, dtype: DType, bits: Register) -> Register:
    """Build the value of a pattern in memory."""
    if dtype.is_float:
        return Floats(register(dtype).bits).value(b, dtype.name, bits)
    return b.icmp_unsigned("!=", bits, _I8(0)) if dtype.kind is Kind.BOOL else bits


# ---- memory


def _pointer(b: ir.IRBuilder, address: Register, element: IrType) -> IrPointer:
    return b.inttoptr(address, element.as_pointer(_GLOBAL))


def _load(dtype: DType) -> Recipe:
    element = ir.IntType(dtype.bytes * 8)

    def build(b: ir.IRBuilder, address: Register) -> Register:
        bits = b.load(_pointer(b, address, element), typ=element)
        bits.align = dtype.bytes
        return from_bits(b, dtype, bits)

    return Recipe(register(dtype), (DTYPES["i64"],), build)


def _store(dtype: DType) -> Recipe:
    element = ir.IntType(dtype.bytes * 8)

    def build(b: ir.IRBuilder, address: Register, value: Register) -> None:
        bits = to_bits(b, dtype, value)
        b.store(bits, _pointer(b, address, element)).align = dtype.bytes

    return Recipe(None, (DTYPES["i64"], register(dtype)), build)


# ---- atomic updates


def _instruction_of(b: ir.IRBuilder, code: str, constraints: str, *args: Register) -> Register:
    """Emit one instruction without effects on memory."""
    kind = ir.FunctionType(args[0].type, [a.type for a in args])
    return b.call(ir.InlineAsm(kind, code, constraints), args)


def _ptx(b: ir.IRBuilder, code: str, constraints: str, result: IrType, *args: Register) -> Register:
    kind = ir.FunctionType(result, [a.type for a in args])
    return b.call(ir.InlineAsm(kind, code, f"{constraints},~{{memory}}", side_effect=True), args)


def _swapped(b: ir.IRBuilder, address: Register, expected: Register, new: Register) -> Register:
    """Compare and swap 32 or 64 bits."""
    width = expected.type.width
    letter = "l" if width == 64 else "r"
    return _ptx(
        b,
        f"atom.global.cas.b{width} $0, [$1], $2, $3;",
        f"={letter},l,{letter},{letter}",
        expected.type,
        address,
        expected,
        new,
    )


def _instruction(kind: str, dtype: DType) -> tuple[str, str] | None:
    """Return the one instruction for it, and the constraint of its registers."""
    letter = {32: "r", 64: "l"}.get(dtype.bits, "")
    if dtype.is_float:
        if kind != "add" or dtype.bits < 32:
            return None
        return f"add.f{dtype.bits}", "f" if dtype.bits == 32 else "d"
    if not letter:
        return None
    if kind in ("and", "or", "xor"):
        return f"{kind}.b{dtype.bits}", letter
    if kind == "xchg":
        return f"exch.b{dtype.bits}", letter
    if kind == "add":  # signed or not
        return f"add.u{dtype.bits}", letter
    return f"{kind}.{'s' if dtype.is_signed else 'u'}{dtype.bits}", letter


def _changed(b: ir.IRBuilder, kind: str, dtype: DType, old: Register, value: Register) -> Register:
    if not dtype.is_float:
        return integer(b, dtype, kind, old, value)
    floats = Floats(register(dtype).bits)
    if kind == "xchg":
        return value
    if kind == "add":
        total = b.fadd(old, value)
        return total if dtype.bits >= 32 else floats.rounded(b, dtype.name, total)
    # By the order of the bits: a NaN is beyond the infinity of its sign (see the CPU's atomics).
    keys = []
    for register_ in (old, value):
        bits = to_bits(b, dtype, register_)
        sign = b.ashr(bits, ir.Constant(bits.type, bits.type.width - 1))
        keys.append(b.xor(bits, b.lshr(sign, ir.Constant(bits.type, 1))))
    wins = b.icmp_signed("<" if kind == "min" else ">", keys[1], keys[0])
    return b.select(wins, value, old)


def _update_loop(
    b: ir.IRBuilder,
    dtype: DType,
    address: Register,
    change: Callable[[Register], tuple[Register, Register]],
) -> Register:
    """Compare and swap the word around an element until no other thread has interfered.

    ``change`` gives, of the old bits, the new ones and whether to write at all.
    """
    bits = dtype.bytes * 8
    word = _I64 if bits == 64 else _I32
    narrow = bits < word.width
    base, shift = address, word(0)
    if narrow:
        base = b.and_(address, _I64(~3))
        shift = b.trunc(b.shl(b.and_(address, _I64(3)), _I64(3)), _I32)
    mask = b.shl(word((1 << bits) - 1), shift)
    first = _ptx(
        b,
        f"ld.relaxed.gpu.global.b{word.width} $0, [$1];",
        "=l,l" if bits == 64 else "=r,l",
        word,
        base,
    )
    start = b.block
    loop, end = b.append_basic_block("update"), b.append_basic_block("updated")
    b.branch(loop)
    b.position_at_end(loop)
    old = b.phi(word)
    old.add_incoming(first, start)
    element = b.trunc(b.lshr(old, shift), ir.IntType(bits)) if narrow else old
    new, wanted = change(element)
    placed = b.shl(b.zext(new, word), shift) if narrow else new
    found = _swapped(b, base, old, b.or_(b.and_(old, b.not_(mask)), placed))
    # Where nothing is to be written, the element that was read stands.
    done = b.or_(b.icmp_unsigned("==", found, old), b.not_(wanted))
    old.add_incoming(found, b.block)
    b.cbranch(done, end, loop)
    b.position_at_end(end)
    return element


def _atomic(kind: str, dtype: DType) -> Recipe:
    held, instruction = register(dtype), _instruction(kind, dtype)

    def build(b: ir.IRBuilder, address: Register, value: Register) -> Register:
        if instruction is not None:
            op, letter = instruction
            code = f"atom.global.{op} $0, [$1], $2;"
            return _ptx(b, code, f"={letter},l,{letter}", value.type, address, value)

        def change(bits: Register) -> tuple[Register, Register]:
            new = _changed(b, kind, dtype, from_bits(b, dtype, bits), value)
            return to_bits(b, dtype, new), _I1(1)

        return from_bits(b, dtype, _update_loop(b, dtype, address, change))

    return Recipe(held, (DTYPES["i64"], held), build)


def _cas(dtype: DType) -> Recipe:
    held = register(dtype)

    def build(b: ir.IRBuilder, address: Register, expected: Register, new: Register) -> Register:
        before, after = to_bits(b, dtype, expected), to_bits(b, dtype, new)
        if dtype.bytes >= 4:
            return from_bits(b, dtype, _swapped(b, address, before, after))

        def change(bits: Register) -> tuple[Register, Register]:
            same = b.icmp_unsigned("==", bits, before)
            return b.select(same, after, bits), same

        return from_bits(b, dtype, _update_loop(b, dtype, address, change))

    return Recipe(held, (DTYPES["i64"], held, held), build)


def _whole(name: str) -> Recipe | DeviceFunction:
    i64, f32, f64 = DTYPES["i64"], DTYPES["f32"], DTYPES["f64"]
    if name == "address":
        return Recipe(i64, (i64, i64, i64), lambda b, p, n, size: b.add(p, b.mul(n, size)))
    if name == "load_ptr":
        return _load(i64)
    if name == "store_ptr":
        return _store(i64)
    if name == "castrz_f64_f32":
        return libdevice.double2float_rz
    if name == "castodd_f64_f32":
        return Recipe(f32, (f64,), Floats(64).to_odd)
    source = DTYPES[name.split("_")[1]]
    return Recipe(f64, (source,), lambda b, x: _integer_to_odd(b, source, x))


def _integer_to_odd(b: ir.IRBuilder, source: DType, x: Register) -> Register:
    """Convert 64-bit integers to fp64, rounding to odd, so that a second rounding is exact."""
    negative = b.icmp_signed("<", x, _I64(0)) if source.is_signed else _I1(0)
    magnitude = b.select(negative, b.neg(x), x)
    lost = b.icmp_unsigned("!=", b.and_(magnitude, _I64(0x7FF)), _I64(0))
    high = b.or_(b.lshr(magnitude, _I64(11)), b.zext(lost, _I64))
    large = b.icmp_unsigned(">=", magnitude, _I64(1 << 53))
    value = b.uitofp(b.select(large, b.shl(high, _I64(11)), magnitude), _F64)
    return b.select(negative, Floats(64).negate(b, value), value)


@functools.cache
def make(name: str) -> DeviceFunction:
    """Return the function of a name; the names are those of :mod:`emu.tile.cuda.functions`.

    Raises:
        AttributeError: There is none of that name.
    """
    found = definition(name)
    return _intrinsic(found) if isinstance(found, Recipe) else found


def definition(name: str) -> Recipe | DeviceFunction:
    """Return the definition of a function: a recipe, or libdevice's function.

    Raises:
        AttributeError: There is none of that name.
    """
    if name in ("address", "load_ptr", "store_ptr", "castrz_f64_f32") or name.startswith("castodd"):
        return _whole(name)
    op, *rest = name.split("_")
    try:
        dtypes = [DTYPES[part] for part in rest if part in DTYPES]
        if op == "atomic":
            return _cas(dtypes[0]) if rest[0] == "cas" else _atomic(rest[0], dtypes[0])
        if op == "cast":
            return _cast(*dtypes)
        return _of_one(op, dtypes[0])
    except (KeyError, IndexError):
        raise AttributeError(f"there is no function {name}") from None


def _of_one(op: str, dtype: DType) -> Recipe | DeviceFunction:
    if op in ("load", "store"):
        return (_load if op == "load" else _store)(dtype)
    if op in ("round", "truncate"):
        return _narrowing(op, dtype)
    if op == "bits":
        return Recipe(dtype.as_unsigned(), (register(dtype),), lambda b, x: to_bits(b, dtype, x))
    if op == "from":
        return Recipe(register(dtype), (dtype.as_unsigned(),), lambda b, x: from_bits(b, dtype, x))
    if dtype.is_float:
        return _float(op, dtype)
    if op == "mulhi" and dtype.bits == 64:
        return libdevice.mul64hi if dtype.is_signed else libdevice.umul64hi
    count = {"neg": 1, "not": 1, "abs": 1, "fma": 3}.get(op, 2)
    return Recipe(dtype, (dtype,) * count, lambda b, *args: integer(b, dtype, op, *args))
