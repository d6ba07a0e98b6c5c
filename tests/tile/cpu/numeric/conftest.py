"""Loops that apply one element-wise operation to whole arrays, compiled as the CPU compiler would."""

import ctypes
from dataclasses import dataclass, field

import numpy as np
import pytest
from llvmlite import ir

from emu.tile.cpu import native
from emu.tile.cpu.numeric import elementwise, vector_builder
from emu.tile.ops import COMPARISONS, Code
from emu.tile.types import I1, Pointer, ScalarType

I64, POINTER = ir.IntType(64), ir.PointerType()


@dataclass(frozen=True)
class Case:
    """One operation on arrays of one dtype each."""

    code: Code
    operands: tuple[ScalarType, ...]
    result: ScalarType
    attributes: dict = field(default_factory=dict, hash=False)
    contract: bool = False


def case(code, element, **attributes):
    """The case whose operands are all of one dtype."""
    count = {Code.SELECT: 3, Code.FMA: 3}.get(code, 2 if code >= Code.ADD else 1)
    operands = (I1, element, element) if code is Code.SELECT else (element,) * count
    return Case(code, operands, I1 if code in COMPARISONS else element, attributes)


def _loop(function, builder, start, stop, lanes, case, pointers):
    """for i in range(start, stop, lanes or 1): out[i : i + lanes] = operation(...)"""
    before = builder.block
    head, body, done = (function.append_basic_block(n) for n in ("head", "body", "done"))
    builder.branch(head)
    builder.position_at_end(head)
    index = builder.phi(I64)
    index.add_incoming(start, before)
    builder.cbranch(builder.icmp_unsigned("<", index, stop), body, done)
    builder.position_at_end(body)
    values = []
    for element, pointer in zip(case.operands, pointers[:3], strict=False):
        place = builder.gep(pointer, [index], source_etype=vector_builder.memory_type(element))
        loaded = builder.load(place, typ=vector_builder.memory_type(element, lanes))
        loaded.align = 1
        values.append(vector_builder.from_memory(builder, element, loaded))
    value = elementwise.emit(
        builder,
        case.code,
        case.attributes,
        case.operands,
        case.result,
        values,
        contract=case.contract,
    )
    assert value.type == vector_builder.register_type(case.result, lanes)
    place = builder.gep(pointers[-1], [index], source_etype=vector_builder.memory_type(case.result))
    builder.store(vector_builder.to_memory(builder, case.result, value), place).align = 1
    index.add_incoming(builder.add(index, I64(lanes or 1)), builder.block)
    builder.branch(head)
    builder.position_at_end(done)
    return index


def _function(module, name, case, lanes):
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64] + [POINTER] * 4), name)
    function.linkage = "internal"
    size, *pointers = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    index = I64(0)
    if lanes is not None:
        whole = builder.sub(size, builder.urem(size, I64(lanes)))
        index = _loop(function, builder, index, whole, lanes, case, pointers)
    _loop(function, builder, index, size, None, case, pointers)
    builder.ret_void()
    return function


def _dispatcher(module, name, functions):
    """name(which, size, three operands, out)"""
    type_ = ir.FunctionType(ir.VoidType(), [I64, I64] + [POINTER] * 4)
    function = ir.Function(module, type_, name)
    done = function.append_basic_block("done")
    ir.IRBuilder(done).ret_void()
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    function.blocks.reverse()
    switch = builder.switch(function.args[0], done)
    for which, callee in enumerate(functions):
        block = function.append_basic_block(f"case{which}")
        switch.add_case(I64(which), block)
        builder.position_at_end(block)
        builder.call(callee, function.args[1:])
        builder.branch(done)


def _numpy(element):
    return np.dtype(np.uint64) if isinstance(element, Pointer) else element.numpy


def _caller(native_function, which, case):
    def call(*arrays):
        arrays = [np.ascontiguousarray(array) for array in np.broadcast_arrays(*arrays)]
        for array, element in zip(arrays, case.operands, strict=True):
            assert array.dtype == _numpy(element)
        out = np.empty(arrays[0].shape, _numpy(case.result))
        addresses = [array.ctypes.data for array in arrays] + [0, 0]
        native_function(which, out.size, *addresses[:3], out.ctypes.data)
        return out

    return call


def compile_cases(cases, lanes=32, target=None):
    """Return, for each case, a function of arrays: whole vectors of ``lanes``, then scalars."""
    name = native.new_name("cases")
    module = ir.Module(name)
    with pytest.MonkeyPatch.context() as patch:
        if target is not None:  # code that is emitted for a feature
            patch.setattr(native, "_features", lambda: frozenset(target.features.split(",")))
        functions = [
            _function(module, f"case.{number}", one, lanes) for number, one in enumerate(cases)
        ]
    _dispatcher(module, name, functions)
    address = native.load(native.to_object(str(module), target), name)
    type_ = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 2, *[ctypes.c_void_p] * 4)
    return [_caller(type_(address), which, one) for which, one in enumerate(cases)]


@pytest.fixture(scope="session")
def compiled():
    """``compiled(cases, lanes=32, target=None)``: functions of arrays, one for each case."""
    return compile_cases


@pytest.fixture(scope="session")
def make_case():
    """``make_case(code, element, **attributes)``: operands and result all of one dtype."""
    return case
