"""Random programs around one StableHLO operation each, in MLIR's generic form.

Shapes have dimensions of size 0 and 1 among others, attributes every form that
the operation knows. Some programs are refused by a verifier; who uses them
leaves those out.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence

Shape = Sequence[int]

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


def tensor(shape: Shape, element: str = "f32") -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"


def ints(values: Sequence[int]) -> str:
    return f"array<i64: {', '.join(map(str, values))}>" if values else "array<i64>"


def pairs(values: Sequence[tuple[int, int]]) -> str:
    body = f"[{', '.join(f'[{a}, {b}]' for a, b in values)}]" if values else ""
    return f"dense<{body}> : tensor<{len(values)}x2xi64>"


def fields(**values: Sequence[int] | int) -> str:
    """The fields of a structure, those left out that are empty or zero."""
    return ", ".join(
        f"{name} = {value if isinstance(value, int) else list(value)}"
        for name, value in values.items()
        if value
    )


class Program:
    """One function; operations are added in order."""

    def __init__(self) -> None:
        self.arguments: list[str] = []
        self.lines: list[str] = []

    def argument(self, type_: str) -> tuple[str, str]:
        name = f"%arg{len(self.arguments)}"
        self.arguments.append(f"{name}: {type_}")
        return name, type_

    def op(
        self,
        name: str,
        operands: Sequence[tuple[str, str]],
        results: Sequence[str],
        attributes: str = "",
        regions: str = "",
    ) -> list[tuple[str, str]]:
        number = len(self.lines)
        left = f"%v{number}:{len(results)} = " if results else ""
        text = f'{left}"{name}"({", ".join(v for v, _ in operands)})'
        text += f" <{{{attributes}}}>" if attributes else ""
        text += f" ({regions})" if regions else ""
        types = f"({', '.join(t for _, t in operands)}) -> ({', '.join(results)})"
        self.lines.append(f"{text} : {types}")
        return [(f"%v{number}#{i}", type_) for i, type_ in enumerate(results)]

    def __str__(self) -> str:
        body = "\n  ".join([*self.lines, "return"])
        return f"func.func @main({', '.join(self.arguments)}) {{\n  {body}\n}}\n"


class Generator:
    """Makes programs from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.makers: list[Callable[[Program], None]] = [
            getattr(self, name) for name in sorted(dir(self)) if name.startswith("make_")
        ]

    def programs(self, count: int) -> Iterator[str]:
        for index in range(count):
            program = Program()
            self.makers[index % len(self.makers)](program)
            yield str(program)

    # Pieces

    def chance(self, probability: float = 0.5) -> bool:
        return self.random.random() < probability

    def size(self, smallest: int = 0) -> int:
        return max(smallest, self.random.choice([0, 1, 1, 2, 2, 3, 4, 4, 6, 8, 8, 12, 16, 32]))

    def shape(self, smallest_rank: int = 0, largest_rank: int = 5, smallest: int = 0) -> list[int]:
        rank = self.random.randint(smallest_rank, largest_rank)
        return [self.size(smallest) for _ in range(rank)]

    def subset(self, items: Sequence[int], count: int | None = None) -> list[int]:
        count = self.random.randint(0, len(items)) if count is None else count
        return self.random.sample(list(items), count)

    def region(self, op: str, elements: Sequence[str]) -> str:
        """A computation that combines old and new values, one op for each."""
        scalars = [f"tensor<{e}>" for e in elements]
        count = len(elements)
        arguments = ", ".join(f"%r{i}: {t}" for i, t in enumerate(scalars * 2))
        lines, names = [], []
        for i, type_ in enumerate(scalars):
            operands = [i, i + count]
            if self.chance(0.2):
                operands.reverse()
            if self.chance(0.1):
                operands[1] = operands[0]
            which = "stablehlo.subtract" if self.chance(0.1) else op
            if type_ == "tensor<i1>" and which.endswith("subtract"):
                which = "stablehlo.xor"
            left, right = operands
            lines.append(f'%s{i} = "{which}"(%r{left}, %r{right}) : ({type_}, {type_}) -> {type_}')
            names.append(f"%s{i}")
        return_ = f'"stablehlo.return"({", ".join(names)}) : ({", ".join(scalars)}) -> ()'
        return f"{{ ^bb0({arguments}): {' '.join([*lines, return_])} }}"

    def compare_region(self, elements: Sequence[str]) -> str:
        scalars = [f"tensor<{e}>" for e in elements for _ in range(2)]
        arguments = ", ".join(f"%r{i}: {t}" for i, t in enumerate(scalars))
        return (
            f"{{ ^bb0({arguments}): "
            f'%s = "stablehlo.compare"(%r0, %r1) <{{comparison_direction = '
            f"#stablehlo<comparison_direction LT>}}> : "
            f"({scalars[0]}, {scalars[1]}) -> tensor<i1> "
            f'"stablehlo.return"(%s) : (tensor<i1>) -> () }}'
        )

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


def _conv_layout(dims: Sequence[Sequence[int]], letters: str) -> str:
    """``[b, 0, f]`` from where the two named and the spatial dimensions are."""
    places = {dims[0][0]: letters[0], dims[1][0]: letters[1]}
    places.update((place, str(i)) for i, place in enumerate(dims[2]))
    return f"[{', '.join(places[i] for i in range(len(places)))}]"
