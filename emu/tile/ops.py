"""Operations of the tile IR: one enum in numbered groups, and facts about them.

``emu.tile.reference`` defines what an operation *means*; the comments here give its form. ``T`` is any scalar or tile
type. Tile operands of one operation have one shape: there is no implicit broadcasting, only ``splat`` and
``broadcast``.
"""

from __future__ import annotations

import enum

__all__ = [
    "ATOMIC",
    "BINARY",
    "BITWISE",
    "CHEAP",
    "COMMUTATIVE",
    "COMPARISONS",
    "CONTROL",
    "CONVERSIONS",
    "COSTLY",
    "EFFECTS",
    "ELEMENTWISE",
    "EXACT",
    "FLOAT_BINARY",
    "FLOAT_UNARY",
    "IMPURE",
    "LAUNCH",
    "LEAVES",
    "MEMORY",
    "ORDERED_COMPARISONS",
    "ORDERS",
    "PER_ELEMENT",
    "PURE",
    "READS",
    "SCOPES",
    "SHAPES",
    "TERMINATORS",
    "UNARY",
    "UNIFORM_SHAPES",
    "VIEWS",
    "WHOLE_TILE",
    "Code",
    "Rmw",
]


class Code(enum.IntEnum):
    """Operation codes."""

    # 100: values from nothing
    CONSTANT = 100  # {value} -> T                      every element has the value
    PROGRAM_ID = 101  # {axis} -> i32                   axis 0, 1, 2
    NUM_PROGRAMS = 102  # {axis} -> i32
    ARANGE = 103  # {start, end} -> tile<n x i32>       start, start + 1, ... end - 1

    # 200: shape; elements keep their values
    SPLAT = 200  # scalar -> tile
    BROADCAST = 201  # tile -> tile of the same rank    axes of extent 1 are repeated
    RESHAPE = 202  # tile -> tile of as many elements   row-major order is kept
    PERMUTE = 203  # {order} tile -> tile               axis i of the result is axis order[i]
    JOIN = 204  # tile, tile -> tile                    a new last axis of extent 2
    SPLIT = 205  # tile -> tile, tile                   undoes JOIN; rank 1 gives scalars
    CAT = 206  # {axis} tile, tile -> tile              one behind the other along an axis
    GATHER = 207  # {axis} tile, tile of integers -> tile of the index's shape
    FLIP = 208  # {axis} tile -> tile

    # 300: one operand, element by element: T -> T
    NEG = 300
    NOT = 301  # bitwise; of i1 logical
    ABS = 302
    EXP = 303  # from here to RINT: floating point only
    EXP2 = 304
    EXPM1 = 305
    LOG = 306
    LOG2 = 307
    LOG10 = 308
    LOG1P = 309
    SQRT = 310
    RSQRT = 311
    SIN = 312
    COS = 313
    TAN = 314
    ASIN = 315
    ACOS = 316
    ATAN = 317
    SINH = 318
    COSH = 319
    TANH = 320
    ERF = 321
    SIGMOID = 322
    FLOOR = 323
    CEIL = 324
    TRUNC = 325
    RINT = 326  # ties to even

    # 350: conversions: T -> T with another element
    CAST = 350  # {rounding = "rtne" | "rtz"} any element to any; also pointer <-> i64 / u64, pointer -> pointer
    BITCAST = 351  # same width

    # 400: two operands, element by element: T, T -> T
    ADD = 400
    SUB = 401
    MUL = 402
    DIV = 403  # integers: toward zero, as C
    REM = 404  # sign of the dividend, as C and fmod
    MIN = 405  # {propagate_nan: bool}
    MAX = 406  # {propagate_nan: bool}
    POW = 407  # floating point
    ATAN2 = 408  # floating point
    AND = 409  # integers and i1
    OR = 410
    XOR = 411
    SHL = 412
    SHR = 413  # arithmetic of signed, logical of unsigned
    MULHI = 414  # upper half of an integer product

    # 440: comparisons: T, T -> the same shape of i1
    EQ = 440
    NE = 441
    LT = 442
    LE = 443
    GT = 444
    GE = 445

    # 460: three operands
    SELECT = 460  # i1, T, T -> T                       the second where the first is true
    FMA = 461  # T, T, T -> T                           one rounding

    # 500: memory
    PTR_ADD = (
        500  # pointer, integer -> pointer        in elements; the integer is sign- or zero-extended
    )
    # {order, scope} of these: what a check of races knows of the order among programs; nothing else asks for it.
    # {machine = true} of a LOAD or STORE: a MACHINE_CALL tells of it, and checks of memory leave it alone.
    LOAD = 501  # pointer[, i1[, T]] -> T               where the mask is false: the other, by default 0
    STORE = 502  # pointer, T[, i1]
    ATOMIC_RMW = 503  # {kind} pointer, T[, i1] -> T    the old value; 0 where the mask is false
    ATOMIC_CAS = 504  # pointer, T expected, T new -> T

    # 600: structured control; every region ends with YIELD
    FOR = 600  # i, i, i, carried... -> carried...      region: (i, carried...) yields carried...
    WHILE = 601  # carried... -> carried...             regions: (carried...) yields i1, passed...; (passed...) yields carried...
    IF = 602  # i1 -> results...                        regions: then and else, each yields results...
    YIELD = 603
    CALL = 604  # {callee} arguments... -> results...
    RETURN = 605  # ends a function's body, in place of YIELD

    # 700: along an axis; the region says how two become one: (a..., b...) yields c...
    REDUCE = 700  # {axis} tiles -> tiles without the axis, or scalars
    SCAN = 701  # {axis, reverse} tiles -> tiles
    HISTOGRAM = 702  # {bins} tile of integers[, i1] -> tile<bins x i32>
    SORT = 703  # tile of unsigned integers -> tile     each row of the last axis in ascending order

    # 800: products
    DOT = 800  # [.., m, k], [.., k, n], [.., m, n] -> [.., m, n]   a @ b + c

    # 900: order and diagnosis
    BARRIER = 900
    JOIN_TOKENS = 901  # values... -> token             available once all the values are
    AFTER = 902  # T, token -> T                        the same value, not before the token
    ASSERT = 903  # {message, names} T of i1, then what its error shows: T of any dtype, or scalars
    PRINT = 904  # {prefix, hex} values...
    OBSERVE = 905  # {site} i64, values...           tells the observer of that number the values: see ``observing``
    # {native = true} of an OBSERVE: its i64 is the address of native code that is called instead.

    # 950: the machine that a PE is a part of: see ``machine``
    MACHINE_WORD = 950  # {what} -> i64                the same for all programs of a launch
    MACHINE_CALL = 951  # {what} i64... -> i64         uses memory of other PEs


class Rmw(enum.Enum):
    """Kinds of atomic read-modify-writes; the attribute ``kind`` holds the value."""

    ADD = "add"
    MIN = "min"
    MAX = "max"
    AND = "and"
    OR = "or"
    XOR = "xor"
    EXCHANGE = "xchg"


ORDERS = ("relaxed", "acquire", "release", "acq_rel", "volatile")
"""Values of the attribute ``order``. A LOAD or STORE that has one is atomic; ATOMIC_RMW and ATOMIC_CAS without are
``acq_rel``. A LOAD that is ``volatile`` orders what ``relaxed`` orders: nothing."""

SCOPES = ("cta", "gpu", "sys")
"""Values of the attribute ``scope``: among which programs an operation is atomic; ``gpu`` if there is none."""


# ---- Facts, in groups. Passes and compilers derive what they need from these.

# 1: by form
UNARY = frozenset(Code(n) for n in range(Code.NEG, Code.RINT + 1))
FLOAT_UNARY = frozenset(Code(n) for n in range(Code.EXP, Code.RINT + 1))
BINARY = frozenset(Code(n) for n in range(Code.ADD, Code.MULHI + 1))
COMPARISONS = frozenset(Code(n) for n in range(Code.EQ, Code.GE + 1))
ORDERED_COMPARISONS = frozenset({Code.LT, Code.LE, Code.GT, Code.GE})
CONVERSIONS = frozenset({Code.CAST, Code.BITCAST})
FLOAT_BINARY = frozenset({Code.POW, Code.ATAN2})
BITWISE = frozenset({Code.AND, Code.OR, Code.XOR, Code.SHL, Code.SHR, Code.MULHI})
COMMUTATIVE = frozenset(
    {Code.ADD, Code.MUL, Code.MIN, Code.MAX, Code.AND, Code.OR, Code.XOR, Code.MULHI}
    | {Code.EQ, Code.NE}
)

# 2: by what an element of the result depends on
ELEMENTWISE = UNARY | BINARY | COMPARISONS | CONVERSIONS | {Code.SELECT, Code.FMA, Code.PTR_ADD}
"""Pure, and each element of the result depends on that element of the operands alone."""

LAUNCH = frozenset({Code.PROGRAM_ID, Code.NUM_PROGRAMS, Code.MACHINE_WORD})
"""Scalars that the launch gives a program, the same wherever it asks."""

LEAVES = frozenset({Code.CONSTANT, Code.ARANGE, Code.SPLAT})
"""Tiles that are made of no other tile."""

SHAPES = frozenset(Code(n) for n in range(Code.BROADCAST, Code.FLIP + 1))
"""Each element of the result is an element of an operand, at other coordinates."""

VIEWS = frozenset({Code.BROADCAST, Code.PERMUTE, Code.FLIP, Code.SPLIT})
"""The part of ``SHAPES`` whose coordinates are known axis by axis."""

UNIFORM_SHAPES = frozenset({Code.SPLAT, Code.BROADCAST, Code.RESHAPE, Code.PERMUTE, Code.FLIP})
"""Operations of one operand that change nothing but the shape if all its elements are equal."""

PER_ELEMENT = ELEMENTWISE | LEAVES | SHAPES | {Code.AFTER}
"""Single elements of the result can be computed wherever they are needed."""

WHOLE_TILE = frozenset({Code.SCAN, Code.DOT, Code.HISTOGRAM, Code.SORT})
"""Each element of the result depends on many of the operands."""

# 3: by effect
MEMORY = frozenset({Code.LOAD, Code.STORE, Code.ATOMIC_RMW, Code.ATOMIC_CAS})
ATOMIC = frozenset({Code.ATOMIC_RMW, Code.ATOMIC_CAS})
READS = ATOMIC | {Code.LOAD}
"""The result comes from memory."""

CONTROL = frozenset({Code.FOR, Code.WHILE, Code.IF, Code.CALL})
TERMINATORS = frozenset({Code.YIELD, Code.RETURN})

IMPURE = (
    MEMORY
    | CONTROL
    | TERMINATORS
    | {Code.BARRIER, Code.ASSERT, Code.PRINT, Code.OBSERVE, Code.MACHINE_CALL}
)
"""Operations that may not be dropped, copied or moved past others freely; so are those whose regions hold any."""

EFFECTS = ATOMIC | frozenset(
    {Code.STORE, Code.WHILE, Code.CALL, Code.RETURN, Code.BARRIER, Code.ASSERT, Code.PRINT}
    | {Code.OBSERVE, Code.MACHINE_CALL}
)
"""Operations that are needed although no result of them is; a WHILE may wait for other programs."""

PURE = ELEMENTWISE | LEAVES | SHAPES | LAUNCH | {Code.HISTOGRAM, Code.SORT, Code.DOT}
"""Equal operands give equal results, so one of two equal operations will do.

AFTER is not one of them (it holds a value back), nor are REDUCE and SCAN (their regions are not compared).
"""

# 4: by cost and exactness
COSTLY = FLOAT_UNARY | {Code.DIV, Code.REM, Code.POW, Code.ATAN2}
"""Element-wise operations that take many instructions."""

CHEAP = ELEMENTWISE - COSTLY - {Code.ABS, Code.MULHI, Code.FMA}
"""Element-wise operations that take about one instruction of integers and pointers."""

EXACT = ELEMENTWISE - FLOAT_UNARY - FLOAT_BINARY - {Code.PTR_ADD} | {
    Code.SQRT,
    Code.FLOOR,
    Code.CEIL,
    Code.TRUNC,
    Code.RINT,
}
"""Element-wise operations whose results are defined to the bit."""
