"""Operations of the random programs that hold computations, and calls."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sdy_programs.operations import REDUCERS, binary, unary
from sdy_programs.scopes import Scope
from sdy_programs.shardings import (
    BOOL,
    FLOAT,
    INT,
    Axis,
    Shape,
    Value,
    arrow,
    joined,
    names,
    numbers,
    types,
)

# Operations with a computation of their own


def reduction_body(s: Scope, mnemonic: str) -> str:
    a, b, c = (s.result(()) for _ in range(3))
    return (
        f"^bb0({a.name}: {a.type}, {b.name}: {b.type}):\n"
        f"  {c.name} = stablehlo.{mnemonic} {a.name}, {b.name} : {c.type}\n"
        f"  stablehlo.return {c.name} : {c.type}"
    )


def with_region(s: Scope, head: str, body: str, operands: Sequence[Value], result: Value) -> None:
    """An operation in generic form with one region."""
    s.define(
        f"{head} ({{\n{body}\n}}){s.attributes([result])} : {arrow(operands, (result,))}", result
    )


def sort(s: Scope) -> None:
    rng = s.program.rng
    x = s.any_float(1)
    a, b, less = s.result(()), s.result(()), s.result((), BOOL)
    body = (
        f"^bb0({a.name}: {a.type}, {b.name}: {b.type}):\n"
        f"  {less.name} = stablehlo.compare  LT, {a.name}, {b.name} : {arrow((a, b), (less,))}\n"
        f"  stablehlo.return {less.name} : {less.type}"
    )
    head = f'"stablehlo.sort"({x.name}) <{{dimension = {rng.randrange(len(x.shape))} : i64}}>'
    with_region(s, head, body, (x,), s.result(x.shape))


def scatter(s: Scope) -> None:
    """Rows added to rows of a tensor, chosen by index."""
    rng = s.program.rng
    x = s.any_float(1)
    count = rng.choice(s.program.pool)
    ids = s.like((count, 1), INT)
    updates = s.like((count, *x.shape[1:]))
    window = list(range(1, len(x.shape)))
    head = (
        f'"stablehlo.scatter"({names((x, ids, updates))}) <{{scatter_dimension_numbers = '
        f"#stablehlo.scatter<update_window_dims = {numbers(window)}, inserted_window_dims = [0], "
        "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}>"
    )
    body = reduction_body(s, rng.choice(REDUCERS))
    with_region(s, head, body, (x, ids, updates), s.result(x.shape))


def reduce_window(s: Scope) -> None:
    rng = s.program.rng
    x, init = s.any_float(1), s.like(())
    window = [rng.choice((1, 1, 2)) if d > 1 else 1 for d in x.shape]
    strides = [w if rng.random() < 0.5 else 1 for w in window]
    shape = tuple((d - w) // t + 1 for d, w, t in zip(x.shape, window, strides, strict=True))
    head = (
        f'"stablehlo.reduce_window"({names((x, init))}) <{{window_dimensions = array<i64: '
        f"{str(window)[1:-1]}>, window_strides = array<i64: {str(strides)[1:-1]}>}}>"
    )
    with_region(s, head, reduction_body(s, rng.choice(REDUCERS)), (x, init), s.result(shape))


def arg_max(s: Scope) -> None:
    """A reduction of two tensors at once."""
    rng = s.program.rng
    x = s.any_float(1)
    i = s.like(x.shape, INT)
    dim = rng.randrange(len(x.shape))
    inits = (s.like(()), s.like((), INT))
    a, b, m = s.result(()), s.result(()), s.result(())
    k, j, n = s.result((), INT), s.result((), INT), s.result((), INT)
    shape = (*x.shape[:dim], *x.shape[dim + 1 :])
    results = [s.result(shape), s.result(shape, INT)]
    operands = (x, i, *inits)
    s.define(
        f"stablehlo.reduce({x.name} init: {inits[0].name}), ({i.name} init: {inits[1].name}) "
        f"across dimensions = [{dim}]{s.attributes(results)} : {arrow(operands, results)}\n"
        f" reducer({a.name}: {a.type}, {b.name}: {b.type}) "
        f"({k.name}: {k.type}, {j.name}: {j.type})  {{\n"
        f"  {m.name} = stablehlo.maximum {a.name}, {b.name} : {m.type}\n"
        f"  {n.name} = stablehlo.minimum {k.name}, {j.name} : {n.type}\n"
        f"  stablehlo.return {m.name}, {n.name} : {m.type}, {n.type}\n}}",
        *results,
    )


def convolution(s: Scope) -> None:
    rng = s.program.rng
    found = s.pick(lambda v: v.element == FLOAT and len(v.shape) == 4)
    x = found or s.fresh(s.program.new_shape(4)[:4])
    batch, height, width, features = x.shape
    out = rng.choice(s.program.pool)
    y = s.like((1, 1, features, out))
    stride = rng.choice((1, 1, 2))
    result = s.result((batch, -(-height // stride), width, out))
    text = (
        f"stablehlo.convolution({names((x, y))}) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->"
        f"[b, 0, 1, f], window = {{stride = [{stride}, 1]}} "
    )
    groups = "batch_group_count = 1 : i64, feature_group_count = 1 : i64"
    sharding = s.attributes([result])
    attributes = f"{{{groups}, {sharding[2:-1]}}}" if sharding else f"{{{groups}}}"
    s.define(f"{text}{attributes} : {arrow((x, y), (result,))}", result)


def cholesky(s: Scope) -> None:
    size = s.program.rng.choice(s.program.pool)
    x = s.like((*s.program.new_shape()[:1], size, size))
    s.add("stablehlo.cholesky", f"{x.name}, lower = true", x.type, s.result(x.shape))


# Operations with regions, and calls


def while_(s: Scope) -> None:
    rng = s.program.rng
    carried = [s.any_float() for _ in range(rng.choice((1, 2, 2, 3)))]
    start = s.like((), INT)
    inits = [start, *carried]
    arguments = [s.result(v.shape, v.element) for v in inits]
    results = [s.result(v.shape, v.element) for v in inits]
    cond = s.inner(arguments)
    limit, done = cond.result((), INT), cond.result((), BOOL)
    cond.write(f"{limit.name} = stablehlo.constant dense<{rng.randrange(1, 9)}> : tensor<i32>")
    cond.write(
        f"{done.name} = stablehlo.compare  LT, {arguments[0].name}, {limit.name} : "
        "(tensor<i32>, tensor<i32>) -> tensor<i1>"
    )
    cond.write(f"stablehlo.return {done.name} : tensor<i1>")
    body = s.inner([*s.values, *arguments] if rng.random() < 0.5 else arguments)
    body.grow(rng.randrange(1, 5))
    one, following = body.result((), INT), body.result((), INT)
    body.write(f"{one.name} = stablehlo.constant dense<1> : tensor<i32>")
    body.write(f"{following.name} = stablehlo.add {arguments[0].name}, {one.name} : tensor<i32>")
    ends = [following, *(body.like(a.shape) for a in arguments[1:])]
    body.write(f"stablehlo.return {names(ends)} : {types(ends)}")
    binds = ", ".join(f"{a.name} = {v.name}" for a, v in zip(arguments, inits, strict=True))
    attributes = s.attributes(results)
    attributes = f" attributes{attributes}" if attributes else ""
    s.define(
        f"stablehlo.while({binds}) : {types(inits)}{attributes}\n"
        + "\n".join(["cond {", *cond.lines, "} do {", *body.lines, "}"]),
        *results,
    )


def case(s: Scope) -> None:
    rng = s.program.rng
    index = s.like((), INT)
    results = [s.result(s.any_float().shape) for _ in range(rng.choice((1, 1, 2)))]
    branches = []
    for _ in range(rng.choice((2, 2, 3))):
        branch = s.inner(s.values)
        branch.grow(rng.randrange(0, 3))
        ends = [branch.like(r.shape) for r in results]
        branch.write(f"stablehlo.return {names(ends)} : {types(ends)}")
        branches.append("\n".join(branch.lines))
    s.define(
        f'"stablehlo.case"({index.name}) ({{\n'
        + "\n}, {\n".join(branches)
        + f"\n}}){s.attributes(results)} : {arrow((index,), results)}",
        *results,
    )


def call(s: Scope) -> None:
    found = [f for f in s.program.functions if f.axes_free or not s.taken]
    if not found:
        return binary(s)
    function = s.program.rng.choice(found)
    operands = [s.like(v.shape, v.element) for v in function.inputs]
    results = [s.result(v.shape, v.element) for v in function.outputs]
    s.define(
        f"func.call @{function.name}({names(operands)}){s.attributes(results)} : "
        f"{arrow(operands, results)}",
        *results,
    )
    return None


def named_computation(s: Scope) -> None:
    rng, draw = s.program.rng, s.program.shardings
    operands = [s.any_float() for _ in range(rng.choice((1, 2)))]
    arguments = [s.result(v.shape) for v in operands]
    body = s.inner(arguments, arguments=None)
    body.grow(rng.randrange(1, 4))
    outputs = body.outputs(rng.choice((1, 1, 2)))
    body.write(f"sdy.return {names(outputs)} : {types(outputs)}")
    results = [s.result(v.shape) for v in outputs]
    shardings = ""
    for keyword, values in (("in_shardings", operands), ("out_shardings", results)):
        if s.sharded and rng.random() < 0.3:
            mesh = draw.mesh()
            inner = ", ".join(draw.sharding(v.shape, s.taken, mesh) for v in values)
            shardings += f" {keyword}=[{inner}]"
    head = ", ".join(f"{a.name}: {a.type}" for a in arguments)
    s.define(
        f'sdy.named_computation<"g{rng.randrange(3)}">({names(operands)}){shardings} ({head}) {{\n'
        + "\n".join(body.lines)
        + f"\n}} : {arrow(operands, results)}",
        *results,
    )


def manual_sharding(s: Scope, shape: Shape, manual: Sequence[str]) -> tuple[str, Shape]:
    """A sharding whose dimensions begin with manual axes, and the local shape."""
    rng, draw = s.program.rng, s.program.shardings
    mesh = draw.main
    axes: list[list[Axis]] = [[] for _ in shape]
    local = list(shape)
    unused = []
    for name in rng.sample(manual, len(manual)):
        fitting = [i for i, d in enumerate(local) if d % mesh.axes[name] == 0]
        if fitting and rng.random() < 0.7:
            dim = rng.choice(fitting)
            axes[dim].append((name, 0, mesh.axes[name]))
            local[dim] //= mesh.axes[name]
        else:
            unused.append(name)
    for piece in draw.pieces(mesh, s.taken | set(manual)):
        dim = rng.randrange(len(shape)) if shape else 0
        if shape and local[dim] % piece[2] == 0 and rng.random() < 0.25:
            axes[dim].append(piece)
    # A priority may not be left where only manual axes are, which the body does not see.
    free = [any(name not in manual for name, _, _ in a) for a in axes]
    dims = ", ".join(
        draw.dim_text(joined(a, mesh), mesh, priority=f) for a, f in zip(axes, free, strict=True)
    )
    replicated = [(n, 0, mesh.axes[n]) for n in unused if rng.random() < 0.5]
    tail = draw.axis_list("replicated", replicated, mesh)
    return f"<@{mesh.name}, [{dims}]{tail}>", tuple(local)


def manual_computation(s: Scope) -> None:
    rng, mesh = s.program.rng, s.program.shardings.main
    free = [name for name in mesh.axes if name not in s.taken]
    if not free or not s.sharded:
        return unary(s)
    manual = rng.sample(free, rng.randint(1, len(free)))
    operands = [s.any_float() for _ in range(rng.choice((1, 2)))]
    arguments, ins = [], []
    for value in operands:
        sharding, local = manual_sharding(s, value.shape, manual)
        arguments.append(s.result(local))
        ins.append(sharding)
    body = s.inner(arguments, arguments=None, taken=s.taken | set(manual))
    body.grow(rng.randrange(1, 4))
    outputs = body.outputs(rng.choice((1, 1, 2)))
    body.write(f"sdy.return {names(outputs)} : {types(outputs)}")
    results, outs = [], []
    for value in outputs:
        # The global shape: the local one grown by the axes that are put on it.
        grown = tuple(d * math.prod(mesh.axes[n] for n in manual) for d in value.shape)
        sharding, local = manual_sharding(s, grown, manual)
        shape = tuple(
            v * (g // l if l else 1) for v, g, l in zip(value.shape, grown, local, strict=True)
        )
        results.append(s.result(shape))
        outs.append(sharding)
    head = ", ".join(f"{a.name}: {a.type}" for a in arguments)
    axes = ", ".join(f'"{name}"' for name in manual)
    s.define(
        f"sdy.manual_computation({names(operands)}) in_shardings=[{', '.join(ins)}] "
        f"out_shardings=[{', '.join(outs)}] manual_axes={{{axes}}} ({head}) {{\n"
        + "\n".join(body.lines)
        + f"\n}} : {arrow(operands, results)}",
        *results,
    )
    return None
