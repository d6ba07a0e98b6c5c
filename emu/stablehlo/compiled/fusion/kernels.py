"""Kernels of groups: made once, sent to processes, run there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from emu.mlir.ir import Value
from emu.stablehlo.compiled.fusion import cache
from emu.stablehlo.compiled.fusion.access import Access, coalesced, contiguous
from emu.stablehlo.compiled.fusion.groups import Group
from emu.stablehlo.compiled.fusion.recipe import Launch, Recipe, recipe_of
from emu.stablehlo.compiled.fusion.values import Sources, shape_of, tile_dtype
from emu.stablehlo.reference.values import Array

Pair = tuple[int, int]


@dataclass(frozen=True)
class FusedKernel:
    """A kernel that computes a group; immutable and picklable.

    It is pickled without its machine code, which lies in emu's cache on disk.

    Attributes:
        recipe: What it computes.
        launch: Extents and strides of this group.
        in_place: Pairs of an input and an output that may share their memory, since each element is read before
            the same element is written.
    """

    recipe: Recipe
    launch: Launch
    in_place: tuple[Pair, ...]

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Compute the outputs.

        Args:
            inputs: One array per input of the group, of its shape and dtype. What is not C-contiguous is copied.
            outputs: One C-contiguous array per output. None overlaps an input, but for pairs of ``in_place``.
        """
        self.bind(inputs, outputs)()

    def bind(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Callable[[], None]:
        """Return a function that computes the outputs from what the inputs then hold.

        Args:
            inputs: As in :meth:`run`; they must be C-contiguous, or the function reads what they hold now.
            outputs: As in :meth:`run`.
        """
        launch = launcher(self.recipe)
        arrays = [np.ascontiguousarray(x) for x in inputs]
        values = [x.ctypes.data for x in arrays]
        values += [y.ctypes.data for y in outputs]
        values += self.launch.numbers
        x, y, z = self.launch.grid
        keep = (arrays, outputs)

        def run() -> None:
            launch(x, y, z, values)

        run.arrays = keep  # type: ignore[attr-defined]  # the addresses are theirs
        return run


def launcher(recipe: Recipe) -> Callable[[int, int, int, Sequence[object]], None]:
    """Return what launches a recipe's kernel on one thread: a PE has one."""
    return cache.kernel_of(recipe).bind(1)


def compile_group(group: Group) -> FusedKernel:
    """Compile the kernel of a group, or find it in the cache."""
    recipe, launch = recipe_of(group)
    cache.kernel_of(recipe)
    return FusedKernel(recipe, launch, _in_place(group))


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
