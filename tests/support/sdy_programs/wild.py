"""Operations and shardings that only wild random programs have.

What real programs hardly ever hold: tokens, rules of the user's own, operations
with results of several kinds, collectives before propagation, groups with
members inside and outside of a manual computation, meshes written inside
shardings, meshes of one device, and dimensions of size 0 and 1.
"""

from __future__ import annotations

import math
import random

from sdy_programs.operations import unary
from sdy_programs.scopes import Operations, Program, Scope
from sdy_programs.shardings import Axis, Mesh, Shape, Shardings, Value, arrow, names, numbers, types

TOKEN = "!stablehlo.token"
SYMBOLS = "ijklmnopqrstuvw"


class WildShardings(Shardings):
    """Shardings on more kinds of meshes, with more of everything in them."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.inline = rng.random() < 0.2
        self.maximal = rng.random() < 0.1
        self.unreduced = rng.random() < 0.3
        self.sub_axes = self.sub_axes or rng.random() < 0.3
        if rng.random() < 0.2:
            self.meshes.append(Mesh("ones", dict.fromkeys(self.main.axes, 1)))
        if rng.random() < 0.2 and not self.main.device_ids:
            ids = list(range(math.prod(self.main.axes.values())))[::-1]
            if len(ids) > 1:
                self.meshes.append(Mesh("turned", dict(self.main.axes), ids))

    def sharding(
        self, shape: Shape, taken: frozenset[str], mesh: Mesh | None = None, *, closed: bool = False
    ) -> str:
        """As it is, or with the mesh instead of its name, or all on one device."""
        if self.maximal and mesh is None and not taken and self.rng.random() < 0.15:
            return f"<mesh<[], device_ids=[{self.rng.randrange(4)}]>, []>"
        text = super().sharding(shape, taken, mesh, closed=closed)
        if mesh is None and self.inline and self.rng.random() < 0.3:
            for known in self.meshes:
                text = text.replace(f"<@{known.name},", f"<mesh{known.text},")
        return text


class WildProgram(Program):
    """A program with a little of everything."""

    def __init__(self, seed: int, operations: Operations) -> None:
        super().__init__(seed, operations)
        self.shardings = WildShardings(self.rng)
        self.pool = [*self.pool, *self.rng.choice(((), (), (1,), (1, 5), (0,)))]
        self.crossing = self.rng.random() < 0.03

    def new_groups(self) -> dict[Shape, int]:
        """Ids of sharding groups by shape; now and then one dict for all scopes."""
        if not getattr(self, "crossing", False):
            return {}
        self._shared: dict[Shape, int] = getattr(self, "_shared", {})
        return self._shared


def tokens(s: Scope) -> None:
    """A call that takes a token and gives one."""
    x = s.any_float()
    token, made = s.program.new_name(), s.program.new_name()
    result = s.result(x.shape)
    s.write(f"{token} = stablehlo.create_token : {TOKEN}")
    if s.sharded and s.program.rng.random() < 0.4:
        mesh = s.program.shardings.main
        sharding = s.program.shardings.sharding(x.shape, s.taken, mesh)
        attributes = (
            f" {{sdy.sharding = #sdy.sharding_per_value<[{sharding}, <@{mesh.name}, []>]>}}"
        )
    else:
        attributes = ""
    s.write(
        f"{made}:2 = stablehlo.custom_call @send({x.name}, {token}){attributes} : "
        f"({x.type}, {TOKEN}) -> ({x.type}, {TOKEN})"
    )
    s.write(f"{result.name} = stablehlo.negate {made}#0 : {x.type}")
    s.values.append(result)


def rule_of_ones_own(s: Scope) -> None:
    """A custom call with a rule: each dimension of size over one has a factor."""
    rng = s.program.rng
    operands = [s.any_float(1) for _ in range(rng.choice((1, 2, 2)))]
    sizes: list[int] = []

    def mapping(shape: Shape) -> str:
        dims, used = [], set[int]()
        for size in shape:
            fitting = [f for f, n in enumerate(sizes) if n == size and f not in used]
            if fitting and rng.random() < 0.7:
                factor = rng.choice(fitting)
            else:
                factor = len(sizes)
                sizes.append(size)
            used.add(factor)
            dims.append(SYMBOLS[factor])
        return "[" + ", ".join(dims) + "]"

    ins = [mapping(v.shape) for v in operands]
    inputs = len(sizes)
    result = s.result(rng.choice(operands).shape)
    out = mapping(result.shape)
    if len(sizes) > len(SYMBOLS):
        return
    in_result = {SYMBOLS.index(c) for c in out if c in SYMBOLS}
    free = [f for f in range(len(sizes)) if f not in in_result and f < inputs]
    kinds: dict[str, list[int]] = {"reduction": [], "need_replication": [], "permutation": []}
    for factor in range(len(sizes)):
        kind = rng.choice(
            ("reduction" if factor in free else "permutation", "need_replication", "")
        )
        if kind and rng.random() < 0.4:
            kinds[kind].append(factor)
    special = "".join(
        f" {kind}={{{', '.join(SYMBOLS[f] for f in factors)}}}"
        for kind, factors in kinds.items()
        if factors
    )
    blocked = [f for f in range(len(sizes)) if rng.random() < 0.1]
    if blocked:
        special += f" blocked_propagation={{{', '.join(SYMBOLS[f] for f in blocked)}}}"
    factors = ", ".join(f"{SYMBOLS[f]}={n}" for f, n in enumerate(sizes))
    rule = f"<({', '.join(ins)})->({out}) {{{factors}}}{special}, custom>"
    attributes = [f"sdy.sharding_rule = #sdy.op_sharding_rule{rule}"]
    if s.sharded and rng.random() < 0.2:
        attributes.insert(0, f"sdy.sharding = {s.program.shardings.per_value([result], s.taken)}")
    s.define(
        f"stablehlo.custom_call @mine({names(operands)}) {{{', '.join(attributes)}}} : "
        f"{arrow(operands, (result,))}",
        result,
    )


def random_bits(s: Scope) -> None:
    """Results of two kinds."""
    state = f"%s{s.program.new_name()[1:]}"
    result = s.result(s.program.new_shape(1))
    made = s.program.new_name()
    kinds = (Value("", (2,), "ui64"), Value("", result.shape, "ui32"))
    s.write(f"{state} = stablehlo.constant dense<1> : tensor<2xui64>")
    s.write(
        f"{made}:2 = stablehlo.rng_bit_generator {state}, algorithm = DEFAULT"
        f"{s.attributes(kinds)} : (tensor<2xui64>) -> ({types(kinds)})"
    )
    s.add("stablehlo.convert", f"{made}#1", f"({kinds[1].type}) -> {result.type}", result)


def gather_what_was_cut(s: Scope) -> None:
    """A collective before propagation, on what a constraint gives."""
    rng, mesh = s.program.rng, s.program.shardings.main
    free = [name for name in mesh.axes if name not in s.taken]
    x = s.any_float(1)
    if not free or not s.sharded:
        return unary(s)
    axis: Axis = (rng.choice(free), 0, 0)
    dim = rng.randrange(len(x.shape))
    text = mesh.axis_text(axis)

    def sharding(cut: bool, tail: str = "") -> str:
        dims = ", ".join(f"{{{text}}}" if cut and d == dim else "{}" for d in range(len(x.shape)))
        return f"<@{mesh.name}, [{dims}]{tail}>"

    axes = "[" + ", ".join(f"{{{text}}}" if d == dim else "{}" for d in range(len(x.shape))) + "]"
    unreduced = f", unreduced={{{text}}}"
    before, change, after = rng.choice(
        (
            (sharding(True), f"all_gather {axes}", sharding(False)),
            (sharding(False), f"all_slice {axes}", sharding(True)),
            (sharding(False, unreduced), f"all_reduce {{{text}}}", sharding(False)),
            (sharding(True), f"sharded_to_unreduced {axes}", sharding(False, unreduced)),
            (sharding(False), f"replicated_to_unreduced {{{text}}}", sharding(False, unreduced)),
            (sharding(False, unreduced), f"reduce_scatter {axes}", sharding(True)),
        )
    )
    given, result = s.program.new_name(), s.result(x.shape)
    s.write(f"{given} = sdy.reshard {x.name} {before} : {x.type}")
    s.define(f"sdy.{change} {given} out_sharding={after} : {x.type}", result)
    return None


def rule_on_known(s: Scope) -> None:
    """An elementwise operation whose own rule the user has replaced."""
    x = s.any_float(1)
    y = s.like(x.shape)
    factors = ", ".join(SYMBOLS[d] for d in range(len(x.shape)))
    sizes = ", ".join(f"{SYMBOLS[d]}={n}" for d, n in enumerate(x.shape))
    special = " need_replication={i}" if s.program.rng.random() < 0.5 else ""
    rule = f"<([{factors}], [{factors}])->([{factors}]) {{{sizes}}}{special}, custom>"
    attribute = f" {{sdy.sharding_rule = #sdy.op_sharding_rule{rule}}}"
    s.define(f"stablehlo.add {names((x, y))}{attribute} : {x.type}", s.result(x.shape))


def reduce_two(s: Scope) -> None:
    """Two results from two inputs."""
    rng = s.program.rng
    x = s.any_float(1)
    y = s.like(x.shape)
    first, second = s.like(()), s.like(())
    dims = sorted(rng.sample(range(len(x.shape)), rng.randint(1, len(x.shape))))
    shape = tuple(d for i, d in enumerate(x.shape) if i not in dims)
    results = [s.result(shape), s.result(shape)]
    a, b, c, d, e, f = (s.program.new_name() for _ in range(6))
    scalar = "tensor<f32>"
    s.define(
        f"stablehlo.reduce({x.name} init: {first.name}), ({y.name} init: {second.name}) "
        f"across dimensions = {numbers(dims)}{s.attributes(results)} : "
        f"{arrow((x, y, first, second), results)}\n"
        f" reducer({a}: {scalar}, {b}: {scalar}) ({c}: {scalar}, {d}: {scalar}) {{\n"
        f"  {e} = stablehlo.add {a}, {b} : {scalar}\n"
        f"  {f} = stablehlo.maximum {c}, {d} : {scalar}\n"
        f"  stablehlo.return {e}, {f} : {scalar}, {scalar}\n}}",
        *results,
    )


def fft(s: Scope) -> None:
    """Along the last dimension, to complex numbers and back to their real part."""
    x = s.any_float(1)
    if not x.shape[-1]:
        return unary(s)
    shape = (*x.shape[:-1], x.shape[-1] // 2 + 1)
    middle, result = s.result(shape, "complex<f32>"), s.result(shape)
    s.define(
        f"stablehlo.fft {x.name}, type = RFFT, length = [{x.shape[-1]}]{s.attributes([middle])} : "
        f"{arrow((x,), (middle,))}",
        middle,
    )
    s.add("stablehlo.real", s.values[-1].name, arrow((middle,), (result,)), result)
    return None


def dynamic(s: Scope) -> None:
    """A type whose size is not known, which propagation refuses."""
    if s.program.rng.random() < 0.9:
        return unary(s)
    s.write(f"{s.program.new_name()} = stablehlo.custom_call @any() : () -> tensor<?x8xf32>")
    return None


def solve(s: Scope) -> None:
    """A triangular system."""
    rng = s.program.rng
    n = rng.choice([d for d in s.program.pool if d] or [2])
    a, b = s.like((n, n)), s.like((n, rng.choice(s.program.pool)))
    head = (
        f'"stablehlo.triangular_solve"({names((a, b))}) <{{left_side = true, lower = true, '
        "unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>}>"
    )
    result = s.result(b.shape)
    s.define(f"{head}{s.attributes([result])} : {arrow((a, b), (result,))}", result)


WILD: Operations = (
    (tokens, 3, False),
    (rule_of_ones_own, 6, False),
    (rule_on_known, 2, False),
    (random_bits, 2, False),
    (gather_what_was_cut, 2, False),
    (reduce_two, 3, False),
    (fft, 2, False),
    (solve, 1, False),
    (dynamic, 1, False),
)
