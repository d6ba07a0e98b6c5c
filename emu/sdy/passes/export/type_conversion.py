"""Type conversion, operation by operation, as in MLIR's dialect conversion.

Operations are replaced in program order by new ones whose operands already have
the new types. Until the end, the old operations stay in place, because the new
types depend on them. Where a value has another type than a user needs, a cast is
inserted: before an operation that is replaced, to the type that it needs; and
after one that was, to the old type, for users that stay unchanged. Casts that
cancel each other are removed at the end.
"""

from __future__ import annotations

from collections.abc import Callable

from emu.mlir.ir import Operation, Value
from emu.mlir.types import Type
from emu.sdy.passes.insertion_point import Place, location_of

CAST = "builtin.unrealized_conversion_cast"


class TypeConversion:
    """A mapping from old values to their replacements of other types.

    Args:
        convert: Returns the type that a value should have.
    """

    def __init__(self, convert: Callable[[Value], Type]) -> None:
        self._convert = convert
        self._next: dict[Value, Value] = {}
        self._targets: set[Value] = set()
        self._replaced: dict[Operation, None] = {}
        self._casts: dict[Operation, None] = {}

    # While operations are replaced

    def operands(self, op: Operation) -> list[Value]:
        """Return the operands, in their new types, for a replacement of ``op``."""
        return [self._in_type(value, self._convert(value)) for value in op.operands]

    def replace(self, op: Operation, values: list[Value]) -> None:
        """Replace the results of ``op`` at the end."""
        for old, new in zip(op.results, values, strict=True):
            self._map(old, new)
        self._replaced[op] = None

    def _map(self, old: Value, new: Value) -> None:
        self._next[old] = new
        self._targets.add(new)

    def _chain(self, value: Value) -> list[Value]:
        """Return the value, its replacement, the replacement of that, and so on."""
        chain = [value]
        while (new := self._next.get(chain[-1])) is not None:
            chain.append(new)
        return chain

    def _in_type(self, value: Value, type_: Type) -> Value:
        chain = self._chain(value)
        for each in reversed(chain):
            if each.type == type_:
                return each
        return self._cast(chain, type_)

    def _cast(self, chain: list[Value], type_: Type) -> Value:
        value = next(v for v in reversed(chain) if v.defining_op not in self._casts)
        cast = Operation(CAST, [value], [type_], location=location_of(chain[0]))
        Place.after_value(value).insert(cast)
        self._casts[cast] = None
        self._map(value, cast.result)
        return cast.result

    # At the end

    def finish(self) -> None:
        """Replace the uses, and erase replaced operations and unneeded casts."""
        for op in self._replaced:
            for old in op.results:
                new = self._replacement(old)
                if new is not None:
                    old.replace_all_uses_with(new)
            op.detach()
        for op in self._replaced:
            op.drop_all_references()
        self._drop_casts()

    def _replacement(self, old: Value) -> Value | None:
        """Return the value that the uses of a replaced value get; None if it has no uses left."""
        chain = self._chain(old)
        for each in reversed(chain[1:]):
            if each.type == old.type:
                return each
        if old not in self._targets and all(user in self._replaced for user in old.users):
            return None
        return self._cast(chain, old.type)

    def _drop_casts(self) -> None:
        for cast in self._casts:
            source = cast.operands[0]
            while source.type != cast.result.type and source.defining_op in self._casts:
                source = source.defining_op.operands[0]
            if source.type == cast.result.type:
                cast.result.replace_all_uses_with(source)
        # A cast may be the only user of another one.
        pending = list(self._casts)
        while pending:
            cast = pending.pop()
            if cast.parent is not None and not cast.result.has_uses:
                before = cast.operands[0].defining_op
                cast.erase()
                if before in self._casts:
                    pending.append(before)
