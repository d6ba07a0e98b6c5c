"""Parser of sharding rules: ``<([i, k], [k, j])->([i, j]) {i=8, …} reduction={k}>``.

Factors are named ``i`` to ``z`` and then ``z_1``, ``z_2`` …; a dimension of
several factors concatenates their names.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from emu.mlir.diagnostics import Diagnostic, MlirError, Severity, located
from emu.mlir.literals import integer_of
from emu.sdy.dialect.attributes import DimMapping, OpShardingRule, SdyAttribute, TensorMapping
from emu.sdy.dialect.parsing import INT64_MAX, list_of, read_list, stripped_or_full
from emu.sdy.dialect.text import factor_symbol

if TYPE_CHECKING:
    from emu.mlir.assembly import OpParser

_LAST_LETTER = ord("z") - ord("i")
_DIGITS = re.compile(r"[0-9]*")
_DIM_MAPPINGS = list_of("TensorMapping", "dim_mappings", "DimMappingAttr")
_IOTA = "expecting factor indices to be ordered like an iota ([0,1,2,...], e.g. {i=#, j=#, ...}). "


class _RuleReader:
    """A reader of one rule that collects the errors after which MLIR continues."""

    def __init__(self, p: OpParser) -> None:
        self.p = p
        self.passed_over: list[Diagnostic] = []

    def finish(self, read: Callable[[_RuleReader], SdyAttribute]) -> SdyAttribute:
        """Run a reader, then raise the collected errors together with the final one."""
        try:
            found = read(self)
        except MlirError as error:
            error.diagnostics[:0] = self.passed_over
            raise
        if self.passed_over:
            first = self.passed_over[0]
            raise MlirError(first.message, self.passed_over)
        return found

    def factor(self, symbols: str) -> tuple[int, str]:
        """Return the factor that a string of names begins with, and the rest of the string."""
        p = self.p
        if not symbols.startswith("z_"):
            letter = symbols[0]
            if not "i" <= letter <= "z":
                p.error(f"expecting symbol from 'i' to 'z'. Received: '{letter}'")
            return ord(letter) - ord("i"), symbols[1:]
        digits = _DIGITS.match(symbols, 2)
        number = digits[0] if digits is not None else ""
        if not number:
            p.error(f"expecting integer after 'z_'. Received: '{symbols}'")
        if number[0] == "0":
            p.error(
                f"expecting positive integer without leading zeros. Received: '{number}'",
            )
        value = integer_of(number)
        # MLIR reports this and reads on; what comes behind may be wrong too.
        if value > INT64_MAX:
            message = f"expecting symbol index <=2^63-1. Received: '{number}'"
            self.passed_over.append(Diagnostic(Severity.ERROR, located(p.here()), message))
            value = 0
        return value + _LAST_LETTER, symbols[2 + len(number) :]

    def dim_mapping(self) -> DimMapping:
        """Read ``ijz_1``; an empty mapping is left to the verifier to reject."""
        rest = self.p.optional_keyword() or ""
        factors: list[int] = []
        while rest:
            factor, rest = self.factor(rest)
            factors.append(factor)
        return DimMapping(tuple(factors))

    def tensor_mapping(self) -> TensorMapping:
        """Read ``[i, jk]``."""
        p = self.p
        p.expect("[")
        if p.accept("]"):
            return TensorMapping()
        read = stripped_or_full(DimMapping, lambda _: self.dim_mapping())
        dims = read_list(p, read, _DIM_MAPPINGS)
        p.expect("]")
        return TensorMapping(dims)

    def tensor_mappings(self, name: str) -> tuple[TensorMapping, ...]:
        """Read ``([i, j], [k])``."""
        p = self.p
        p.expect("(")
        read = stripped_or_full(TensorMapping, lambda _: self.tensor_mapping())
        message = list_of("OpShardingRule", name, "TensorMappingAttr")
        tensors = read_list(p, read, message)
        p.expect(")")
        return tensors

    def factor_sizes(self) -> tuple[int, ...]:
        """Read ``{i=8, j=4}``, which is optional."""
        p = self.p
        sizes: list[int] = []

        def read_size() -> None:
            factor, rest = self.factor(p.keyword())
            if factor != len(sizes):
                expected, received = factor_symbol(len(sizes)), factor_symbol(factor)
                p.error(
                    f"{_IOTA}Expecting factor index symbol '{expected}', received: '{received}'",
                )
            if rest:
                p.error(f"expecting single factor symbol: {rest}")
            p.expect("=")
            sizes.append(p.integer())

        if p.peek("{"):
            p.comma_separated("{", "}", read_size)
        return tuple(sizes)

    def factors(self, kind: str) -> tuple[int, ...]:
        """Read ``reduction={k}``, which is optional."""
        p = self.p
        if not p.accept_keyword(kind):
            return ()
        p.expect("=")
        if not p.peek("{"):
            return ()
        return tuple(p.comma_separated("{", "}", lambda: self.factor(p.keyword())[0]))

    def rule(self) -> OpShardingRule:
        """Read a rule."""
        p = self.p
        p.expect("<")
        operands = self.tensor_mappings("operand_mappings")
        p.expect("->")
        results = self.tensor_mappings("result_mappings")
        sizes = self.factor_sizes()
        # Each list may be left out, but they come in this order.
        reduction = self.factors("reduction")
        need_replication = self.factors("need_replication")
        permutation = self.factors("permutation")
        blocked = self.factors("blocked_propagation")
        custom = p.accept(",")
        if custom:
            p.expect_keyword("custom")
        p.expect(">")
        return OpShardingRule(
            factor_sizes=sizes,
            operands=operands,
            results=results,
            reduction=reduction,
            need_replication=need_replication,
            permutation=permutation,
            blocked_propagation=blocked,
            is_custom=custom,
        )


def parse_rule(p: OpParser) -> SdyAttribute:
    """Read the stripped text of an ``OpShardingRule``."""
    return _RuleReader(p).finish(_RuleReader.rule)


RULE_READERS: dict[str, Callable[[OpParser], SdyAttribute]] = {
    "dim_mapping": lambda p: _RuleReader(p).finish(_RuleReader.dim_mapping),
    "op_sharding_rule": parse_rule,
    "tensor_mapping": lambda p: _RuleReader(p).finish(_RuleReader.tensor_mapping),
}
"""Readers of rules and their parts, by mnemonic."""
