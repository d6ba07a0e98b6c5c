"""Names, operand dtypes and symbols of the functions of ``libdevice``."""

from __future__ import annotations

from typing import NamedTuple

_LETTERS = {"f": "fp32", "d": "fp64", "i": "int32", "u": "uint32", "l": "int64", "L": "uint64"}


class Overload(NamedTuple):
    """A function of a device library.

    Attributes:
        dtypes: Names of the operands' dtypes.
        symbol: Name in the library.
        result: Name of the result's dtype.
    """

    dtypes: tuple[str, ...]
    symbol: str
    result: str


# Of f and d alike: the name, with an "f" behind it for fp32. By the number of operands.
_FLOATS = {
    1: """
    acos acosh asin asinh atan atanh cbrt ceil cos cosh cospi cyl_bessel_i0 cyl_bessel_i1 erf erfc
    erfcinv erfcx erfinv exp exp10 exp2 expm1 floor j0 j1 lgamma log log10 log1p log2 logb nearbyint
    normcdf normcdfinv rcbrt rint round rsqrt sin sinh sinpi sqrt tan tanh tgamma trunc y0 y1
    """,
    2: "atan2 copysign fdim fmod hypot nextafter pow remainder rhypot",
    3: "fma norm3d rnorm3d",
    4: "norm4d rnorm4d",
}

# name: operands>result=symbol ...; a symbol stands without its "__nv_".
_OTHERS = """
abs: i>i=abs l>l=llabs f>f=fabsf d>d=fabs
brev: i>i=brev l>l=brevll
byte_perm: iii>i=byte_perm
clz: i>i=clz l>i=clzll
double2hiint: d>i=double2hiint
double2loint: d>i=double2loint
double_as_longlong: d>l=double_as_longlong
fast_cosf: f>f=fast_cosf
fast_dividef: ff>f=fast_fdividef
fast_exp10f: f>f=fast_exp10f
fast_expf: f>f=fast_expf
fast_log10f: f>f=fast_log10f
fast_log2f: f>f=fast_log2f
fast_logf: f>f=fast_logf
fast_powf: ff>f=fast_powf
fast_sinf: f>f=fast_sinf
fast_tanf: f>f=fast_tanf
fast_tanhf: f>f=fast_tanhf
ffs: i>i=ffs l>i=ffsll
finitef: f>b=finitef
float_as_int: f>i=float_as_int
float_as_uint: f>i=float_as_uint
hadd: ii>i=hadd uu>u=uhadd
hiloint2double: ii>d=hiloint2double
ilogb: f>i=ilogbf d>i=ilogb
int_as_float: i>f=int_as_float
isfinited: d>b=isfinited
isinf: f>b=isinff d>b=isinfd
isnan: f>b=isnanf d>b=isnand
jn: if>f=jnf id>d=jn
ldexp: fi>f=ldexpf di>d=ldexp
llrint: f>l=llrintf d>l=llrint
llround: f>l=llroundf d>l=llround
longlong_as_double: l>d=longlong_as_double
mul24: ii>i=mul24 uu>u=umul24
mulhi: ii>i=mulhi uu>u=umulhi ll>l=mul64hi LL>L=umul64hi
popc: i>i=popc l>i=popcll
pow: fi>f=powif di>d=powi
rcp64h: d>d=rcp64h
rhadd: ii>i=rhadd uu>u=urhadd
rsqrt_rn: f>f=frsqrt_rn
sad: iiu>i=sad uuu>u=usad
saturatef: f>f=saturatef
scalbn: fi>f=scalbnf di>d=scalbn
signbit: f>i=signbitf d>i=signbitd
uint_as_float: u>f=uint_as_float
yn: if>f=ynf id>d=yn
"""

ROUNDINGS = ("rn", "rz", "rd", "ru")

_INTEGERS = {"int": "i", "uint": "u", "ll": "l", "ull": "L"}


def _overload(operands: str, symbol: str, result: str) -> Overload:
    name = "int1" if result == "b" else _LETTERS[result]
    return Overload(tuple(_LETTERS[o] for o in operands), f"__nv_{symbol}", name)


def _add_floats(table: dict[str, list[Overload]]) -> None:
    for count, names in _FLOATS.items():
        for name in names.split():
            table.setdefault(name, []).append(_overload("f" * count, f"{name}f", "f"))
            table[name].append(_overload("d" * count, name, "d"))


def _add_rounded(table: dict[str, list[Overload]]) -> None:
    for mode in ROUNDINGS:
        for name, count in (
            ("add", 2),
            ("sub", 2),
            ("mul", 2),
            ("div", 2),
            ("rcp", 1),
            ("sqrt", 1),
        ):
            table[f"{name}_{mode}"] = [
                _overload(kind * count, f"{kind}{name}_{mode}", kind) for kind in "fd"
            ]
        table[f"fma_{mode}"] = [
            _overload("fff", f"fmaf_{mode}", "f"),
            _overload("ddd", f"fma_{mode}", "d"),
        ]
        table[f"double2float_{mode}"] = [_overload("d", f"double2float_{mode}", "f")]
        for name, letter in _INTEGERS.items():
            signed = letter.lower().replace("u", "i")
            for source, kind in (("float", "f"), ("double", "d")):
                there, back = f"{source}2{name}_{mode}", f"{name}2{source}_{mode}"
                table[there] = [_overload(kind, there, signed)]
                # Every integer of 32 bits is a double, which needs no rounding.
                if mode == "rn" or kind == "f" or letter in "lL":
                    table[back] = [_overload(letter, back, kind)]


def _build() -> dict[str, list[Overload]]:
    table: dict[str, list[Overload]] = {}
    for line in _OTHERS.strip().splitlines():
        name, _, rest = line.partition(": ")
        for text in rest.split():
            operands, _, found = text.partition(">")
            result, _, symbol = found.partition("=")
            table.setdefault(name, []).append(_overload(operands, symbol, result))
    _add_floats(table)
    _add_rounded(table)
    return table


SIGNATURES = _build()
"""Overloads of each of ``libdevice``'s functions, by its name."""

NAMES = frozenset(SIGNATURES)
"""Names of all functions of ``libdevice``."""
