"""Kernels of groups: made once, sent to processes, run there."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from emu.mlir.ir import Value
from emu.mlir.types import TensorType
from emu.stablehlo.compiled.fusion.access import Access, coalesced, contiguous
from emu.stablehlo.compiled.fusion.groups import Group
from emu.stablehlo.compiled.fusion.recipe import recipe_of
from emu.stablehlo.compiled.fusion.values import Sources, shape_of, tile_dtype
from emu.stablehlo.reference.dtypes import dtype_of
from emu.stablehlo.reference.errors import EvaluationError
from emu.stablehlo.reference.values import Array
from emu.tile.fusion import FrontEnd, Launch, Recipe, kernel_of, load_stored
from emu.tile.fusion.emitters import Emit

Pair: TypeAlias = tuple[int, int]
Kind: TypeAlias = "tuple[tuple[int, ...], np.dtype[np.generic]]"


def _emitters() -> Mapping[str, Emit]:
    from emu.stablehlo.compiled.fusion.operations import EMITTERS

    return EMITTERS


FRONT_END = FrontEnd("fused", ("stablehlo/compiled/fusion",), _emitters)
"""StableHLO's operations."""


@dataclass(frozen=True)
class FusedKernel:
    """A kernel that computes a group; immutable and picklable.

    It is pickled without its machine code, which lies in emu's cache on disk.

    Attributes:
        recipe: What it computes.
        launch: Extents and strides of this group.
        in_place: Pairs of an input and an output that may share their memory, since each element is read before
            the same element is written.
        inputs: Shape and dtype of each input.
        outputs: Those of each output.
    """

    recipe: Recipe
    launch: Launch
    in_place: tuple[Pair, ...]
    inputs: tuple[Kind, ...]
    outputs: tuple[Kind, ...]

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Compute the outputs.

        Args:
            inputs: One array per input of the group, of its shape and dtype. What is not C-contiguous is copied first.
            outputs: One C-contiguous array per output. None overlaps an input or another output, but an output may
                be the input of a pair of ``in_place``.

        Raises:
            EvaluationError: An array does not fit, or an output is not C-contiguous.
        """
        self.bind(inputs, outputs)()

    def bind(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Callable[[], None]:
        """Return a function that computes the outputs from what the inputs then hold.

        Args:
            inputs: As in :meth:`run`.
            outputs: As in :meth:`run`.

        Raises:
            EvaluationError: An array does not fit, or an output is not C-contiguous.
        """
        # A NumPy scalar has no memory that lasts.
        inputs = [np.asarray(each) for each in inputs]
        self._check(inputs, outputs)
        launch = self._launcher
        copies: list[tuple[Array, Array]] = []
        arrays = []
        for array in inputs:
            if not array.flags.c_contiguous:
                copies.append((np.empty(array.shape, array.dtype), array))
                array = copies[-1][0]
            arrays.append(array)
        # A third of the time of ``ctypes.data``: in loops, kernels are bound again and again.
        values = [each.__array_interface__["data"][0] for each in (*arrays, *outputs)]
        values += self.launch.numbers
        x, y, z = self.launch.grid

        # The arrays are arguments because they must live as long as the function, which has their addresses.
        def run(arrays: object = (arrays, list(outputs))) -> None:
            for target, source in copies:
                np.copyto(target, source)
            launch(x, y, z, values)

        return run

    def load(self) -> None:
        """Load the machine code, if it is on disk."""
        load_stored(self.recipe, FRONT_END)

    @functools.cached_property
    def _launcher(self) -> Callable[[int, int, int, Sequence[object]], None]:
        """Launches on one thread: a PE has one."""
        return kernel_of(self.recipe, FRONT_END).bind(1)

    def __getstate__(self) -> dict[str, object]:
        """Return what is pickled: not the launcher, which is this process's."""
        return {name: value for name, value in self.__dict__.items() if name != "_launcher"}

    def _check(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Raise an error where an array is not what the kernel was compiled for: it gets addresses only."""
        for what, arrays, types in (
            ("input", inputs, self.inputs),
            ("output", outputs, self.outputs),
        ):
            if len(arrays) != len(types):
                raise EvaluationError(
                    f"a fused kernel takes {len(types)} {what}s, but got {len(arrays)}"
                )
            for index, (array, (shape, dtype)) in enumerate(zip(arrays, types, strict=True)):
                if array.shape != shape or array.dtype != dtype:
                    raise EvaluationError(
                        f"{what} {index} must be {dtype}{list(shape)}, but is {array.dtype}{list(array.shape)}"
                    )
                if what == "output" and not (array.flags.c_contiguous and array.flags.writeable):
                    raise EvaluationError(f"output {index} must be C-contiguous and writeable")


def compile_group(group: Group) -> FusedKernel:
    """Compile the kernel of a group, or find it in the cache."""
    recipe, launch = recipe_of(group)
    kernel_of(recipe, FRONT_END)
    kinds = [tuple(map(_kind, values)) for values in (group.inputs, group.outputs)]
    return FusedKernel(recipe, launch, _in_place(group), *kinds)


def _kind(value: Value) -> Kind:
    type_ = value.type
    assert isinstance(type_, TensorType)
    return type_.static_shape, dtype_of(type_.element)


def _in_place(group: Group) -> tuple[Pair, ...]:
    """Return the pairs of an input and an output whose elements correspond one to one."""
    sources, found = Sources(), []
    reads: dict[Value, list[Access]] = {value: [] for value in group.inputs}
    for op in group.operations:
        for operand in op.operands:
            source = sources.of(operand)
            if source.root in reads:
                reads[source.root].append(source.access)
    for which, output in enumerate(group.outputs):
        shape = shape_of(output) or ()
        whole = coalesced(contiguous(shape).dimensions)
        for index, value in enumerate(group.inputs):
            plain = all(
                not access.offset and coalesced(access.dimensions) == whole
                for access in reads[value]
            )
            if plain and tile_dtype(value) == tile_dtype(output):
                found.append((index, which))
    return tuple(found)
