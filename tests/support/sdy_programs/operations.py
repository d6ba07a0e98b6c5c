"""The operations of the random programs."""

from __future__ import annotations

from sdy_programs.scopes import Scope
from sdy_programs.shardings import (
    BOOL,
    FLOAT,
    INT,
    Value,
    arrow,
    names,
    numbers,
    types,
)

UNARY = ("abs", "negate", "tanh", "exponential", "cosine", "sqrt", "logistic", "floor")
BINARY = ("add", "subtract", "multiply", "maximum", "minimum", "divide")
REDUCERS = ("add", "maximum", "minimum", "multiply")


# Operations that compute


def unary(s: Scope) -> None:
    x = s.any_float()
    s.add(f"stablehlo.{s.program.rng.choice(UNARY)}", x.name, x.type, s.result(x.shape))


def binary(s: Scope) -> None:
    x = s.any_float()
    y = s.like(x.shape)
    pair = (x, y) if s.program.rng.random() < 0.5 else (y, x)
    s.add(f"stablehlo.{s.program.rng.choice(BINARY)}", names(pair), x.type, s.result(x.shape))


def compare_and_select(s: Scope) -> None:
    x = s.any_float()
    y, z = s.like(x.shape), s.like(x.shape)
    p = s.result(x.shape, BOOL)
    s.add("stablehlo.compare ", f"LT, {x.name}, {y.name}", arrow((x, y), (p,)), p)
    s.add("stablehlo.select", names((p, x, z)), f"{p.type}, {x.type}", s.result(x.shape))


def convert(s: Scope) -> None:
    x = s.any_float()
    i = s.result(x.shape, INT)
    s.add("stablehlo.convert", x.name, arrow((x,), (i,)), i)
    if s.program.rng.random() < 0.6:
        back = s.result(x.shape)
        s.add("stablehlo.convert", i.name, arrow((i,), (back,)), back)


def clamp(s: Scope) -> None:
    x = s.any_float()
    low, high = s.like(x.shape), s.like(x.shape)
    s.add("stablehlo.clamp", names((low, x, high)), x.type, s.result(x.shape))


def dot_general(s: Scope) -> None:
    rng = s.program.rng
    x = s.any_float(1)
    rank = len(x.shape)
    order = rng.sample(range(rank), rank)
    batches = rng.choice((0, 0, 0, 1)) if rank > 1 else 0
    contracted = rng.choice((1, 1, 1, 2)) if rank - batches > 1 else 1
    batch, contract = order[:batches], order[batches : batches + contracted]
    y_shape = [x.shape[d] for d in batch + contract] + [
        rng.choice(s.program.pool) for _ in range(rng.choice((0, 1, 1)))
    ]
    places = rng.sample(range(len(y_shape)), len(y_shape)) if not batches else range(len(y_shape))
    shape = [0] * len(y_shape)
    for source, place in zip(y_shape, places, strict=True):
        shape[place] = source
    y = s.like(tuple(shape))
    y_batch, y_contract = list(places)[:batches], list(places)[batches : batches + contracted]
    out = [x.shape[d] for d in batch]
    out += [d for i, d in enumerate(x.shape) if i not in batch + contract]
    out += [d for i, d in enumerate(y.shape) if i not in y_batch + y_contract]
    text = names((x, y))
    if batches:
        text += f", batching_dims = {numbers(batch)} x {numbers(y_batch)}"
    text += f", contracting_dims = {numbers(contract)} x {numbers(y_contract)}"
    result = s.result(tuple(out))
    s.add("stablehlo.dot_general", text, arrow((x, y), (result,)), result)


def dot(s: Scope) -> None:
    x = s.pick(lambda v: v.element == FLOAT and len(v.shape) == 2)
    x = x or s.fresh(s.program.new_shape(2)[:2])
    y = s.like((x.shape[1], s.program.rng.choice(s.program.pool)))
    result = s.result((x.shape[0], y.shape[1]))
    s.add("stablehlo.dot", names((x, y)), arrow((x, y), (result,)), result)


def reduce(s: Scope) -> None:
    rng = s.program.rng
    x = s.any_float(1)
    dims = sorted(rng.sample(range(len(x.shape)), rng.randint(1, len(x.shape))))
    init = s.like(())
    result = s.result(tuple(d for i, d in enumerate(x.shape) if i not in dims))
    text = f"({x.name} init: {init.name}) applies stablehlo.{rng.choice(REDUCERS)}"
    text += f" across dimensions = {numbers(dims)}"
    s.define(
        f"stablehlo.reduce{text}{s.attributes([result])} : {arrow((x, init), (result,))}", result
    )


# Operations that move


def transpose(s: Scope) -> None:
    x = s.any_float(2)
    dims = s.program.rng.sample(range(len(x.shape)), len(x.shape))
    result = s.result(tuple(x.shape[d] for d in dims))
    s.add(
        "stablehlo.transpose", f"{x.name}, dims = {numbers(dims)}", arrow((x,), (result,)), result
    )


def reshape(s: Scope) -> None:
    rng = s.program.rng
    x = s.any_float(1)
    shape = list(x.shape)
    for _ in range(rng.choice((1, 1, 2))):
        kind = rng.randrange(4)
        place = rng.randrange(len(shape))
        splits = [d for d in range(2, shape[place]) if shape[place] % d == 0]
        if kind == 0 and len(shape) > 1:
            place = min(place, len(shape) - 2)
            shape[place : place + 2] = [shape[place] * shape[place + 1]]
        elif kind == 1 and splits and len(shape) < 5:
            first = rng.choice(splits)
            shape[place : place + 1] = [first, shape[place] // first]
        elif kind == 2 and len(shape) < 5:
            shape.insert(place, 1)
        elif kind == 3:
            shape = [d for d in shape if d != 1] or shape
    result = s.result(tuple(shape))
    s.add("stablehlo.reshape", x.name, arrow((x,), (result,)), result)


def broadcast(s: Scope) -> None:
    rng = s.program.rng
    x = s.like(()) if rng.random() < 0.3 else s.any_float()
    if len(x.shape) > 3:
        return
    shape = list(x.shape)
    dims = list(range(len(shape)))
    for _ in range(rng.choice((1, 1, 2))):
        place = rng.randint(0, len(shape))
        shape.insert(place, rng.choice(s.program.pool))
        dims = [d + (d >= place) for d in dims]
    for d in dims:
        if shape[d] == 1 and rng.random() < 0.7:
            shape[d] = rng.choice(s.program.pool)
    result = s.result(tuple(shape))
    text = f"{x.name}, dims = {numbers(dims)}"
    s.add("stablehlo.broadcast_in_dim", text, arrow((x,), (result,)), result)


def slice_(s: Scope) -> None:
    rng = s.program.rng
    x = s.any_float(1)
    parts, shape = [], []
    for d in x.shape:
        if not d or rng.random() < 0.5:
            start, stride = 0, 1
            stop = d
        else:
            start = rng.randrange(d)
            stop = rng.randint(start + 1, d)
            stride = rng.choice((1, 1, 2))
        parts.append(f"{start}:{stop}" + (f":{stride}" if stride > 1 else ""))
        shape.append(-(-(stop - start) // stride))
    result = s.result(tuple(shape))
    s.add("stablehlo.slice", f"{x.name} [{', '.join(parts)}]", arrow((x,), (result,)), result)


def concatenate(s: Scope) -> None:
    rng = s.program.rng
    x = s.any_float(1)
    dim = rng.randrange(len(x.shape))

    def fits(v: Value) -> bool:
        return (
            v.element == FLOAT
            and len(v.shape) == len(x.shape)
            and all(
                i == dim or a == b for i, (a, b) in enumerate(zip(v.shape, x.shape, strict=True))
            )
        )

    parts = [x, *(s.pick(fits) or x for _ in range(rng.choice((1, 1, 2))))]
    shape = list(x.shape)
    shape[dim] = sum(p.shape[dim] for p in parts)
    result = s.result(tuple(shape))
    s.add("stablehlo.concatenate", f"{names(parts)}, dim = {dim}", arrow(parts, (result,)), result)


def pad(s: Scope) -> None:
    rng = s.program.rng
    x, init = s.any_float(1), s.like(())
    low = [rng.choice((0, 0, 1, 2)) for _ in x.shape]
    high = [rng.choice((0, 0, 0, 2, -1)) if d > 1 else 0 for d in x.shape]
    inside = [rng.choice((0, 0, 0, 1)) for _ in x.shape]
    shape = tuple(
        d + a + b + (d - 1) * i for d, a, b, i in zip(x.shape, low, high, inside, strict=True)
    )
    result = s.result(shape)
    text = f"{names((x, init))}, low = {numbers(low)}, high = {numbers(high)}"
    text += f", interior = {numbers(inside)}"
    s.add("stablehlo.pad", text, arrow((x, init), (result,)), result)


def reverse(s: Scope) -> None:
    x = s.any_float(1)
    text = f"{x.name}, dims = [{s.program.rng.randrange(len(x.shape))}]"
    s.add("stablehlo.reverse", text, x.type, s.result(x.shape))


def dynamic_slice(s: Scope) -> None:
    rng = s.program.rng
    x = s.any_float(1)
    starts = [s.like((), INT) for _ in x.shape]
    if rng.random() < 0.5:
        shape = tuple(rng.choice((d, d, max(1, d // 2))) for d in x.shape)
        result = s.result(shape)
        text = f"{names([x, *starts])}, sizes = {numbers(shape)}"
        s.add("stablehlo.dynamic_slice", text, arrow([x, *starts], (result,)), result)
    else:
        update = s.like(tuple(rng.choice((d, d, max(1, d // 2))) for d in x.shape))
        operands, result = [x, update, *starts], s.result(x.shape)
        s.add("stablehlo.dynamic_update_slice", names(operands), arrow(operands, (result,)), result)


def gather(s: Scope) -> None:
    """Rows of a tensor by index, as embedding tables are read."""
    rng = s.program.rng
    x = s.any_float(1)
    dim = rng.randrange(len(x.shape))
    if not x.shape[dim]:
        return unary(s)
    ids = s.like((*s.program.new_shape()[:2], 1), INT)
    rest = [d for i, d in enumerate(x.shape) if i != dim]
    sizes = [1 if i == dim else d for i, d in enumerate(x.shape)]
    batch = list(ids.shape[:-1])
    result = s.result(tuple(batch + rest))
    offsets = list(range(len(batch), len(batch) + len(rest)))
    numbers_text = (
        f"#stablehlo.gather<offset_dims = {numbers(offsets)}, collapsed_slice_dims = [{dim}], "
        f"start_index_map = [{dim}], index_vector_dim = {len(batch)}>"
    )
    s.write(
        f'{result.name} = "stablehlo.gather"({names((x, ids))}) <{{dimension_numbers = '
        f"{numbers_text}, slice_sizes = array<i64: {str(sizes)[1:-1]}>}}>"
        f"{s.attributes([result])} : {arrow((x, ids), (result,))}"
    )
    s.values.append(result)
    return None


def iota(s: Scope) -> None:
    value = s.result(s.program.new_shape(), s.program.rng.choice((FLOAT, FLOAT, INT)))
    text = f"dim = {s.program.rng.randrange(len(value.shape))}"
    s.add("stablehlo.iota", text, value.type, value)


def constant(s: Scope) -> None:
    arguments, s.arguments = s.arguments, None
    s.fresh(s.any_float().shape)
    s.arguments = arguments


def custom_call(s: Scope) -> None:
    x = s.any_float()
    s.add("stablehlo.custom_call", f"@foo({x.name})", arrow((x,), (x,)), s.result(x.shape))


# Operations of the dialect


def constraint(s: Scope) -> None:
    if not s.sharded:
        return unary(s)
    x = s.any_float()
    result = s.result(x.shape)
    closed = s.program.rng.random() < 0.5
    sharding = s.program.shardings.sharding(x.shape, s.taken, closed=closed)
    s.define(f"sdy.sharding_constraint {x.name} {sharding} : {x.type}", result)
    return None


def reshard(s: Scope) -> None:
    if not s.sharded:
        return binary(s)
    x = s.any_float()
    sharding = s.program.shardings.sharding(x.shape, s.taken)
    s.define(f"sdy.reshard {x.name} {sharding} : {x.type}", s.result(x.shape))
    return None


def group(s: Scope) -> None:
    x = s.any_float()
    number = s.program.group_of(s.groups, x.shape)
    s.write(f"sdy.sharding_group {x.name} group_id={number} : {x.type}")


def barrier(s: Scope) -> None:
    x = s.any_float()
    direction = s.program.rng.choice(("NONE", "FORWARD", "BACKWARD"))
    result = s.result(x.shape)
    s.define(f"sdy.propagation_barrier {x.name} allowed_direction={direction} : {x.type}", result)


def optimization_barrier(s: Scope) -> None:
    xs = [s.any_float() for _ in range(s.program.rng.choice((1, 2, 2)))]
    results = [s.result(x.shape) for x in xs]
    s.define(
        f"stablehlo.optimization_barrier{s.attributes(results)} {names(xs)} : {types(xs)}",
        *results,
    )
