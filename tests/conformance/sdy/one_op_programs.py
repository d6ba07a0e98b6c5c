"""Random programs around one StableHLO operation each, in MLIR's generic form.

Shapes have dimensions of size 0 and 1 among others, attributes every form that
the operation knows. Some programs are refused by a verifier; who uses them
leaves those out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from one_op_pieces import Program, Shape, fields, ints, pairs, tensor
from one_op_shapes import ShapeMakers

__all__ = ["Generator"]

POINTWISE_CALLS = [
    "Cholesky",
    "CompactWyHelper",
    "InspectSharding",
    "InvertDiagBlocksLowerTriangular",
    "InvertDiagBlocksUpperTriangular",
    "LayoutConstraint",
    "MoveToDevice",
    "MoveToHost",
    "X64Combine",
    "X64SplitHigh",
    "X64SplitLow",
    "_SPMDInternalOp_MultiPad",
    "_SPMDInternalOp_MultiRotate",
    "_SPMDInternalOp_MultiSlice",
    "_SPMDInternalOp_RotateRight",
    "_SPMDInternalOp_Wrap",
    "annotate_device_placement",
    "mhlo.erf",
    "xla.megascale.provide_metadata",
]


class Generator(ShapeMakers):
    """Makes programs from a seed; the methods ``make_…`` take turns."""

    def programs(self, count: int) -> Iterator[str]:
        """So many programs."""
        makers: list[Callable[[Program], None]] = [
            getattr(self, name) for name in sorted(dir(self)) if name.startswith("make_")
        ]
        for index in range(count):
            program = Program()
            makers[index % len(makers)](program)
            yield str(program)

    # Gather and scatter

    def window_parts(self) -> dict[str, list[int] | int]:
        """Dimension numbers and shapes that gather and scatter share."""
        window, collapsed = self.shape(largest_rank=3), self.shape(largest_rank=2)
        batching = self.shape(largest_rank=2)
        implicit = self.shape(largest_rank=2)
        source, (window_dims, collapsed_dims, batching_dims) = self.mixed(
            [window, collapsed, batching]
        )
        indices, (explicit_dims, _) = self.mixed([batching, implicit])
        index_map = self.subset([*window_dims, *collapsed_dims])
        for dim in collapsed_dims:
            if dim not in index_map:
                index_map.append(dim)
        index_map = self.subset(index_map, len(index_map))
        vector_dim = len(indices)
        full = list(indices)
        if len(index_map) != 1 or self.chance(0.7):
            vector_dim = self.random.randint(0, len(indices))
            full.insert(vector_dim, len(index_map))
            explicit_dims = [d + (d >= vector_dim) for d in explicit_dims]
        slices_rank = len(window) + len(indices)
        offset_dims = sorted(self.subset(range(slices_rank), len(window)))
        window_dims = sorted(window_dims)
        sizes = [
            self.random.choice(
                [source[d], source[d], min(1, source[d]), self.size() % (source[d] + 1)]
            )
            for d in window_dims
        ]
        counts, inner = iter(indices), iter(sizes)
        slices = [next(inner if dim in offset_dims else counts) for dim in range(slices_rank)]
        slice_sizes = [min(1, size) for size in source]
        for d, s in zip(window_dims, sizes, strict=True):
            slice_sizes[d] = s
        # The verifier wants both lists of batching dimensions in step, the
        # input's sorted.
        order = sorted(range(len(batching_dims)), key=batching_dims.__getitem__)
        return {
            "source": source,
            "indices": full,
            "slices": slices,
            "slice_sizes": slice_sizes,
            "offset_dims": offset_dims,
            "collapsed": sorted(collapsed_dims),
            "batching": [batching_dims[i] for i in order],
            "indices_batching": [explicit_dims[i] for i in order],
            "index_map": index_map,
            "vector_dim": vector_dim,
        }

    def make_gather(self, p: Program) -> None:
        w = self.window_parts()
        numbers = fields(
            offset_dims=w["offset_dims"],
            collapsed_slice_dims=w["collapsed"],
            operand_batching_dims=w["batching"],
            start_indices_batching_dims=w["indices_batching"],
            start_index_map=w["index_map"],
            index_vector_dim=w["vector_dim"],
        )
        operands = [p.argument(tensor(w["source"])), p.argument(tensor(w["indices"], "i32"))]
        p.op(
            "stablehlo.gather",
            operands,
            [tensor(w["slices"])],
            f"dimension_numbers = #stablehlo.gather<{numbers}>, "
            f"slice_sizes = {ints(w['slice_sizes'])}, indices_are_sorted = false",
        )

    make_gather_again = make_gather

    def make_scatter(self, p: Program) -> None:
        w = self.window_parts()
        numbers = fields(
            update_window_dims=w["offset_dims"],
            inserted_window_dims=w["collapsed"],
            input_batching_dims=w["batching"],
            scatter_indices_batching_dims=w["indices_batching"],
            scatter_dims_to_operand_dims=w["index_map"],
            index_vector_dim=w["vector_dim"],
        )
        boolean = self.chance(0.2)
        elements = ["i1"] if boolean else self.random.choice([["f32"], ["f32"], ["f32", "i32"]])
        op = self.random.choice(["and", "or"] if boolean else ["add", "multiply", "maximum", "or"])
        operands = [p.argument(tensor(w["source"], e)) for e in elements]
        operands.append(p.argument(tensor(w["indices"], "i32")))
        operands += [p.argument(tensor(w["slices"], e)) for e in elements]
        if op == "or" and not boolean:
            op = "minimum"
        p.op(
            "stablehlo.scatter",
            operands,
            [tensor(w["source"], e) for e in elements],
            f"scatter_dimension_numbers = #stablehlo.scatter<{numbers}>",
            self.region(f"stablehlo.{op}", elements),
        )

    make_scatter_again = make_scatter

    # Reductions and windows

    def make_reduce(self, p: Program) -> None:
        shape = self.shape()
        dims = self.subset(range(len(shape)))
        elements = self.random.choice([["f32"], ["f32", "i32"], ["f32", "f32", "i32"]])
        out = [s for d, s in enumerate(shape) if d not in dims]
        operands = [p.argument(tensor(shape, e)) for e in elements]
        operands += [p.argument(f"tensor<{e}>") for e in elements]
        p.op(
            "stablehlo.reduce",
            operands,
            [tensor(out, e) for e in elements],
            f"dimensions = {ints(dims)}",
            self.region("stablehlo.add", elements),
        )

    def windows(self, shape: Shape) -> tuple[list[int], list[int], list[tuple[int, int]]]:
        """Sizes, strides and padding of windows."""
        return (
            [self.random.choice([1, 1, 2, 3]) for _ in shape],
            [self.random.choice([1, 1, 2]) for _ in shape],
            [self.random.choice([(0, 0), (0, 0), (1, 0), (0, 1), (2, -1)]) for _ in shape],
        )

    def make_reduce_window(self, p: Program) -> None:
        shape = self.shape()
        sizes, strides, padding = self.windows(shape)
        attributes = [f"window_dimensions = {ints(sizes)}"]
        if self.chance(0.7):
            attributes.append(f"window_strides = {ints(strides)}")
        else:
            strides = [1] * len(shape)
        if self.chance(0.7):
            attributes.append(f"padding = {pairs(padding)}")
        else:
            padding = [(0, 0)] * len(shape)
        out = [
            max((s + sum(pad) - w) // t + 1, 0) if s + sum(pad) else 0
            for s, w, t, pad in zip(shape, sizes, strides, padding, strict=True)
        ]
        elements = self.random.choice([["f32"], ["f32", "i32"]])
        operands = [p.argument(tensor(shape, e)) for e in elements]
        operands += [p.argument(f"tensor<{e}>") for e in elements]
        p.op(
            "stablehlo.reduce_window",
            operands,
            [tensor(out, e) for e in elements],
            ", ".join(attributes),
            self.region("stablehlo.maximum", elements),
        )

    def make_select_and_scatter(self, p: Program) -> None:
        shape = self.shape(smallest=1)
        sizes, strides, padding = self.windows(shape)
        attributes = [f"window_dimensions = {ints(sizes)}"]
        if self.chance(0.8):
            attributes.append(f"window_strides = {ints(strides)}")
        else:
            strides = [1] * len(shape)
        if self.chance(0.6):
            attributes.append(f"padding = {pairs(padding)}")
        else:
            padding = [(0, 0)] * len(shape)
        source = [
            max((s + sum(pad) - w) // t + 1, 0)
            for s, w, t, pad in zip(shape, sizes, strides, padding, strict=True)
        ]
        operands = [
            p.argument(tensor(shape)),
            p.argument(tensor(source)),
            p.argument("tensor<f32>"),
        ]
        p.op(
            "stablehlo.select_and_scatter",
            operands,
            [tensor(shape)],
            ", ".join(attributes),
            f"{self.compare_region(['f32'])}, {self.region('stablehlo.add', ['f32'])}",
        )

    # Sorting, linear algebra, random bits

    def make_sort(self, p: Program) -> None:
        shape = self.random.choice([self.shape(1), [1] * self.random.randint(0, 2) + [8]])
        elements = self.random.choice([["f32"], ["f32", "i32"]])
        operands = [p.argument(tensor(shape, e)) for e in elements]
        along = self.random.randrange(-1, len(shape))
        attributes = ["is_stable = true"]
        if self.chance(0.9):
            attributes.append(f"dimension = {along} : i64")
        p.op(
            "stablehlo.sort",
            operands,
            [t for _, t in operands],
            ", ".join(attributes),
            self.compare_region(elements),
        )

    def make_fft(self, p: Program) -> None:
        shape = self.shape(1, smallest=1)
        count = self.random.randint(1, min(3, len(shape)))
        kind = self.random.choice(["FFT", "IFFT", "RFFT", "IRFFT"])
        source, result = list(shape), list(shape)
        if kind == "RFFT":
            result[-1] = shape[-1] // 2 + 1
        elif kind == "IRFFT":
            source[-1] = shape[-1] // 2 + 1
        p.op(
            "stablehlo.fft",
            [p.argument(tensor(source, "f32" if kind == "RFFT" else "complex<f32>"))],
            [tensor(result, "f32" if kind == "IRFFT" else "complex<f32>")],
            f"fft_type = #stablehlo<fft_type {kind}>, fft_length = {ints(shape[-count:])}",
        )

    def make_cholesky(self, p: Program) -> None:
        t = tensor([*self.shape(largest_rank=3), *[self.size()] * 2])
        p.op("stablehlo.cholesky", [p.argument(t)], [t], "lower = true")

    def make_triangular_solve(self, p: Program) -> None:
        batch, n, m = self.shape(largest_rank=2), self.size(), self.size()
        left = self.chance()
        a, b = tensor([*batch, n, n]), tensor([*batch, *([n, m] if left else [m, n])])
        transpose = self.random.choice(["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
        p.op(
            "stablehlo.triangular_solve",
            [p.argument(a), p.argument(b)],
            [b],
            f"left_side = {str(left).lower()}, lower = true, unit_diagonal = false, "
            f"transpose_a = #stablehlo<transpose {transpose}>",
        )

    def make_rng(self, p: Program) -> None:
        state = "tensor<2xui64>"
        seed = p.argument(state)
        if self.chance():
            half = "tensor<2xui32>"
            (seed,) = p.op(
                "stablehlo.custom_call",
                [p.argument(half), p.argument(half)],
                [state],
                'call_target_name = "X64Combine"',
            )
        p.op(
            "stablehlo.rng_bit_generator",
            [seed],
            [state, tensor(self.shape(), "ui32")],
            "rng_algorithm = #stablehlo<rng_algorithm DEFAULT>",
        )

    # Collectives

    def make_gathering(self, p: Program) -> None:
        shape = self.shape(1, smallest=1)
        dim = self.random.randrange(len(shape))
        large = [*shape[:dim], shape[dim] * 2, *shape[dim + 1 :]]
        groups = "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>"
        if self.chance():
            count = self.random.randint(1, 2)
            p.op(
                "stablehlo.all_gather",
                [p.argument(tensor(shape)) for _ in range(count)],
                [tensor(large)] * count,
                f"all_gather_dim = {dim} : i64, {groups}",
            )
        else:
            p.op(
                "stablehlo.reduce_scatter",
                [p.argument(tensor(large))],
                [tensor(shape)],
                f"scatter_dimension = {dim} : i64, {groups}",
                self.region("stablehlo.add", ["f32"]),
            )

    def make_all_to_all(self, p: Program) -> None:
        shape = self.shape(1, smallest=1)
        split, concat = (self.random.randrange(len(shape)) for _ in range(2))
        source, result = list(shape), list(shape)
        source[split] *= 2
        result[concat] *= 2
        count = self.random.randint(1, 2)
        p.op(
            "stablehlo.all_to_all",
            [p.argument(tensor(source)) for _ in range(count)],
            [tensor(result)] * count,
            f"split_dimension = {split} : i64, concat_dimension = {concat} : i64, "
            "split_count = 2 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>",
        )

    def make_same_shape_collective(self, p: Program) -> None:
        kind = self.random.choice(["all_reduce", "permute", "broadcast", "sum"])
        t = tensor(self.shape())
        groups = "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>"
        if kind == "all_reduce":
            count = self.random.randint(1, 2)
            p.op(
                "stablehlo.all_reduce",
                [p.argument(t) for _ in range(count)],
                [t] * count,
                groups,
                self.region("stablehlo.add", ["f32"]),
            )
        elif kind == "permute":
            p.op(
                "stablehlo.collective_permute",
                [p.argument(t)],
                [t],
                "source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>",
            )
        elif kind == "broadcast":
            p.op("stablehlo.collective_broadcast", [p.argument(t)], [t], groups)
        else:
            p.op("stablehlo.cross-replica-sum", [p.argument(t)], [t], groups)

    # Custom calls

    def call(
        self, p: Program, target: str, operands: Sequence[str], results: Sequence[str]
    ) -> None:
        p.op(
            "stablehlo.custom_call",
            [p.argument(t) for t in operands],
            results,
            f'call_target_name = "{target}"',
        )

    def make_pointwise_call(self, p: Program) -> None:
        target = self.random.choice(POINTWISE_CALLS)
        t = tensor(self.shape())
        others = [
            t if self.chance(0.7) else "tensor<f32>" for _ in range(self.random.randint(0, 2))
        ]
        self.call(p, target, [t, *others], [t] * self.random.randint(1, 2))

    def make_matrix_call(self, p: Program) -> None:
        batch, m, n = self.shape(largest_rank=2), self.size(), self.size()
        a, taus = tensor([*batch, m, n]), tensor([*batch, min(m, n)])
        kind = self.random.choice(["Eigh", "Qr", "QrDecompositionBlock", "Householder"])
        if kind == "Eigh":
            square = tensor([*batch, n, n])
            self.call(p, kind, [square], [square, tensor([*batch, n])])
        elif kind == "Householder":
            self.call(p, "ProductOfElementaryHouseholderReflectors", [a, taus], [a])
        else:
            self.call(p, kind, [a], [a, taus])

    def make_top_k_call(self, p: Program) -> None:
        shape = self.shape(1)
        out = list(shape)
        if self.chance(0.8):
            out[self.random.randrange(len(shape))] = self.size()
        results = [tensor(out), tensor(out, "i32")]
        if self.chance():
            self.call(p, "mhlo.topk", [tensor(shape)], results)
        else:
            target = self.random.choice(["ApproxTopK", "PartialReduce"])
            operands = [tensor(shape), tensor(shape, "i32"), "tensor<f32>", "tensor<i32>"]
            self.call(p, target, operands, results)

    def make_rule_less(self, p: Program) -> None:
        t = tensor(self.shape(1))
        kind = self.random.choice(["iota", "barrier", "call", "unknown", "unknown_call"])
        if kind == "iota":
            p.op("stablehlo.iota", [], [t], "iota_dimension = 0 : i64")
        elif kind == "barrier":
            p.op("stablehlo.optimization_barrier", [p.argument(t)], [t])
        elif kind == "unknown":
            p.op("test.unknown", [p.argument(t)], [t])
        else:
            target = "tpu_custom_call" if kind == "call" else "nobody_knows"
            self.call(p, target, [t], [t])
