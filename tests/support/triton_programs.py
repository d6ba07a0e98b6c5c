"""Random Triton kernels as source text: tiles of all dtypes, promotion, masks, control flow, reductions, scans, atomics.

A program is a pure function of its seed. What it computes is defined: integers are not divided by zero, floats
are made to fit before they become integers, no result depends on the bits of a NaN (which operand's a sum has is the
compiler's choice), and no two elements are stored to one address.
"""

from __future__ import annotations

import importlib.util
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
SHAPES = ((64,), (128,), (32,), (4, 32), (8, 16), (16, 4), (2, 4, 8), (1, 64), (32, 1))
UNARY_FLOAT = (
    "tl.exp({})", "tl.exp2({})", "tl.log({})", "tl.log2({})", "tl.sqrt(tl.abs({}))", "tl.rsqrt(tl.abs({}))", "tl.sin({})", "tl.cos({})",
    "tl.floor({})", "tl.ceil({})", "tl.erf({})", "tl.sigmoid({})", "libdevice.tanh({})", "libdevice.rint({})", "libdevice.cbrt({})", "libdevice.log1p({})",
)  # fmt: skip
"""Of fp32: narrower operands are widened."""
ROUNDED = tuple(f"{{}}.to(tl.float8{f}).to(tl.float32)" for f in ("e4nv", "e5", "e4b8", "e5b16"))
BINARY_INTEGER = (
    "{} & {}", "{} | {}", "{} ^ {}", "{} // (({} & 7) + 1)", "{} % (({} & 15) + 1)", "{} << ({} & 3)", "{} >> ({} & 3)", "tl.cdiv({} & 31, ({} & 7) + 1)",
)  # fmt: skip
BINARY_FLOAT = (
    "{} / {}", "{} * {}", "{} - {}", "tl.fma({0}, {1}, {0})", "libdevice.copysign({0}, tl.where({1} == {1}, {1}, 1))",
    "libdevice.fmod({}, {})",
)  # fmt: skip
SELECTIONS = (
    "tl.where({x} {c} {y}, {a}, {b})", "tl.minimum({a}, {b})", "tl.maximum({a}, {b})", "smaller_first({a}, {b})[0]", "chosen({a}, {b}, n)",
    "tl.where(({x} {c} {y}) & (offsets % 3 != 0), {a}, {b})", "tl.where(not (n > 20), {a}, {b})", "({a} if n % 2 == 0 else {b})", "tl.map_elementwise(branching, {a}, {b})",
)  # fmt: skip
SELECTIONS_FLOAT = (
    "tl.maximum({a}, {b}, propagate_nan=tl.PropagateNan.ALL)", "tl.minimum({a}, {b}, propagate_nan=tl.PropagateNan.ALL)", "tl.clamp({a}, -2.0, 3.0)",
)  # fmt: skip
REDUCTIONS = (
    "tl.sum({x}, {axis}, keep_dims=True)", "tl.max({x}, {axis}, keep_dims=True)", "tl.min({x}, {axis}, keep_dims=True)",
    "tl.argmax({x}, {axis}, keep_dims=True)", "tl.argmin({x}, {axis}, keep_dims=True)", "tl.reduce({x}, {axis}, larger, keep_dims=True)",
    "tl.sum({x})", "tl.max({x})",
)  # fmt: skip
REDUCTIONS_INTEGER = ("tl.xor_sum({x}, {axis}, keep_dims=True)", "tl.reduce_or({x}, {axis}, keep_dims=True)")  # fmt: skip
SCANS = (
    "tl.cumsum({x}, {axis}, reverse={r})", "tl.cumprod({x}, {axis}, reverse={r})", "tl.associative_scan({x}, {axis}, larger, reverse={r})",
)  # fmt: skip
CONDITIONS = (
    "n > 40", "n % 3 == 1", "pid == 1", "scale > 0 and n > 10", "not (pid == 0)", "tl.sum({}.to(tl.int32)) % 2 == 0",
)  # fmt: skip
RANGES = ("range(n % 4)", "range(3)", "tl.range(0, n % 7, 2)", "tl.static_range(2)", "range(3, pid, -1)")  # fmt: skip
HELPERS = """import emu.triton as triton
import emu.triton.language as tl
from emu.triton.language.extra import libdevice


@triton.jit
def smaller_first(a, b):
    return tl.minimum(a, b), tl.maximum(a, b)


@triton.jit
def chosen(x, y, n):
    if n > 50:
        return x
    return y


@triton.jit
def larger(a, b):
    return tl.where(a > b, a, b)


@triton.jit
def composed(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@triton.jit
def finite(x, limit: tl.constexpr):
    x = tl.where(x == x, x, 0)
    return tl.clamp(x.to(tl.float32), -limit, limit)


@triton.jit
def branching(a, b):
    if a > b:
        return a - b
    else:
        return b
"""


def numpy_dtype(name: str) -> np.dtype[np.generic]:
    """Return NumPy's dtype of a name."""
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


@dataclass
class Program:
    """A kernel with its data.

    Attributes:
        source: Text of a module with the kernel ``kernel``.
        inputs: Arrays that it reads.
        outputs: Arrays that it writes, zeros.
        scalars: Its numbers.
        grid: Number of programs.
    """

    source: str
    inputs: list[np.ndarray]
    outputs: list[np.ndarray]
    scalars: tuple[int, float]
    grid: int


@dataclass
class Maker:
    """State of a program that is being made.

    Attributes:
        rng: The only source of chance.
        shape: Of all tiles.
        dtypes: Of the variables, by name.
        lines: The body so far.
        indent: Of the next line.
    """

    rng: random.Random
    shape: tuple[int, ...]
    dtypes: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    indent: int = 1
    count: int = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def any(self, among: tuple[str, ...] | None = None) -> str:
        names = [n for n, d in self.dtypes.items() if among is None or d in among]
        if names:
            return self.rng.choice(names)
        dtype = self.rng.choice(among or FLOATS)
        return f"tl.full({list(self.shape)}, {self.rng.randrange(5)}, tl.{dtype})"

    def is_float(self, name: str) -> bool:
        """Return whether an operand is of floats; what is no variable is."""
        return self.dtypes.get(name, "float32") in FLOATS

    def converted(self, expression: str, is_float: bool, to: str) -> str:
        """Return an expression of a dtype."""
        if is_float and to in INTEGERS:
            limit = 100 if to == "int8" else 1000
            low = (
                f"tl.abs(finite({expression}, {limit}))"
                if to[0] == "u"
                else f"finite({expression}, {limit})"
            )
            return f"({low} * 0.2).to(tl.{to})"
        return f"({expression}).to(tl.{to})"

    def assign(
        self, expression: str, is_float: bool, to: str | None = None, name: str | None = None
    ) -> str:
        to = to or self.rng.choice(FLOATS if is_float and self.rng.random() < 0.8 else INTEGERS)
        name = name or self.fresh()
        self.line(f"{name} = {self.converted(expression, is_float, to)}")
        self.dtypes[name] = to
        return name

    # ---- statements

    def binary(self) -> None:
        rng = self.rng
        choice = rng.random()
        if choice < 0.5:
            x, y = self.any(), self.any()
            is_float = self.is_float(x) or self.is_float(y)
            second = y if rng.random() < 0.8 else rng.choice(["3", "n", "1.5" if is_float else "7"])
            self.assign(f"{x} {rng.choice('+-*')} {second}", is_float)
        elif choice < 0.8:
            dtype = rng.choice(INTEGERS)
            x, y = (f"{self.any(INTEGERS)}.to(tl.{dtype})" for _ in range(2))
            self.assign(rng.choice(BINARY_INTEGER).format(x, y), False)
        else:
            wide = rng.choice(["float32", "float32", "float64"])
            x, y = (f"{self.any(FLOATS)}.to(tl.{wide})" for _ in range(2))
            self.assign(rng.choice(BINARY_FLOAT).format(x, y), True)

    def unary(self) -> None:
        rng = self.rng
        if rng.random() < 0.6:
            text, wide = rng.choice(UNARY_FLOAT + ROUNDED), rng.choice(["float32", "float64"])
            wide = "float32" if text in ROUNDED else wide
            self.assign(text.format(f"{self.any(FLOATS)}.to(tl.{wide})"), True)
        else:
            text = rng.choice(["-{}", "~{}", "tl.abs({})", "tl.flip({})", "tl.randint(n, {})"])
            self.assign(text.format(self.any(INTEGERS)), False)

    def bits(self) -> None:
        x = self.any(("float32", "int32", "uint32"))
        to = self.rng.choice(["float32", "int32", "uint32"])
        if x in self.dtypes:
            name = self.fresh()
            number = f"tl.where({x} == {x}, {x}, 0)" if self.dtypes[x] == "float32" else x
            self.line(f"{name} = {number}.to(tl.{to}, bitcast=True)")
            self.dtypes[name] = to

    def selection(self) -> None:
        rng = self.rng
        x, y = self.any(), self.any()
        same = rng.choice(FLOATS + INTEGERS)
        is_float = same in FLOATS
        a = self.converted(x, self.is_float(x), same)
        b = self.converted(y, self.is_float(y), same)
        text = rng.choice(SELECTIONS + SELECTIONS_FLOAT if is_float else SELECTIONS)
        compare = rng.choice(["<", "<=", "==", "!=", ">", ">="])
        self.assign(text.format(x=x, y=y, a=a, b=b, c=compare), is_float)

    def along(self) -> None:
        rng = self.rng
        x, axis = self.any(), rng.randrange(len(self.shape))
        if x not in self.dtypes:
            return
        is_float, choice = self.is_float(x), rng.random()
        if choice < 0.45:
            text = rng.choice(REDUCTIONS if is_float else REDUCTIONS + REDUCTIONS_INTEGER)
            zeros = f"tl.zeros({list(self.shape)}, tl.{'float32' if is_float else 'int32'})"
            self.assign(f"{text.format(x=x, axis=axis)} + {zeros}", is_float)
        elif choice < 0.8:
            self.assign(rng.choice(SCANS).format(x=x, axis=axis, r=rng.random() < 0.4), is_float)
        elif choice < 0.9 and is_float:
            first, second = self.fresh(), self.fresh()
            self.line(f"{first}, {second} = tl.associative_scan(({x}, {x}), {axis}, composed)")
            self.dtypes[first] = self.dtypes[second] = self.dtypes[x]
        elif len(self.shape) == 1 and not is_float:
            self.assign(f"tl.sort({x}, descending={rng.random() < 0.5})", False, self.dtypes[x])

    def product(self) -> None:
        total = int(np.prod(self.shape))
        x, y = (f"tl.reshape({self.any(FLOATS)}, [8, {total // 8}])" for _ in range(2))
        dtype = self.rng.choice(["float16", "bfloat16", "float32"])
        found = f"tl.dot({x}.to(tl.{dtype}), tl.trans({y}.to(tl.{dtype})))"
        self.assign(f"tl.sum({found}, 1)[:, None] + tl.zeros([8, {total // 8}], tl.float32)", True)
        name = next(reversed(self.dtypes))
        self.line(f"{name} = tl.reshape({name}, {list(self.shape)})")

    def shapes(self) -> None:
        x = self.any()
        if x not in self.dtypes:
            return
        name = self.fresh()
        total = int(np.prod(self.shape))
        text = self.rng.choice(
            [f"tl.reshape(tl.trans(tl.reshape({x}, [4, {total // 4}])), {list(self.shape)})", f"tl.flip({x}, {self.rng.randrange(len(self.shape))})",
             f"tl.reshape(tl.join(*tl.split(tl.reshape({x}, [{total // 2}, 2]))), {list(self.shape)})",
             f"tl.gather({x}, (offsets * 7 + n) % {self.shape[-1]}, {len(self.shape) - 1})", f"tl.reshape(tl.ravel({x}), {list(self.shape)})"]
        )  # fmt: skip
        self.line(f"{name} = {text}")
        self.dtypes[name] = self.dtypes[x]

    def block(self, header: str, statements: int) -> None:
        """Emit a block whose new variables end with it, and which assigns variables from before."""
        self.line(header)
        before = dict(self.dtypes)
        self.indent += 1
        for _ in range(statements):
            self.statement(nested=True)
        for name in self.rng.sample(sorted(before), min(len(before), self.rng.randint(1, 2))):
            other = self.rng.choice([n for n in self.dtypes if self.dtypes[n] in FLOATS + INTEGERS])
            mixed = f"{name} + {other}" if self.rng.random() < 0.7 else other
            is_float = before[name] in FLOATS or self.dtypes[other] in FLOATS
            self.assign(mixed, is_float, before[name], name)
        self.indent -= 1
        self.dtypes = before

    def control(self) -> None:
        rng = self.rng
        choice = rng.random()
        if choice < 0.35:
            self.block(
                f"if {rng.choice(CONDITIONS).format(self.any(INTEGERS))}:", rng.randint(1, 2)
            )
            if rng.random() < 0.5:
                self.block("else:", 1)
        elif choice < 0.75:
            self.block(f"for i{self.indent} in {rng.choice(RANGES)}:", rng.randint(1, 2))
        else:
            counter = self.fresh()
            self.line(f"{counter} = n % 5")
            self.block(f"while {counter} > 0:", 1)
            self.lines.append("    " * (self.indent + 1) + f"{counter} -= 2")

    def statement(self, nested: bool = False) -> None:
        kinds = [self.binary, self.binary, self.unary, self.bits, self.selection, self.along, self.shapes, self.product]  # fmt: skip
        if not nested or (self.indent < 3 and self.rng.random() < 0.3):
            kinds += [self.control, self.control]
        self.rng.choice(kinds)()


def values(rng: np.random.Generator, dtype: str, count: int) -> np.ndarray:
    """Return numbers of a dtype, extreme ones among them."""
    made = numpy_dtype(dtype)
    if dtype in FLOATS:
        x = rng.standard_normal(count) * rng.choice([1, 10, 1e-3])
        special = [0.0, -0.0, np.nan, np.inf, -np.inf, 65504.0, 1e-8, -1e30, 6e-8, 3.4e38]
        places = rng.random(count) < rng.choice([0.0, 0.1])
        x[places] = rng.choice(special, places.sum())
        with np.errstate(over="ignore"):
            return x.astype(made)
    limits = np.iinfo(made)
    x = rng.integers(-20, 20, count).astype(made)
    places = rng.random(count) < 0.2
    x[places] = rng.choice(np.array([limits.min, limits.max, 0, 1], made), places.sum())
    return x


def make(seed: int) -> Program:
    """Return the program of a seed."""
    rng = random.Random(seed)
    numbers = np.random.default_rng(seed)
    shape = rng.choice(SHAPES)
    total, grid = int(np.prod(shape)), rng.choice([1, 2, 3])
    maker = Maker(rng, shape)
    ranges = []
    for axis, extent in enumerate(shape):
        index = ", ".join(":" if a == axis else "None" for a in range(len(shape)))
        ranges.append(f"tl.arange(0, {extent})[{index}] * {int(np.prod(shape[axis + 1 :]))}")
    maker.line("pid = tl.program_id(0)")
    maker.line(f"offsets = pid * {total} + " + " + ".join(ranges))
    inputs = []
    for k in range(rng.randint(2, 4)):
        dtype = rng.choice(FLOATS + INTEGERS)
        inputs.append(values(numbers, dtype, total * grid))
        mask = rng.choice(
            [
                "",
                ", mask=offsets < n",
                ", mask=offsets < n, other=1",
                ", mask=offsets % 3 == 0, other=2",
            ]
        )
        name = maker.fresh()
        maker.line(f"{name} = tl.load(x{k} + offsets{mask})")
        maker.dtypes[name] = dtype
    for _ in range(rng.randint(4, 9)):
        maker.statement()
    outputs = []
    for k, name in enumerate(rng.sample(sorted(maker.dtypes), min(4, len(maker.dtypes)))):
        dtype = maker.dtypes[name]
        mask = rng.choice(["", ", mask=offsets < n", f", mask={name} == {name}"])
        if dtype in ("int32", "uint32", "int64", "float32") and rng.random() < 0.2:
            old = maker.fresh()
            kind = rng.choice(["add", "max", "min"]) if dtype != "float32" else "add"
            maker.line(f"{old} = tl.atomic_{kind}(y{k} + offsets, {name})")
        else:
            maker.line(f"tl.store(y{k} + offsets, {name}{mask})")
        outputs.append(np.zeros(total * grid, numpy_dtype(dtype)))
    parameters = [*(f"x{k}" for k in range(len(inputs))), *(f"y{k}" for k in range(len(outputs)))]
    header = f"@triton.jit\ndef kernel({', '.join(parameters)}, n, scale):\n"
    source = HELPERS + "\n\n" + header + "\n".join(maker.lines) + "\n"
    scalars = rng.randrange(total * grid + 4), rng.choice([-1.5, 0.5])
    return Program(source, inputs, outputs, scalars, grid)


def load(program: Program, path: Path) -> Any:
    """Return the kernel of a program, from a file of that path, as Triton wants it."""
    path.write_text(program.source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


def bits(array: np.ndarray) -> np.ndarray:
    """Return the bits of numbers; all NaNs have the same."""
    found = array.view(f"u{array.itemsize}").copy()
    if array.dtype.kind not in "iu":
        found[np.isnan(array.astype(np.float64))] = 0x7E
    return found
