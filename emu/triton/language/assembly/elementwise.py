"""``inline_asm_elementwise``: tensors in registers, and registers in tensors."""

from __future__ import annotations

import builtins
import re
from collections.abc import Sequence

from emu.triton.language.assembly.program import Program
from emu.triton.language.assembly.registers import Registers
from emu.triton.language.assembly.text import parse
from emu.triton.language.assembly.warps import is_of_warps
from emu.triton.language.constants import ConstexprLike, unwrap
from emu.triton.language.conversion import bitcast_to, cast_to, to_tensor
from emu.triton.language.extra.bits import unsigned
from emu.triton.language.shapes import (
    Shape,
    broadcast_tensors,
    broadcast_to,
    join,
    reshape,
    split,
    trans,
)
from emu.triton.language.threads import is_own, own_value, settled
from emu.triton.language.types import dtype as _dtype
from emu.triton.language.types import get_int_dtype, int1, int8, uint64
from emu.triton.language.values import TensorLike, tensor, tuple
from emu.triton.language.variation import variation

_WIDTHS = {"r": 32, "f": 32, "h": 16, "l": 64, "d": 64, "c": 16, "b": 1}
_AMD = re.compile(r"(?m)^\s*[vs]_\w+|^\s*(?:ds|global|buffer)_\w+")


def _held(letter: str, constraints: str) -> _dtype:
    width = _WIDTHS.get(letter)
    if width is None:
        raise ValueError(
            f"constraints must have the letters {', '.join(_WIDTHS)}, but got {letter!r} in {constraints!r}"
        )
    return int1 if width == 1 else get_int_dtype(width, False)


def _read_constraints(constraints: str) -> builtins.tuple[list[str], list[str]]:
    """Return the letters of the outputs and of the inputs; a digit ties an input to an output."""
    outputs: list[str] = []
    inputs: list[str] = []
    for part in constraints.replace(" ", "").split(","):
        if not part or part.startswith("~"):
            continue
        letter = part.lstrip("=&+")
        (outputs if part.startswith("=") else inputs).append(letter)
    return outputs, inputs


def _per_register(element: _dtype, pack: int) -> int:
    """Return how many elements a register holds: those narrower than 32 bits are packed."""
    width = _bits(element)
    return min(pack, 32 // width) if width < 32 else 1


def _bits(element: _dtype) -> int:
    return 64 if element.is_ptr() else max(8, element.primitive_bitwidth)


def _as_bits(x: tensor) -> tensor:
    if x.dtype.is_ptr():
        return cast_to(x, uint64)
    if x.dtype == int1:
        x = cast_to(x, int8)
    return unsigned(x)


def _columns(x: tensor, count: int) -> list[tensor]:
    """Return the elements at each place of runs of ``count``."""
    if count == 1:
        return [x]
    even, odd = split(reshape(x, [x.type.numel // 2, 2])).values
    first, second = _columns(even, count // 2), _columns(odd, count // 2)
    return [v for pair in zip(first, second, strict=True) for v in pair]


def _interleaved(columns: Sequence[tensor]) -> tensor:
    """Undo :func:`_columns`."""
    if len(columns) == 1:
        return columns[0]
    even, odd = _interleaved(columns[::2]), _interleaved(columns[1::2])
    return reshape(join(even, odd), [2 * even.type.numel])


def _packed(columns: Sequence[tensor], per: int) -> list[tensor]:
    """Return registers of ``per`` elements each, the first in the lowest bits."""
    registers = []
    for start in range(0, len(columns), per):
        group = columns[start : start + per]
        width = group[0].dtype.primitive_bitwidth
        whole = get_int_dtype(width * per, False)
        total = cast_to(group[0], whole)
        for place, column in enumerate(group[1:], 1):
            total = total | (cast_to(column, whole) << (place * width))
        registers.append(total)
    return registers


def _unpacked(registers: Sequence[tensor], element: _dtype, per: int) -> list[tensor]:
    width = _bits(element)
    part = get_int_dtype(width, False)
    columns = [cast_to(r >> (p * width) if p else r, part) for r in registers for p in range(per)]
    if element.is_ptr():
        return [cast_to(c, element) for c in columns]
    return [cast_to(c, element) if element == int1 else bitcast_to(c, element) for c in columns]


def _check(asm: object, constraints: object, pack: object) -> None:
    for name, given in (("asm", asm), ("constraints", constraints)):
        if not isinstance(given, str):
            raise TypeError(f"{name} must be a text known at compile time, but got {given!r}")
    if isinstance(pack, bool) or not isinstance(pack, int):
        raise TypeError(f"pack must be an int known at compile time, but got {pack!r}")
    if pack < 1 or pack & (pack - 1):
        raise ValueError(f"pack must be a power of two, but got {pack}")
    if isinstance(asm, str) and _AMD.search(asm):
        first = " ".join(asm.split("\n")[0].split()) or " ".join(asm.split())
        raise NotImplementedError(
            f"inline assembly: {first!r} is the assembly of an AMD GPU; emu runs a subset of PTX"
        )


class _Operands:
    """Outputs and inputs of a text, as registers."""

    def __init__(self, constraints: str, pack: int, elements: Sequence[_dtype]) -> None:
        self.constraints, self.pack, self.elements = constraints, pack, elements
        self.outputs, self.inputs = _read_constraints(constraints)
        needed = sum(pack // _per_register(e, pack) for e in elements)
        if len(self.outputs) != needed:
            raise ValueError(
                f"constraints must have {needed} outputs for the results "
                f"{', '.join(map(str, elements))} and pack={pack}, but got {len(self.outputs)} in "
                f"{constraints!r}"
            )

    def bind(self, registers: Registers, values: Sequence[tensor]) -> None:
        """Make ``$0``, ``$1`` and so on registers."""
        if len(self.inputs) != len(values):
            raise ValueError(
                f"constraints must have {len(values)} inputs for the args and pack={self.pack}, but got "
                f"{len(self.inputs)} in {self.constraints!r}"
            )
        for place, letter in enumerate(self.outputs):
            registers.bind(f"${place}", _held(letter, self.constraints), None)
        for place, (letter, value) in enumerate(zip(self.inputs, values, strict=True)):
            tied = int(letter) if letter.isdigit() else None
            if tied is not None and tied >= len(self.outputs):
                raise ValueError(
                    f"constraints must tie inputs to outputs, but got {self.constraints!r}"
                )
            held = _held(self.outputs[tied] if tied is not None else letter, self.constraints)
            fitted = cast_to(value, held)
            registers.bind(f"${len(self.outputs) + place}", held, fitted)
            if tied is not None:
                registers.bind(f"${tied}", held, fitted)

    def results(self, registers: Registers) -> list[tensor]:
        """Return each result's elements in the registers' order."""
        found, place = [], 0
        for element in self.elements:
            per = _per_register(element, self.pack)
            names = [f"${place + i}" for i in range(self.pack // per)]
            place += len(names)
            held = [registers.values.get(n, registers.zeros(registers.widths[n])) for n in names]
            found.append(_interleaved(_unpacked(held, element, per)))
        return found


def _spread(operands: Sequence[tensor], pack: int) -> builtins.tuple[list[tensor], Shape, int]:
    """Return operands of one shape with at least ``pack`` elements in a row, the shape, and its size."""
    shape = operands[0].extents if operands else ()
    count = operands[0].type.numel if operands else 1
    if pack == 1:
        return list(operands), shape, count
    flat = [reshape(o, [count]) if o.extents else broadcast_to(o, [1]) for o in operands]
    if count < pack:
        flat = [
            reshape(broadcast_to(reshape(o, [1, count]), [pack // count, count]), [pack])
            for o in flat
        ]
    return flat, shape, count


def _gathered(x: tensor, shape: Shape, count: int, pack: int) -> tensor:
    """Return a result under the operands' shape."""
    if pack == 1:
        return x
    if count < pack:
        # Copies of the few elements stand behind one another: the first of each is kept.
        x = trans(reshape(x, [pack // count, count]))
        while len(x.extents) > 1 and x.extents[-1] > 1:
            half = split(reshape(x, [count, x.extents[-1] // 2, 2])).values[0]
            assert isinstance(half, tensor)
            x = half
    if shape:
        return reshape(x, list(shape))
    first = split(reshape(broadcast_to(reshape(x, [1]), [2]), [2])).values[0]
    assert isinstance(first, tensor)
    return first


def _of_threads(result: tensor, operands: Sequence[tensor]) -> tensor:
    """Return the result of a warp's instruction as a value of threads, if one of the operands is one."""
    if not result.extents or is_own(result) or not any(map(is_own, operands)):
        return result
    return own_value(result.handle, result.dtype, variation(result.handle))


def inline_asm_elementwise(
    asm: ConstexprLike[str],
    constraints: ConstexprLike[str],
    args: Sequence[TensorLike],
    dtype: ConstexprLike[_dtype] | Sequence[ConstexprLike[_dtype]],
    is_pure: ConstexprLike[bool],
    pack: ConstexprLike[int],
    _semantic: object = None,
) -> tensor | tuple:
    """Run inline assembly, a subset of PTX, on the elements of tensors.

    The text becomes operations like any others: registers (``$k`` and those of ``.reg``), blocks in braces,
    instructions that compute, convert, compare and choose, predicates, loads, stores and atomic operations,
    branches forward, and loops that end with a branch under a predicate.

    Args:
        asm: The text.
        constraints: LLVM's: outputs (``=r``), then inputs, by commas; ``r`` and ``f`` have 32 bits, ``h`` 16,
            ``l`` and ``d`` 64.
        args: Tensors or numbers; broadcast to one shape.
        dtype: Dtype of the result; a sequence gives a tuple of results.
        is_pure: Accepted: effects on memory are kept in any case.
        pack: Elements that one run of the text processes, a power of two. Those narrower than 32 bits share
            registers; runs take neighbours in row-major order.

    Raises:
        NotImplementedError: The text has an instruction outside the subset.
        TypeError: ``asm``, ``constraints``, ``pack`` or ``dtype`` has a wrong type.
        ValueError: ``pack`` is no power of two, or the constraints do not fit the operands.
    """
    del is_pure, _semantic
    text, rules, run = unwrap(asm), unwrap(constraints), unwrap(pack)
    _check(text, rules, run)
    wanted = unwrap(dtype)
    several = isinstance(wanted, tuple | list | builtins.tuple)
    elements = [unwrap(e) for e in wanted] if several else [wanted]
    if not elements or not all(isinstance(e, _dtype) for e in elements):
        raise TypeError(f"dtype must be a dtype, or a sequence of them, but got {wanted!r}")
    operands = [to_tensor(a) for a in args]
    spread, shape, count = _spread(broadcast_tensors(*operands) if operands else (), run)
    layout = _Operands(rules, run, elements)
    values = [
        register
        for x in spread
        for register in _packed(_columns(_as_bits(x), run), _per_register(x.dtype, run))
    ]
    registers = Registers(values[0].extents if values else ())
    layout.bind(registers, values)
    Program(parse(text), registers).run()
    results = [_gathered(r, shape, count, run) for r in layout.results(registers)]
    if is_of_warps(text):
        results = [settled(_of_threads(r, operands)) for r in results]
    return tuple(results) if several else results[0]
