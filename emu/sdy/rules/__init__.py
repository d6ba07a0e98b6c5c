"""Sharding rules: the factors of each dimension of an operation's tensors."""

from emu.sdy.rules.builder import Dims, RuleBuilder, identity_rule, pointwise_rule
from emu.sdy.rules.notation import einsum_rule
from emu.sdy.rules.properties import is_elementwise
from emu.sdy.rules.registry import (
    get_or_create,
    names,
    register,
    registered,
    sharding_rule,
    unregister,
)

__all__ = [
    "Dims",
    "RuleBuilder",
    "einsum_rule",
    "get_or_create",
    "identity_rule",
    "is_elementwise",
    "names",
    "pointwise_rule",
    "register",
    "registered",
    "sharding_rule",
    "unregister",
]
