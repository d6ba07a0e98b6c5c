"""``torch.compile`` of tensors on emulated devices.

Three parties see such a tensor while a function is compiled, and must not see the same. *Dynamo* traces the program,
which asks for devices, makes tensors on them and moves tensors between them; it must see the devices, or the program
would take the branches of a host. It reads them from fake tensors, which carry a tag as real tensors do, so it needs no
function mode, and ours is hidden from it: tracing through the mode's own code would be slow, and end at the first
thing that Dynamo cannot trace. *Inductor* writes code for the tensors as they are, in host memory: the graph that it
gets names the CPU, and moves from device to device have become copies. *Guards* decide at each call whether compiled
code fits; torch's own cannot tell a tensor of a device from one of the host, so each guard of a tensor compares tags too.

The compiled code runs with the mode off, since it mixes tensors of the program with buffers that have no tag; its
results are placed on the devices on which Dynamo saw them.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import torch
from torch.fx.node import map_aggregate

from emu.accelerator.annotations import Tensor
from emu.accelerator.device_tags import CPU, emulated_device, set_tag
from emu.accelerator.import_hooks import after_import
from emu.accelerator.mode import Devices, active, inside, on_stack
from emu.accelerator.patches import Ledger
from emu.accelerator.runtime import DeviceProperties
from emu.accelerator.state import TYPES, state
from emu.inductor import autocast

Node: TypeAlias = Any
"""A node of torch.fx; typed in part only."""

_NAME = re.compile(rf"(?:{'|'.join(TYPES)})(?::\d+)?")
_MOVES = ("to", "cpu", *TYPES)


def install(ledger: Ledger) -> None:
    """Change Dynamo and Inductor, when they are imported."""
    change = functools.partial(after_import, ledger=ledger)
    change("torch._dynamo.variables.torch_function", functools.partial(_hide_mode, ledger))
    change("torch._dynamo.utils", functools.partial(_trace_operators, ledger))
    change("torch._dynamo.utils", functools.partial(_keep_mode, ledger))
    change("torch._dynamo.trace_rules", functools.partial(_skip_own_frames, ledger))
    change("torch._subclasses.meta_utils", functools.partial(_describe_devices, ledger))
    change("torch._dynamo.output_graph", functools.partial(_prepare_graphs, ledger))
    change("torch._dynamo.variables.optimizer", functools.partial(_set_optimizers_up, ledger))
    change("torch._dynamo.variables.tensor", functools.partial(_tag_gradients, ledger))
    change("torch._dynamo.guards", functools.partial(_guard_devices, ledger))
    change("torch._inductor.compile_fx", functools.partial(_compile_for_host, ledger))
    change("torch._inductor.output_code", functools.partial(_run_without_mode, ledger))


@contextlib.contextmanager
def _fakes_show_devices(shows: bool | None) -> Iterator[None]:
    before, state.fakes_show_devices = state.fakes_show_devices, shows
    try:
        yield
    finally:
        state.fakes_show_devices = before


# ---- Dynamo


def _hide_mode(ledger: Ledger, module: ModuleType) -> None:
    """Let Dynamo trace as if the mode were not there, and fake tensors say where they are meanwhile."""
    symbolic = module.SymbolicTorchFunctionState
    begin = symbolic.__init__

    def begin_without_mode(
        self: Any, py_stack: Sequence[object], *args: Any, **kwargs: Any
    ) -> None:
        stack = list(py_stack)
        begin(self, stack, *args, **kwargs)
        for place in reversed(range(len(stack))):
            if isinstance(stack[place], Devices):
                del self.mode_stack[place]  # the others keep their places in the real stack

    manager = module.TorchFunctionModeStackStateManager
    enter, leave = manager.__enter__, manager.__exit__

    def enter_tracing(self: Any) -> None:
        shows = on_stack()
        if shows:
            _fold_constants()
        enter(self)
        self._emu_before = state.fakes_show_devices
        state.fakes_show_devices = shows or None

    def leave_tracing(self: Any, *error: Any) -> None:
        state.fakes_show_devices = self._emu_before
        leave(self, *error)

    reason = "Dynamo would trace through the mode's own code"
    ledger.replace(symbolic, "__init__", begin_without_mode, reason)
    ledger.replace(manager, "__enter__", enter_tracing, reason)
    ledger.replace(manager, "__exit__", leave_tracing, reason)


def _trace_operators(ledger: Ledger, module: ModuleType) -> None:
    """Run each operator that Dynamo traces inside the mode, which knows what it does to devices."""
    run = module.run_node

    @functools.wraps(run)
    def run_in_mode(*args: Any, **kwargs: Any) -> Any:
        if not state.fakes_show_devices:
            return run(*args, **kwargs)
        with _fakes_show_devices(None), inside():
            return run(*args, **kwargs)

    ledger.replace(module, "run_node", run_in_mode, "the mode is off while Dynamo traces")
    module.common_constant_types.add(DeviceProperties)
    undo = functools.partial(module.common_constant_types.discard, DeviceProperties)
    ledger.record("torch._dynamo.utils.common_constant_types", "as those of CUDA are", undo)


def _skip_own_frames(ledger: Ledger, module: ModuleType) -> None:
    """Compile no functions of emu's own, which run whenever a program calls torch; those that it calls are traced."""
    package = str(Path(__file__).parents[1])
    module.SKIP_DIRS.append(package)
    module.BUILTIN_INLINE_WHEN_CALLED.add(package)
    module._recompile_re()

    def undo() -> None:
        module.SKIP_DIRS.remove(package)
        module.BUILTIN_INLINE_WHEN_CALLED.discard(package)
        module._recompile_re()

    ledger.record("torch._dynamo.trace_rules.SKIP_DIRS", "emu's functions are no program's", undo)


def _keep_mode(ledger: Ledger, module: ModuleType) -> None:
    """Keep the mode on the stack that a compiled function sets, which enters or leaves modes of its own."""
    set_stack = module.set_torch_function_mode_stack

    def set_stack_with_mode(stack: list[Any]) -> None:
        ours = [inside()] if on_stack() and not any(isinstance(m, Devices) for m in stack) else []
        set_stack([*ours, *stack])

    reason = "compiled code sets the modes that Dynamo has seen"
    ledger.replace(module, "set_torch_function_mode_stack", set_stack_with_mode, reason)


def _set_optimizers_up(ledger: Ledger, module: ModuleType) -> None:
    """Let optimizers make their state inside the mode: Dynamo has them do it while it traces."""
    owner = module.OptimizerVariable
    call, set_capturable = owner.call_method, owner._set_capturable

    def call_in_mode(self: Any, tx: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        if name != "_init_group" or not state.fakes_show_devices:
            return call(self, tx, name, *args, **kwargs)
        make = self.value._init_group

        def make_in_mode(*given: Any, **named: Any) -> Any:
            with _fakes_show_devices(None), inside():
                return make(*given, **named)

        vars(self.value)["_init_group"] = make_in_mode
        try:
            return call(self, tx, name, *args, **kwargs)
        finally:
            del vars(self.value)["_init_group"]

    def set_capturable_in_mode(self: Any, tx: Any) -> None:
        with inside() if state.fakes_show_devices else contextlib.nullcontext():
            set_capturable(self, tx)

    reason = "the mode is off while Dynamo traces"
    ledger.replace(owner, "call_method", call_in_mode, reason)
    ledger.replace(owner, "_set_capturable", set_capturable_in_mode, reason)


def _tag_gradients(ledger: Ledger, module: ModuleType) -> None:
    """Place a gradient that Dynamo reads from a real tensor: autograd made it without a tag."""
    owner = module.TensorVariable
    get = owner.dynamic_getattr

    def get_placed(self: Any, tx: Any, name: str) -> Any:
        if name == "grad" and state.fakes_show_devices and self.source:
            scope = {"L": tx.output.local_scope, "G": tx.output.global_scope}
            # Dynamo evaluates the name just so, and reports what is wrong with it.
            with contextlib.suppress(Exception), inside():
                _ = eval(self.source.name, scope).grad
        return get(self, tx, name)

    ledger.replace(owner, "dynamic_getattr", get_placed, "the mode is off while Dynamo traces")


_CONSTANTS = (
    "current_device",
    "device_count",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "is_available",
    "is_initialized",
)


def _fold_constants() -> None:
    """Let Dynamo call what asks for devices while it traces, as it calls torch's functions of those names."""
    from torch._dynamo import trace_rules
    from torch._dynamo.variables import torch as found

    rules: Any = found  # its tables are declared as the lists of which they are made
    known = trace_rules.get_torch_obj_rule_map()
    for kind in TYPES:
        for name in _CONSTANTS:
            function = getattr(getattr(torch, kind, None), name, None)
            if function is None or function in rules.constant_fold_functions:
                continue
            known[function] = rules.TorchInGraphFunctionVariable
            rules.constant_fold_functions[function] = None
            if name in ("current_device", "is_initialized"):
                rules.constant_fold_functions_need_guards[function] = None


def _describe_devices(ledger: Ledger, module: ModuleType) -> None:
    """Make fake tensors on the devices of the real ones while Dynamo traces."""
    describer = module.MetaTensorDescriber
    describe = describer.describe_tensor

    def describe_with_device(self: Any, t: Tensor, *args: Any, **kwargs: Any) -> Any:
        found = describe(self, t, *args, **kwargs)
        if state.fakes_show_devices:
            device = emulated_device(t)
            if device is not None:
                object.__setattr__(found, "device", device)  # a frozen description, not yet used
        return found

    reason = "the mode is off while Dynamo traces"
    ledger.replace(describer, "describe_tensor", describe_with_device, reason)


def _guard_devices(ledger: Ledger, module: ModuleType) -> None:
    """Let each guard of a tensor compare its emulated device, too."""
    builder = module.GuardBuilder
    match = builder.TENSOR_MATCH

    @functools.wraps(match)
    def match_with_device(self: Any, guard: Any, value: Any = None) -> None:
        match(self, guard, value)
        if not active() or module.match_on_id_for_tensor(guard):
            return
        tensor = value() if isinstance(value, module.TensorWeakRef) else value
        tensor = self.get(guard) if tensor is None else tensor
        device = emulated_device(tensor)

        def is_there(given: Tensor) -> bool:
            return emulated_device(given) == device

        text = f"emulated device of {self.arg_ref(guard)} is {device}"
        parts = module.get_verbose_code_parts(text, guard)
        self.get_guard_manager(guard).add_lambda_guard(is_there, parts, guard.user_stack)

    reason = "to torch, tensors of emulated devices are the host's"
    ledger.replace(builder, "TENSOR_MATCH", match_with_device, reason)


def _prepare_graphs(ledger: Ledger, module: ModuleType) -> None:
    """Let the bodies of control flow name the CPU: the operator that runs them is called with the mode off."""
    owner = module.OutputGraph
    compile_graph = owner.call_user_compiler

    def compile_prepared(self: Any, graph: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        if state.fakes_show_devices:
            for body in _graphs(graph)[1:]:
                _move_to_host(body)
        return compile_graph(self, graph, *args, **kwargs)

    reason = "operators run the bodies of control flow with the mode off"
    ledger.replace(owner, "call_user_compiler", compile_prepared, reason)


# ---- Inductor


def _compile_for_host(ledger: Ledger, module: ModuleType) -> None:
    """Give Inductor graphs that name the CPU, and place what their code returns."""
    compile_fx, compile_inner = module.compile_fx, module._compile_fx_inner
    devices_of = module.get_inputs_devices

    @functools.wraps(compile_fx)
    def compile_on_host(model_: Any, *args: Any, **kwargs: Any) -> Any:
        if not state.fakes_show_devices or not isinstance(model_, torch.fx.GraphModule):
            return compile_fx(model_, *args, **kwargs)
        places = _places_of_results(model_)
        autocast.widen(model_)
        for graph in _graphs(model_):
            _move_to_host(graph)
        with _fakes_show_devices(False):
            compiled = compile_fx(model_, *args, **kwargs)
        return _placing(compiled, places) if any(places) else compiled

    @functools.wraps(compile_inner)
    def compile_inner_on_host(*args: Any, **kwargs: Any) -> Any:
        # That of a backward pass may run when the pass does, long after Dynamo has traced.
        with _fakes_show_devices(False), torch._C.DisableTorchFunction():
            return compile_inner(*args, **kwargs)

    @functools.wraps(devices_of)
    def devices_on_host(*args: Any, **kwargs: Any) -> Any:
        # Where a graph has no tensors, Inductor makes some for its patterns: on CUDA, if that is available.
        found = devices_of(*args, **kwargs)
        return found if found[0] is not None or not active() else [CPU, *found]

    reason = "Inductor writes code for the memory that tensors have"
    ledger.replace(module, "get_inputs_devices", devices_on_host, reason)
    ledger.replace(module, "compile_fx", compile_on_host, reason)
    ledger.replace(module, "_compile_fx_inner", compile_inner_on_host, reason)


def _graphs(module: torch.fx.GraphModule) -> list[torch.fx.GraphModule]:
    """Return a graph, and behind it those of its control flow."""
    return [m for m in module.modules() if isinstance(m, torch.fx.GraphModule)]


def _places_of_results(module: torch.fx.GraphModule) -> list[torch.device | None]:
    """Return the emulated device of each result of a graph that Dynamo made, None for the host's and no tensors."""
    (results,) = module.graph.find_nodes(op="output")[0].args
    return [_device_of(result) for result in results]


def _device_of(node: object) -> torch.device | None:
    value = node.meta.get("example_value") if isinstance(node, torch.fx.Node) else None
    return emulated_device(value) if isinstance(value, torch.Tensor) else None


def _move_to_host(module: torch.fx.GraphModule) -> None:
    """Let a graph name the CPU wherever it names an emulated device; what moved a tensor copies it."""
    for node in module.graph.nodes:
        if node.op == "call_method" and node.target in _MOVES and _moves(node):
            _copy_instead(node)
        else:
            node.args = map_aggregate(node.args, _on_host)
            node.kwargs = map_aggregate(node.kwargs, _on_host)
    module.recompile()


def _on_host(value: Any) -> Any:
    if isinstance(value, torch.device) and value.type in TYPES:
        return CPU
    return "cpu" if isinstance(value, str) and _NAME.fullmatch(value) else value


def _moves(node: Node) -> bool:
    """Return whether a call of ``to``, ``cpu`` or the like is about a device."""
    if node.target != "to":
        return True
    given = [*node.args[1:2], node.kwargs.get("device"), node.kwargs.get("other")]
    return any(
        isinstance(g, (torch.device, str, int, torch.fx.Node)) and not isinstance(g, bool)
        for g in given
    )


def _copy_instead(node: Node) -> None:
    """Make a call that may move its tensor one of ``to`` for the CPU: a copy, if the devices differ."""
    source = node.args[0]
    result = node.meta.get("example_value")
    kwargs = {n: v for n, v in node.kwargs.items() if n in ("copy", "memory_format")}
    if isinstance(result, torch.Tensor):
        kwargs["dtype"] = result.dtype
        if emulated_device(result) != _device_of(source):
            kwargs["copy"] = True
    if (
        node.target == "to" and len(node.args) > 4 and node.args[4]
    ):  # to(device, dtype, non_blocking, copy)
        kwargs["copy"] = True
    node.target, node.args, node.kwargs = "to", (source,), {"device": CPU, **kwargs}


def _placing(
    compiled: Callable[..., Any], places: Sequence[torch.device | None]
) -> Callable[..., Any]:
    """Return a function that calls compiled code with the mode off, and places its results."""
    device = next(filter(None, places))

    @functools.wraps(compiled)
    def run(*args: Any, **kwargs: Any) -> Any:
        with torch._C.DisableTorchFunction(), _compiled_for(device):
            results = compiled(*args, **kwargs)
            for result, place in zip(results, places, strict=True):
                if place is not None:
                    set_tag(result, place)
        return results

    return run


@contextlib.contextmanager
def _compiled_for(device: torch.device | None) -> Iterator[None]:
    """Let operators of the program know where the buffers of compiled code are, and draw that device's numbers.

    The code itself names the CPU.
    """
    before = state.compiled_for, state.running
    state.compiled_for = state.running = device
    try:
        yield
    finally:
        state.compiled_for, state.running = before


def _run_without_mode(ledger: Ledger, module: ModuleType) -> None:
    """Run compiled code with the mode off, that of backward passes too."""
    owner = module.CompiledFxGraph
    call = owner.__call__

    @functools.wraps(call)
    def call_without_mode(self: Any, inputs: Sequence[Any]) -> Any:
        if not active():
            return call(self, inputs)
        tags = (emulated_device(each) for each in inputs if isinstance(each, torch.Tensor))
        device = next(filter(None, tags), state.compiled_for)
        with torch._C.DisableTorchFunction(), _compiled_for(device):
            return call(self, inputs)

    ledger.replace(owner, "__call__", call_without_mode, "its buffers have no tag")
