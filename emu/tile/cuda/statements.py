"""Operations on memory, structured control and diagnosis as statements of a kernel."""

from __future__ import annotations

from collections.abc import Sequence

from emu.tile import ops
from emu.tile.cuda import lanes
from emu.tile.cuda.emitter import Emitter, Index
from emu.tile.cuda.expressions import expression, literal, memory_name, numpy_name, zero
from emu.tile.cuda.plan import is_tile, size_of
from emu.tile.ir import Operation, Region, Value
from emu.tile.ops import ELEMENTWISE, Code
from emu.tile.types import element_of


def emit_region(k: Emitter, region: Region) -> None:
    """Write all operations of a region but its terminator."""
    for operation in region.operations[:-1]:
        emit(k, operation)
        k.free(operation)


def emit(k: Emitter, operation: Operation) -> None:
    """Write an operation."""
    code = operation.code
    if code in ops.PER_ELEMENT:
        _pure(k, operation)
    else:
        _STATEMENTS[code](k, operation)


def _pure(k: Emitter, operation: Operation) -> None:
    for number, result in enumerate(operation.results):
        if not is_tile(result):
            k.names[result] = _scalar(k, operation, number)
        elif result in k.plan.materialized:
            place = k.place(result)
            k.access(operation, writes=[place])
            with k.lanes(size_of(result)) as index:
                text = k.computed(result, index)
                name = text if text.isidentifier() else k.define(text, result.name)
                k.put(result, index, name)


def _scalar(k: Emitter, operation: Operation, number: int) -> str:
    code, result = operation.code, operation.results[number]
    if code is Code.CONSTANT:
        return literal(operation.attributes["value"], element_of(result.type))
    if code is Code.AFTER:
        return k.names[operation.operands[0]]
    if code is Code.SPLIT:
        k.access(operation)
        return k.define(k.at(operation.operands[0], Index(str(number), 2)), result.name)
    assert code in ELEMENTWISE
    text = expression(operation, [k.names[v] for v in operation.operands])
    return text if text.isidentifier() else k.define(text, result.name)


def _program_id(k: Emitter, operation: Operation) -> None:
    k.names[operation.result] = f"program_{'xyz'[operation.attributes['axis']]}"


def _num_programs(k: Emitter, operation: Operation) -> None:
    k.names[operation.result] = f"programs_{'xyz'[operation.attributes['axis']]}"


# ---- memory


def _from_first(k: Emitter, operation: Operation, text: str) -> None:
    """Let the first thread compute a scalar, and all others take it."""
    (result,) = operation.results
    with k.temporary(element_of(result.type), 1) as buffer:
        k.access(None, writes=[buffer], load=None, store=None)
        with k.block("if t == 0:"):
            # What this program did before is seen by who sees this, and the reverse.
            k.line("cuda.threadfence()")
            name = k.define(text, result.name)
            k.line(buffer.write("0", name))
            k.line("cuda.threadfence()")
        k.access(None, reads=[buffer])
        k.names[result] = k.define(buffer.read("0"), result.name)


def _load(k: Emitter, operation: Operation) -> None:
    pointer, *rest = operation.operands
    (result,) = operation.results
    load = f"load_{memory_name(element_of(result.type))}"
    if is_tile(result):
        k.access(operation, writes=[k.place(result)], load=pointer)
        with k.lanes(size_of(result)) as index:
            args = [k.at(v, index) for v in operation.operands]
            k.put(result, index, _masked(k, load, args, result))
        return
    args = [k.names[v] for v in operation.operands]
    if operation not in k.plan.spinning:
        k.access(operation, load=None)
        k.names[result] = _masked(k, load, args, result)
        return
    # Threads that load for themselves may see what another program writes at different times.
    other = args[2] if len(rest) > 1 else zero(element_of(result.type))
    text = f"{load}({args[0]})"
    _from_first(k, operation, f"({text} if {args[1]} else {other})" if rest else text)


def _masked(k: Emitter, load: str, args: list[str], result: Value) -> str:
    if len(args) == 1:
        return k.define(f"{load}({args[0]})", result.name)
    other = args[2] if len(args) > 2 else zero(element_of(result.type))
    name = k.define(other, result.name)
    with k.block(f"if {args[1]}:"):
        k.line(f"{name} = {load}({args[0]})")
    return name


def _store(k: Emitter, operation: Operation) -> None:
    pointer, value = operation.operands[:2]
    store = f"store_{memory_name(element_of(value.type))}"
    if is_tile(pointer):
        k.access(operation, store=pointer)
        with k.lanes(size_of(pointer)) as index:
            args = [k.at(v, index) for v in operation.operands]
            _guarded(k, f"{store}({args[0]}, {args[1]})", args[2:])
        return
    k.access(operation, store=None)
    with k.block("if t == 0:"):
        args = [k.names[v] for v in operation.operands]
        _guarded(k, f"{store}({args[0]}, {args[1]})", args[2:])


def _guarded(k: Emitter, statement: str, mask: Sequence[str]) -> None:
    if not mask:
        k.line(statement)
        return
    with k.block(f"if {mask[0]}:"):
        k.line(statement)


def _atomic(k: Emitter, operation: Operation) -> None:
    (result,) = operation.results
    element = element_of(result.type)
    kind = operation.attributes["kind"] if operation.code is Code.ATOMIC_RMW else "cas"
    count = 2 if operation.code is Code.ATOMIC_RMW else 3
    if not is_tile(result):
        args = [k.names[v] for v in operation.operands]
        text = f"atomic_{kind}_{element}({', '.join(args[:count])})"
        if len(args) > count:
            text = f"({text} if {args[count]} else {zero(element)})"
        _from_first(k, operation, text)
        return
    k.access(operation, writes=[k.place(result)], load=None, store=None)
    with k.lanes(size_of(result)) as index:
        args = [k.at(v, index) for v in operation.operands]
        text = f"atomic_{kind}_{element}({', '.join(args[:count])})"
        if len(args) == count:
            k.put(result, index, k.define(text, result.name))
            return
        name = k.define(zero(element), result.name)
        with k.block(f"if {args[count]}:"):
            k.line(f"{name} = {text}")
        k.put(result, index, name)


def _barrier(k: Emitter, operation: Operation) -> None:
    k.line("cuda.threadfence()")
    k.sync()


def _nothing(k: Emitter, operation: Operation) -> None:
    pass


# ---- control


def _assign(
    k: Emitter, source: Operation, values: Sequence[Value], targets: Sequence[Value]
) -> None:
    """Copy values into others at once: none is written before all are read."""
    left = [k.names[t] for t in targets if not is_tile(t)]
    right = [k.names[v] for v in values if not is_tile(v)]
    pairs = [(v, t) for v, t in zip(values, targets, strict=True) if is_tile(t)]
    pairs = [(v, t) for v, t in pairs if k.plan.home_of(v) is not k.plan.home_of(t)]
    k.access(source, writes=[k.place(t) for _, t in pairs])
    for size in sorted({size_of(t) for _, t in pairs}):
        with k.lanes(size) as index:
            ours = [(v, t) for v, t in pairs if size_of(t) == size]
            texts = [k.at(v, index) for v, _ in ours]
            for (_, target), text in zip(ours, texts, strict=True):
                k.put(target, index, text, keep=False)
    changed = [(a, b) for a, b in zip(left, right, strict=True) if a != b]
    if changed:
        k.line(f"{', '.join(a for a, _ in changed)} = {', '.join(b for _, b in changed)}")


def _named(k: Emitter, values: Sequence[Value]) -> None:
    for value in values:
        if not is_tile(value):
            k.names[value] = k.name(value.name)


def _enter_loop(k: Emitter, operation: Operation) -> None:
    """Assume all accesses of the loop's body: an earlier iteration may have done them."""
    inside = [o.code for region in operation.regions for o in region.walk()]
    atomic = any(c in ops.ATOMIC for c in inside)
    if Code.LOAD in inside or atomic:
        k.hazards.loads.add(None)
    if Code.STORE in inside or atomic:
        k.hazards.stores.add(None)
    k.hazards.reads.add((None, True))
    k.hazards.writes.add(None)


def _for(k: Emitter, operation: Operation) -> None:
    start, end, step, *carried = operation.operands
    (region,) = operation.regions
    index, *inner = region.arguments
    _named(k, inner)
    for result, argument in zip(operation.results, inner, strict=True):
        if not is_tile(result):
            k.names[result] = k.names[argument]
    _assign(k, operation, carried, inner)
    before = k.hazards.copy()
    _enter_loop(k, operation)
    counter = k.name(index.name or "i")
    bounds = ", ".join(k.names[v] for v in (start, end, step))
    with k.block(f"for {counter} in range({bounds}):"):
        k.names[index] = k.define(
            f"{numpy_name(element_of(index.type))}({counter})", index.name or "i"
        )
        emit_region(k, region)
        _assign(k, region.terminator, region.terminator.operands, inner)
        k.free(region.terminator)
    k.hazards.join(before)


def _while(k: Emitter, operation: Operation) -> None:
    before, after = operation.regions
    _named(k, before.arguments)
    _named(k, after.arguments)
    for result, argument in zip(operation.results, after.arguments, strict=True):
        if not is_tile(result):
            k.names[result] = k.names[argument]
    _assign(k, operation, operation.operands, before.arguments)
    _enter_loop(k, operation)
    with k.block("while True:"):
        emit_region(k, before)
        condition, *passed = before.terminator.operands
        _assign(k, before.terminator, passed, after.arguments)
        k.free(before.terminator)
        with k.block(f"if not {k.names[condition]}:"):
            k.line("break")
        left = k.hazards.copy()
        emit_region(k, after)
        _assign(k, after.terminator, after.terminator.operands, before.arguments)
        k.free(after.terminator)
    k.hazards = left


def _if(k: Emitter, operation: Operation) -> None:
    (condition,) = operation.operands
    then, other = operation.regions
    _named(k, operation.results)
    before = k.hazards.copy()
    with k.block(f"if {k.names[condition]}:"):
        _branch(k, operation, then)
    after, k.hazards = k.hazards, before
    if other.operations[:-1] or other.terminator.operands:
        with k.block("else:"):
            _branch(k, operation, other)
    k.hazards.join(after)


def _branch(k: Emitter, operation: Operation, region: Region) -> None:
    emit_region(k, region)
    _assign(k, region.terminator, region.terminator.operands, operation.results)
    k.free(region.terminator)


# ---- diagnosis


def _assert(k: Emitter, operation: Operation) -> None:
    condition = operation.operands[0]
    where = f"{operation.location}: " if operation.location else ""
    k.messages.append(f"{where}{operation.attributes['message']}")
    failed = k.define("0", "failed")
    if is_tile(condition):
        k.access(operation)
        with k.lanes(size_of(condition)) as index, k.block(f"if not {k.at(condition, index)}:"):
            k.line(f"{failed} = 1")
    else:
        with k.block(f"if not {k.names[condition]}:"):
            k.line(f"{failed} = 1")
    with k.block(f"if cuda.syncthreads_or({failed}):"):
        with k.block("if t == 0:"):
            k.line(f"atomic_max_i32(status, int32({len(k.messages)}))")
        k.line("return")
    k.hazards.clear()


def _print(k: Emitter, operation: Operation) -> None:
    prefix = str(operation.attributes["prefix"])
    who = "'pid', program_x, program_y, program_z"
    for value in operation.operands or (None,):
        if value is None or not is_tile(value):
            shown = [] if value is None else [k.names[value]]
            with k.block("if t == 0:"):
                k.line(f"print({', '.join([who, repr(prefix), *shown])})")
            continue
        k.access(operation)
        with k.lanes(size_of(value)) as index:
            shown = [who, "'idx'", index.text, repr(prefix), k.at(value, index)]
            k.line(f"print({', '.join(shown)})")


_STATEMENTS = {
    Code.PROGRAM_ID: _program_id,
    Code.NUM_PROGRAMS: _num_programs,
    Code.LOAD: _load,
    Code.STORE: _store,
    Code.ATOMIC_RMW: _atomic,
    Code.ATOMIC_CAS: _atomic,
    Code.BARRIER: _barrier,
    Code.JOIN_TOKENS: _nothing,
    Code.FOR: _for,
    Code.WHILE: _while,
    Code.IF: _if,
    Code.ASSERT: _assert,
    Code.PRINT: _print,
    Code.REDUCE: lanes.reduce,
    Code.SCAN: lanes.scan,
    Code.HISTOGRAM: lanes.histogram,
    Code.SORT: lanes.sort,
    Code.DOT: lanes.dot,
}
