"""Random programs: elementwise operations, shapes, slices, contractions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from one_op_pieces import Pieces, Program, Shape, fields, ints, pairs, tensor

__all__ = ["ShapeMakers"]

UNARY = [
    "abs",
    "cbrt",
    "ceil",
    "cosine",
    "exponential",
    "exponential_minus_one",
    "floor",
    "log",
    "log_plus_one",
    "logistic",
    "negate",
    "round_nearest_afz",
    "round_nearest_even",
    "rsqrt",
    "sign",
    "sine",
    "sqrt",
    "tan",
    "tanh",
]
UNARY_INTEGER = ["count_leading_zeros", "not", "popcnt"]
BINARY = [
    "add",
    "atan2",
    "divide",
    "maximum",
    "minimum",
    "multiply",
    "power",
    "remainder",
    "subtract",
]
BINARY_INTEGER = ["and", "or", "xor", "shift_left", "shift_right_arithmetic", "shift_right_logical"]


class ShapeMakers(Pieces):
    """A method each for an operation, or for a few that are alike."""

    # Elementwise

    def make_unary(self, p: Program) -> None:
        integer = self.chance(0.3)
        t = tensor(self.shape(), "i32" if integer else "f32")
        p.op(
            f"stablehlo.{self.random.choice(UNARY_INTEGER if integer else UNARY)}",
            [p.argument(t)],
            [t],
        )

    def make_binary(self, p: Program) -> None:
        integer = self.chance()
        t = tensor(self.shape(), "i32" if integer else "f32")
        p.op(
            f"stablehlo.{self.random.choice(BINARY_INTEGER if integer else BINARY)}",
            [p.argument(t), p.argument(t)],
            [t],
        )

    def make_typed(self, p: Program) -> None:
        shape = self.shape()
        kind = self.random.choice(
            [
                "complex",
                "real",
                "imag",
                "is_finite",
                "convert",
                "compare",
                "reduce_precision",
                "sharding_constraint",
            ]
        )
        real, complex_ = tensor(shape), tensor(shape, "complex<f32>")
        if kind == "complex":
            p.op("stablehlo.complex", [p.argument(real), p.argument(real)], [complex_])
        elif kind in {"real", "imag"}:
            p.op(f"stablehlo.{kind}", [p.argument(complex_)], [real])
        elif kind == "is_finite":
            p.op("stablehlo.is_finite", [p.argument(real)], [tensor(shape, "i1")])
        elif kind == "convert":
            p.op("stablehlo.convert", [p.argument(real)], [tensor(shape, "bf16")])
        elif kind == "compare":
            p.op(
                "stablehlo.compare",
                [p.argument(real), p.argument(real)],
                [tensor(shape, "i1")],
                "comparison_direction = #stablehlo<comparison_direction GE>",
            )
        elif kind == "reduce_precision":
            p.op(
                "stablehlo.reduce_precision",
                [p.argument(real)],
                [real],
                "exponent_bits = 5 : i32, mantissa_bits = 10 : i32",
            )
        else:
            dims = ", ".join(["{?}"] * len(shape))
            p.op(
                "sdy.sharding_constraint",
                [p.argument(real)],
                [real],
                f'sharding = #sdy.sharding<mesh<["x"=2]>, [{dims}]>',
            )

    def make_bitcast(self, p: Program) -> None:
        shape = self.shape(largest_rank=4)
        wide, narrow = (tensor(shape, "ui64"), tensor([*shape, 2], "ui32"))
        kinds = [(wide, narrow), (narrow, wide), (wide, tensor(shape, "i64"))]
        source, result = self.random.choice(kinds)
        p.op("stablehlo.bitcast_convert", [p.argument(source)], [result])

    def make_clamp(self, p: Program) -> None:
        t = tensor(self.shape())
        low, high = [self.random.choice([t, "tensor<f32>"]) for _ in range(2)]
        p.op("stablehlo.clamp", [p.argument(low), p.argument(t), p.argument(high)], [t])

    def make_select(self, p: Program) -> None:
        shape = self.shape()
        predicate = tensor(shape if self.chance() else [], "i1")
        t = tensor(shape)
        p.op("stablehlo.select", [p.argument(predicate), p.argument(t), p.argument(t)], [t])

    def make_batch_norm(self, p: Program) -> None:
        shape = self.shape(1)
        feature = self.random.randrange(len(shape))
        statistics = tensor([shape[feature]])
        operands = [p.argument(t) for t in [tensor(shape), *[statistics] * 4]]
        p.op(
            "stablehlo.batch_norm_inference",
            operands,
            [tensor(shape)],
            f"epsilon = 1.0e-03 : f32, feature_index = {feature} : i64",
        )

    # Shapes

    def make_broadcast(self, p: Program) -> None:
        out = self.shape()
        dims = self.subset(range(len(out)))
        source = [1 if self.chance(0.3) else out[d] for d in dims]
        p.op(
            "stablehlo.broadcast_in_dim",
            [p.argument(tensor(source))],
            [tensor(out)],
            f"broadcast_dimensions = {ints(dims)}",
        )

    def make_reshape(self, p: Program) -> None:
        primes = [
            self.random.choice([2, 2, 2, 3, 3, 5, 7]) for _ in range(self.random.randint(0, 7))
        ]
        if self.chance(0.05):
            primes.append(0)
        p.op(
            "stablehlo.reshape",
            [p.argument(tensor(self.grouped(primes)))],
            [tensor(self.grouped(primes))],
        )

    def grouped(self, factors: Sequence[int]) -> list[int]:
        """A shape whose sizes multiply to the product of factors."""
        factors = list(factors)
        if self.chance(0.7):
            self.random.shuffle(factors)
        shape = []
        while factors:
            take = self.random.randint(1, min(3, len(factors)))
            shape.append(math.prod(factors[:take]))
            factors = factors[take:]
            if self.chance(0.2):
                shape.insert(self.random.randint(0, len(shape)), 1)
        return shape

    def make_transpose(self, p: Program) -> None:
        shape = self.shape()
        order = self.subset(range(len(shape)), len(shape))
        p.op(
            "stablehlo.transpose",
            [p.argument(tensor(shape))],
            [tensor([shape[d] for d in order])],
            f"permutation = {ints(order)}",
        )

    def sliced(self, p: Program, source: tuple[str, str], shape: Shape) -> tuple[str, str]:
        """A slice of a value, with its value and type."""
        starts = [self.random.randint(0, s) if self.chance() else 0 for s in shape]
        limits = [
            self.random.randint(a, s) if self.chance() else s
            for a, s in zip(starts, shape, strict=True)
        ]
        strides = [self.random.choice([1, 1, 2, 3]) for _ in shape]
        out = [-(-(b - a) // s) for a, b, s in zip(starts, limits, strides, strict=True)]
        (result,) = p.op(
            "stablehlo.slice",
            [source],
            [tensor(out)],
            f"start_indices = {ints(starts)}, limit_indices = {ints(limits)}, "
            f"strides = {ints(strides)}",
        )
        return result

    def make_slice(self, p: Program) -> None:
        shape = self.shape()
        self.sliced(p, p.argument(tensor(shape)), shape)

    def make_pad(self, p: Program) -> None:
        shape = self.shape()

        def random_pads(low: int, high: int) -> list[int]:
            return [self.random.randint(low, high) if self.chance(0.4) else 0 for _ in shape]

        low, high, interior = random_pads(-1, 3), random_pads(-1, 3), random_pads(0, 2)
        out = [
            s + a + b + max(s - 1, 0) * i
            for s, a, b, i in zip(shape, low, high, interior, strict=True)
        ]
        if min(out, default=0) < 0:
            return
        p.op(
            "stablehlo.pad",
            [p.argument(tensor(shape)), p.argument("tensor<f32>")],
            [tensor(out)],
            f"edge_padding_low = {ints(low)}, edge_padding_high = {ints(high)}, "
            f"interior_padding = {ints(interior)}",
        )

    def make_concatenate(self, p: Program) -> None:
        shape = self.shape(1)
        along = self.random.randrange(len(shape))
        shared = p.argument(tensor(shape)) if self.chance() else None
        parts, total = [], 0
        for _ in range(self.random.randint(1, 4)):
            source = shared or p.argument(tensor(shape))
            size = shape[along]
            if self.chance():
                size = self.random.randint(0, shape[along])
                part = [*shape[:along], size, *shape[along + 1 :]]
                (source,) = p.op(
                    "stablehlo.slice",
                    [source],
                    [tensor(part)],
                    f"start_indices = {ints([0] * len(shape))}, "
                    f"limit_indices = {ints(part)}, strides = {ints([1] * len(shape))}",
                )
            parts.append(source)
            total += size
        p.op(
            "stablehlo.concatenate",
            parts,
            [tensor([*shape[:along], total, *shape[along + 1 :]])],
            f"dimension = {along} : i64",
        )

    def make_reverse(self, p: Program) -> None:
        shape = self.shape()
        p.op(
            "stablehlo.reverse",
            [p.argument(tensor(shape))],
            [tensor(shape)],
            f"dimensions = {ints(self.subset(range(len(shape))))}",
        )

    def indices(self, p: Program, count: int) -> list[tuple[str, str]]:
        constant = self.chance()
        out = []
        for _ in range(count):
            if constant or self.chance(0.3):
                name = self.random.choice(["stablehlo.constant", "sdy.constant"])
                out += p.op(name, [], ["tensor<i32>"], "value = dense<0> : tensor<i32>")
            else:
                out.append(p.argument("tensor<i32>"))
        return out

    def make_dynamic_slice(self, p: Program) -> None:
        shape = self.shape(1)  # of a scalar, MLIR writes a form that it cannot read
        out = [self.random.randint(0, s) if self.chance() else s for s in shape]
        source = p.argument(tensor(shape))
        p.op(
            "stablehlo.dynamic_slice",
            [source, *self.indices(p, len(shape))],
            [tensor(out)],
            f"slice_sizes = {ints(out)}",
        )

    def make_dynamic_update_slice(self, p: Program) -> None:
        shape = self.shape()
        update = [self.random.randint(0, s) if self.chance() else s for s in shape]
        operands = [p.argument(tensor(shape)), p.argument(tensor(update))]
        p.op(
            "stablehlo.dynamic_update_slice",
            [*operands, *self.indices(p, len(shape))],
            [tensor(shape)],
        )

    # Contractions

    def make_dot(self, p: Program) -> None:
        m, k, n = self.size(), self.size(), self.size()
        lhs, rhs = self.random.choice([[m, k], [k]]), self.random.choice([[k, n], [k]])
        p.op(
            "stablehlo.dot",
            [p.argument(tensor(lhs)), p.argument(tensor(rhs))],
            [tensor([*lhs[:-1], *rhs[1:]])],
        )

    def make_dot_general(self, p: Program) -> None:
        batch, contract = self.shape(largest_rank=2), self.shape(largest_rank=2)
        lhs_own, rhs_own = self.shape(largest_rank=2), self.shape(largest_rank=2)
        lhs, lhs_dims = self.mixed([batch, contract, lhs_own])
        rhs, rhs_dims = self.mixed([batch, contract, rhs_own])

        def kept(shape: Shape, dims: list[list[int]]) -> list[int]:
            return [s for d, s in enumerate(shape) if d in dims[2]]

        out = [*batch, *kept(lhs, lhs_dims), *kept(rhs, rhs_dims)]
        numbers = fields(
            lhs_batching_dimensions=lhs_dims[0],
            rhs_batching_dimensions=rhs_dims[0],
            lhs_contracting_dimensions=lhs_dims[1],
            rhs_contracting_dimensions=rhs_dims[1],
        )
        p.op(
            "stablehlo.dot_general",
            [p.argument(tensor(lhs)), p.argument(tensor(rhs))],
            [tensor(out)],
            f"dot_dimension_numbers = #stablehlo.dot<{numbers}>",
        )

    def mixed(self, groups: Sequence[Shape]) -> tuple[list[int], list[list[int]]]:
        """A shape of all groups' dimensions in random order, and where each went."""
        flat = [(g, i, size) for g, group in enumerate(groups) for i, size in enumerate(group)]
        self.random.shuffle(flat)
        dims = [[0] * len(group) for group in groups]
        for place, (g, i, _) in enumerate(flat):
            dims[g][i] = place
        return [size for _, _, size in flat], dims

    def make_convolution(self, p: Program) -> None:
        spatial = self.random.randint(0, 3)
        groups = self.random.choice([1, 1, 2, 4])
        by_batch = self.chance()
        batch_groups, feature_groups = (groups, 1) if by_batch else (1, groups)
        kernel_in, per_group = self.size(1), self.size(1)
        features, out_features = kernel_in * feature_groups, per_group * groups
        batch = self.size(1) * batch_groups
        sizes, windows, outs, strides, padding = [], [], [], [], []
        for _ in range(spatial):
            size, window, stride = self.size(1), self.size(1), self.random.choice([1, 1, 2, 3])
            pad = (self.random.randint(0, 2), self.random.randint(0, 2))
            sizes.append(size)
            windows.append(window)
            strides.append(stride)
            padding.append(pad)
            outs.append(max((size + sum(pad) - window) // stride + 1, 0))
        lhs, lhs_dims = self.mixed([[batch], [features], sizes])
        rhs, rhs_dims = self.mixed([[kernel_in], [out_features], windows])
        out, out_dims = self.mixed([[batch // batch_groups], [out_features], outs])
        layout = "x".join(
            _conv_layout(dims, names) for dims, names in ((lhs_dims, "bf"), (rhs_dims, "io"))
        )
        numbers = f"#stablehlo.conv<{layout}->{_conv_layout(out_dims, 'bf')}>"
        p.op(
            "stablehlo.convolution",
            [p.argument(tensor(lhs)), p.argument(tensor(rhs))],
            [tensor(out)],
            f"dimension_numbers = {numbers}, window_strides = {ints(strides)}, "
            f"padding = {pairs(padding)}, batch_group_count = {batch_groups} : i64, "
            f"feature_group_count = {feature_groups} : i64",
        )


def _conv_layout(dims: Sequence[Sequence[int]], letters: str) -> str:
    """``[b, 0, f]`` from where the two named and the spatial dimensions are."""
    places = {dims[0][0]: letters[0], dims[1][0]: letters[1]}
    places.update((place, str(i)) for i, place in enumerate(dims[2]))
    return f"[{', '.join(places[i] for i in range(len(places)))}]"
