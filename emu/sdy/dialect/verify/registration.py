"""Registration of the rules of each operation."""

from __future__ import annotations

from emu.mlir.attributes import Attribute, DenseElementsAttr, IntegerAttr, StringAttr
from emu.mlir.ir import Operation
from emu.mlir.registry import AttributeVerifiers, attribute_verifiers, extend
from emu.mlir.symbols import symbol_problem
from emu.sdy.dialect import ops as _ops  # noqa: F401  # defines what is extended here
from emu.sdy.dialect.attributes import (
    AllToAllParamList,
    AxisRefList,
    ListOfAxisRefLists,
    ManualAxes,
    Mesh,
    ReductionOp,
    TensorSharding,
    TensorShardingPerValue,
)
from emu.sdy.dialect.names import COLLECTIVES, PROPAGATION_EDGES, REDUCING
from emu.sdy.dialect.shardings import sharding_bypassing_barriers
from emu.sdy.dialect.verify import collectives, discardable, edges, regions, structure
from emu.sdy.dialect.verify.problems import Check, Problem, verifier
from emu.sdy.dialect.verify.shardings import mesh_of, sharding_problem
from emu.sdy.dialect.verify.structure import RANKED_TENSOR, SHAPED, STATIC_TENSOR, Form
from emu.sdy.dialect.verify.unreduced import transition_problem
from emu.sdy.dialect.wellformed import mesh_axis_problem, mesh_problem


def _mesh(op: Operation) -> Problem | None:
    message = symbol_problem(op)
    if message is not None:
        return Problem(message)
    mesh = op.properties["mesh"]
    assert isinstance(mesh, Mesh)  # its form was checked
    messages = [*map(mesh_axis_problem, mesh.axes), mesh_problem(mesh)]
    return next((Problem(message) for message in messages if message is not None), None)


def _own_sharding(op: Operation) -> Problem | None:
    """Check the sharding that the operation gives its result."""
    sharding = op.properties["sharding"]
    assert isinstance(sharding, TensorSharding)  # its form was checked
    return sharding_problem(sharding, op.result.type, op, mesh_of(sharding, op))


def _resharding(op: Operation) -> Problem | None:
    """Check the sharding of a reshard or constraint, and how it changes its operand's."""
    problem = _own_sharding(op)
    source = sharding_bypassing_barriers(op.operands[0])
    if problem is not None or source is None:
        return problem
    target = op.properties["sharding"]
    assert isinstance(target, TensorSharding)  # its form was checked
    introduced, removed = ReductionOp.SUM, source.reduction_op
    return transition_problem(op, [source], [target], introduced=introduced, removed=removed)


def _rules(
    name: str,
    form: Form,
    *checks: Check,
    regions: tuple[Check, ...] = (),
    at_the_end: Check | None = None,
) -> None:
    """Set an operation's rules, by the phase in which they run.

    Args:
        name: Name of the operation.
        form: Its operands, results, attributes and body.
        *checks: Further rules for the operation by itself.
        regions: Rules that need valid regions.
        at_the_end: A rule that needs other operations of the module.
    """
    extend(
        name,
        verify=verifier(structure.form_problem(form), *checks),
        verify_regions=verifier(*regions) if regions else None,
        verify_symbol_uses=None if at_the_end is None else verifier(at_the_end),
    )


def _collectives() -> None:
    per_dim, one = ListOfAxisRefLists, AxisRefList
    table: list[tuple[str, type[Attribute], Check]] = [
        ("sdy.all_gather", per_dim, collectives.all_gather_problem),
        ("sdy.all_slice", per_dim, collectives.all_slice_problem),
        ("sdy.all_to_all", AllToAllParamList, collectives.all_to_all_problem),
        ("sdy.all_reduce", one, collectives.all_reduce_problem),
        ("sdy.collective_permute", Attribute, collectives.collective_permute_problem),
        ("sdy.reduce_scatter", per_dim, collectives.reduce_scatter_problem),
        ("sdy.sharded_to_unreduced", per_dim, collectives.sharded_to_unreduced_problem),
        ("sdy.replicated_to_unreduced", one, collectives.replicated_to_unreduced_problem),
    ]
    for name, kind, rule in table:
        axes = COLLECTIVES[name]
        own = () if axes is None else ((axes, kind),)
        _rules(
            name,
            Form(
                required=(*own, ("out_sharding", TensorSharding)),
                optional=(("reduction_op", IntegerAttr),) if name in REDUCING else (),
                operand=SHAPED,
                result=SHAPED,
                same_type=True,
            ),
            collectives.collective_problem,
            regions=(structure.inferred_types_problem,),
            at_the_end=rule,
        )
        extend(name, reads_around=True)


def _identities() -> None:
    sharding = (("sharding", TensorSharding),)
    inferred = (structure.inferred_types_problem,)
    for name in ("sdy.sharding_constraint", "sdy.reshard"):
        form = Form(required=sharding, same_type=True)
        _rules(name, form, regions=inferred, at_the_end=_resharding)
    _rules(
        "sdy.data_flow_edge",
        Form(optional=sharding, operand=SHAPED, result=SHAPED, same_type=True),
        regions=inferred,
        at_the_end=edges.data_flow_edge_problem,
    )
    _rules(
        "sdy.func_data_flow_edge",
        Form(operand=SHAPED, result=SHAPED, same_type=True),
        regions=inferred,
        at_the_end=edges.func_data_flow_edge_problem,
    )
    direction = (("allowed_direction", IntegerAttr),)
    _rules(
        "sdy.propagation_barrier",
        Form(required=direction, operand=RANKED_TENSOR, result=RANKED_TENSOR, same_type=True),
        edges.propagation_barrier_problem,
        regions=inferred,
    )


def _computations() -> None:
    shardings = (
        ("in_shardings", TensorShardingPerValue),
        ("out_shardings", TensorShardingPerValue),
    )
    manual = (*shardings, ("manual_axes", ManualAxes))
    _rules(
        "sdy.manual_computation",
        Form(operands=None, results=None, required=manual, body=True),
        regions.manual_axes_problem,
        regions=(structure.body_terminator_problem,),
        at_the_end=regions.manual_computation_problem,
    )
    extend("sdy.manual_computation", scope=True)
    name = (("name", StringAttr),)
    _rules(
        "sdy.named_computation",
        Form(operands=None, results=None, required=name, optional=shardings, body=True),
        regions=(structure.body_terminator_problem, structure.named_computation_types_problem),
        at_the_end=regions.named_computation_problem,
    )


def _others() -> None:
    properties = (("sym_name", StringAttr), ("mesh", Mesh))
    mesh = Form(operands=0, results=0, required=properties, parent="builtin.module")
    _rules("sdy.mesh", mesh, _mesh)
    group = (("group_id", IntegerAttr),)
    _rules("sdy.sharding_group", Form(results=0, required=group, operand=RANKED_TENSOR))
    _rules(
        "sdy.constant",
        Form(operands=0, required=(("value", DenseElementsAttr),), result=STATIC_TENSOR),
        regions=(structure.constant_type_problem,),
    )
    _rules("sdy.return", Form(operands=None, results=0))


def register_verifiers() -> None:
    """Register the verifiers of all operations of the dialect."""
    _collectives()
    _identities()
    _computations()
    _others()
    attribute_verifiers["sdy"] = AttributeVerifiers(
        discardable.verify_operation,
        discardable.verify_argument,
        discardable.verify_result,
        reading_around=frozenset({PROPAGATION_EDGES}),
    )
