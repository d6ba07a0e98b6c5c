"""Arguments of a launch: the type of each, and the number that is passed for it.

An argument becomes a *key* and a *packed* value. The key is anything hashable that says the type (for
tensors simply their dtype object, which costs least), and the same key always means the same type; the
packed value is an address or a number, or a tuple of these for a tuple. What a key means is worked out by
:func:`specialise` when a kernel is built, which happens once per combination of keys.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from emu.triton.formats import BY_SPELLING, FORMATS
from emu.triton.language.types import TypeSpelling, str_to_ty
from emu.triton.source import JITCallable, KernelParam, plain_value

if TYPE_CHECKING:
    from numpy.typing import NDArray

_I32 = range(-(2**31), 2**31)
_I64 = range(-(2**63), 2**63)
_U64 = range(2**64)

Tensor: TypeAlias = Any
"""A tensor of torch, or one of another library that behaves alike; torch is optional and has no types here."""

Key: TypeAlias = Hashable
"""Key of an argument: equal keys mean the same type, and of a constant the same value."""

DEVICE = "device"
"""Second part of the key of a tensor in the memory of a GPU; the first is its dtype or spelling."""

Packed: TypeAlias = "int | float | tuple[Packed, ...]"
"""What is passed for an argument: an address, a number, or a tuple of these."""

DTYPES: dict[Any, str] = {f.numpy: f.spelling for f in FORMATS if f.numpy is not None}
"""Spelling of each dtype in a signature; those of torch are added once torch is loaded."""

_NAMES = {d.name: n for d, n in DTYPES.items()} | {n: n for n in DTYPES.values()}
SCALARS = frozenset(("i1", "u1", *(f.spelling for f in FORMATS)))

tensors: set[type] = set()
"""Classes of torch tensors that a launch reads inline; empty while torch is not loaded."""

# Torch's, once torch is loaded: switches its function modes off.
guard: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext

# Torch's, once torch is loaded: the number of function modes that are on.
has_torch_modes: Callable[[], object] = bool


def load_torch() -> ModuleType | None:
    """Read torch's classes and dtypes if torch is loaded; return it, or None. Never import it."""
    global guard, has_torch_modes
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "Tensor") or not hasattr(torch, "nn"):
        return None
    if not tensors:
        for name, short in _NAMES.items():
            dtype = getattr(torch, name, None)
            if isinstance(dtype, torch.dtype):
                DTYPES[dtype] = short
        guard = torch._C.DisableTorchFunction
        has_torch_modes = torch._C._len_torch_function_stack
        tensors.update((torch.Tensor, torch.nn.Parameter))
    return torch


def torch_guard() -> contextlib.AbstractContextManager[object]:
    """Return a context in which torch neither intercepts nor records the reading of a tensor's attributes."""
    if not tensors and "torch" in sys.modules:
        load_torch()
    return guard()


def torch_modes() -> Callable[[], object]:
    """Return a function that tests whether torch may intercept calls, so that :func:`torch_guard` is needed."""
    torch = load_torch()
    return _always if torch is None else torch._C._len_torch_function_stack


def _always() -> bool:
    return True


def describe(value: object) -> tuple[Key, Packed]:
    """Return the key and the packed value of an argument that is not constant by annotation.

    Raises:
        TypeError: An argument of this type cannot be passed.
    """
    found = _PLAIN.get(type(value))
    if found is not None:
        return found(value)
    torch = load_torch()
    if torch is not None and isinstance(value, torch.Tensor):
        tensor: Tensor = value
        with guard():
            key = tensor.dtype if tensor.is_cpu else (tensor.dtype, DEVICE)
            return key, tensor.data_ptr()
    if isinstance(value, np.ndarray):
        return _array(value)
    if isinstance(value, tuple):
        pairs = [describe(item) for item in value]
        return (type(value), *(k for k, _ in pairs)), tuple(v for _, v in pairs)
    for kind, take in ((np.bool_, bool), (np.integer, int), (np.floating, float)):
        if isinstance(value, kind):
            return describe(take(value))
    return _foreign(value)


def check_on_host(key: Key, value: Any) -> None:
    """Check that an argument, or what it consists of, is not in the memory of a GPU.

    Args:
        key: Its key.
        value: The argument.

    Raises:
        ValueError: It is.
    """
    if isinstance(key, DescriptorKey):
        check_on_host(key.base, value.base)
    elif isinstance(key, tuple) and key[-1] is DEVICE:
        place = getattr(value, "device", "a device")
        raise ValueError(
            "a tensor argument must be in host memory (or on an emulated device) unless "
            f"backend='cuda', but got one on {place}"
        )
    elif isinstance(key, tuple) and isinstance(key[0], type) and isinstance(value, tuple):
        for of_item, item in zip(key[1:], value, strict=True):
            check_on_host(of_item, item)


def integer_key(value: int) -> str:
    """Return the type of an int argument: the smallest of i32, i64, u64 that holds it.

    Raises:
        OverflowError: The integer does not fit into 64 bits.
    """
    if value in _I32:
        return "i32"
    if value in _I64:
        return "i64"
    if value in _U64:
        return "u64"
    raise OverflowError(f"an integer argument must fit into 64 bits, but got {value}")


def _integer(value: int) -> tuple[Key, Packed]:
    return (1, 1) if value == 1 else (integer_key(value), value)


# Of an ndarray object: the data pointer follows the object's head, as in NumPy's C API.
_DATA = object.__basicsize__
_word_at = ctypes.c_size_t.from_address


def _array(value: NDArray[Any]) -> tuple[Key, Packed]:
    key = value.dtype if value.flags.writeable else (value.dtype, "read-only")
    return key, _word_at(id(value) + _DATA).value


def address_of(array: NDArray[Any]) -> int:
    """Return the address of an array's first element."""
    return _word_at(id(array) + _DATA).value


_PLAIN: dict[type, Callable[[Any], tuple[Key, Packed]]] = {
    int: _integer,
    bool: lambda value: ("i1", value),
    float: lambda value: ("fp32", value),
    type(None): lambda value: (None, 0),
    np.ndarray: _array,
}


def register(kind: type, take: Callable[[Any], tuple[Key, Packed]]) -> None:
    """Make instances of a class arguments.

    Args:
        kind: The class.
        take: Returns the key and the packed value of an instance.
    """
    _PLAIN[kind] = take


def _foreign(value: Tensor) -> tuple[Key, Packed]:
    """Describe an object of another library by one of the protocols for memory."""
    for kind in type(value).__mro__:
        if kind in _PLAIN:
            # As a plain number: `in` of a range looks at each of its members for an instance of a subclass.
            plain: Any = kind(value) if kind in (int, float) else value
            return _PLAIN[kind](plain)
    if isinstance(value, type):  # it has its instances' protocols, but no memory
        return _without_memory(value)
    interface = getattr(value, "__array_interface__", None)
    if interface is not None:
        address, read_only = interface["data"]
        dtype = np.dtype(interface["typestr"])
        if dtype.kind == "V":  # a dtype of ml_dtypes, whose name the interface does not have
            dtype = np.dtype(value.dtype)
        return ((dtype, "read-only") if read_only else dtype), address
    if hasattr(value, "data_ptr") and hasattr(value, "dtype"):
        with guard():
            return _key_of(value.dtype), value.data_ptr()
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is not None:
        return (np.dtype(interface["typestr"]), DEVICE), interface["data"][0]
    if hasattr(value, "__dlpack__"):
        return _dlpack(value)
    return _without_memory(value)


def _without_memory(value: object) -> tuple[Key, Packed]:
    """Describe an object that is a constant."""
    if isinstance(value, JITCallable) or dtype_name(value) is not None:
        return _Constant(constant_key(value)), 0
    if type(value).__name__ == "constexpr":
        return _Constant(constant_key(value)), 0
    if isinstance(value, str):
        return _Constant(value), 0
    raise TypeError(
        f"an argument of a kernel must be a tensor, an array, a number or a tuple of these, but got "
        f"{type(value).__name__} {value!r:.60}"
    )


@dataclass(frozen=True, slots=True)
class _Constant:
    """Key of an argument that is constant although its parameter is not annotated as one."""

    key: Key


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


_DLPACK_CUDA = 2
_DLPACK_KINDS = {0: "i", 1: "u", 2: "fp", 4: "bf"}


def _dlpack(value: Tensor) -> tuple[Key, Packed]:
    """Read a DLPack capsule and drop it; the object itself keeps the memory alive."""
    capsule = value.__dlpack__()
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _DLTensor.from_address(get(capsule, b"dltensor"))
    if tensor.device_type not in (1, 2, 3, 11):  # the CPU, CUDA, and host memory known to a GPU
        raise ValueError(
            "a DLPack argument must be in host memory or on a CUDA device, but got device type "
            f"{tensor.device_type}"
        )
    name = "i1" if tensor.code == 6 else f"{_DLPACK_KINDS.get(tensor.code, '?')}{tensor.bits}"
    if name not in SCALARS or tensor.lanes != 1:
        raise TypeError(
            f"a DLPack argument must have a dtype that kernels know, but got code {tensor.code}, "
            f"{tensor.bits} bits, {tensor.lanes} lanes"
        )
    key = (f"*{name}", DEVICE) if tensor.device_type == _DLPACK_CUDA else f"*{name}"
    return key, (tensor.data or 0) + tensor.byte_offset


def dtype_name(dtype: Any) -> str | None:
    """Return how a signature spells a dtype of NumPy, torch or ``triton.language``; None for others."""
    with contextlib.suppress(TypeError):
        found = DTYPES.get(dtype)
        if found is not None:
            return found
    if hasattr(dtype, "primitive_bitwidth") and not hasattr(dtype, "element_ty"):
        return str(dtype.name) if dtype.name in SCALARS else _NAMES.get(dtype.name, dtype.name)
    text = str(dtype)
    if text.startswith("torch.") and text[6:] in _NAMES:
        return _NAMES[text[6:]]
    with contextlib.suppress(TypeError):
        if isinstance(dtype, type) and issubclass(dtype, np.generic):
            return DTYPES.get(np.dtype(dtype))
    return None


def _pointer_to(dtype: object) -> str:
    """Return how a signature spells a pointer to a dtype.

    Raises:
        TypeError: Kernels do not know the dtype.
    """
    name = dtype_name(dtype)
    if name is None:
        raise TypeError(f"dtype must be one that kernels know, but got {dtype!r}")
    return f"*{name}"


def _key_of(dtype: Any) -> Key:
    """Return the key of a pointer to a dtype: that of a tensor of torch with it, where torch has it.

    Raises:
        TypeError: Kernels do not know the dtype.
    """
    spelled = _pointer_to(dtype)
    with contextlib.suppress(TypeError):
        if dtype in DTYPES and not isinstance(dtype, (np.dtype, type)):
            key: Key = dtype
            return key
    return spelled


def pointer_spelling(key: Any) -> str | None:
    """Return how a signature spells the pointer that a key means; None of a key of anything but a tensor."""
    if isinstance(key, tuple) and len(key) == 2 and key[1] in ("read-only", DEVICE):
        key = key[0]
    if isinstance(key, str):
        return key if key.startswith("*") else None
    name = None if isinstance(key, (tuple, _Constant)) else dtype_name(key)
    return None if name is None else f"*{name}"


def constant_key(value: Any) -> Key:
    """Return a hashable key of a compile-time value: equal keys mean the same code.

    Raises:
        TypeError: The value is not hashable, so equal values cannot be found.
    """
    kind = type(value)
    if kind is int or kind is str or kind is bool or value is None:
        return kind, value
    if kind is float:
        return kind, value.hex()  # 0.0 and -0.0 are equal
    if kind.__name__ == "constexpr":
        return constant_key(value.value)
    if isinstance(value, JITCallable):
        return kind, value, value.cache_key  # its source may be replaced
    if isinstance(value, (tuple, list)):
        return (kind, *map(constant_key, value))
    try:
        hash(value)
    except TypeError:
        raise TypeError(
            f"a constexpr argument must be hashable, but got {kind.__name__} {value!r:.60}"
        ) from None
    return kind, value


class DescriptorKey(NamedTuple):
    """Key of a tensor descriptor.

    Attributes:
        base: Key of its tensor.
        block_shape: Extents of its blocks.
        padding: ``"zero"`` or ``"nan"``.
        rounds: Whether loads round fp32 to TF32.
    """

    base: Key
    block_shape: tuple[int, ...]
    padding: str
    rounds: bool


class Specialised(NamedTuple):
    """Meaning of one argument for the kernel that is built.

    Attributes:
        type: Its spelling in a signature (``*fp32``, ``i32``, ``constexpr``), or a tuple of these.
        value: The constant, or a tuple with the constants at their places.
        read_only: Whether its memory must not be written.
    """

    type: TypeSpelling
    value: object = None
    read_only: bool = False


CONSTANT = "constexpr"


def specialise(param: KernelParam, value: object, on_device: bool = False) -> Specialised:
    """Return the meaning of an argument for a parameter.

    Args:
        param: The parameter.
        value: The argument.
        on_device: Whether its memory may be that of a GPU.

    Raises:
        TypeError: An argument of this type cannot be passed.
        ValueError: Its memory is that of a GPU.
        OverflowError: An integer does not fit into 64 bits, or into the annotated type.
    """
    if param.is_constexpr:
        constant = plain_value(value)
        return Specialised(CONSTANT, tuple(constant) if isinstance(constant, list) else constant)
    key, _ = describe(value)
    if not on_device:
        check_on_host(key, value)
    annotated = annotated_scalar(param)
    if annotated is not None and key is not None and not isinstance(value, tuple):
        check_annotated(param.name, annotated, value)
        return Specialised(annotated)
    found = _meaning(key, value, param.do_not_specialize)
    if isinstance(found.type, str) and found.type.startswith("*"):
        if param.annotation_type and param.annotation.startswith("*"):
            return Specialised(param.annotation, read_only=found.read_only)
        if param.is_const or param.annotation == "const":
            return Specialised(f"*k{found.type[1:]}", read_only=found.read_only)
    return found


def annotated_scalar(param: KernelParam) -> str | None:
    """Return the type that a parameter's annotation gives a number, if it gives one."""
    if param.annotation_type and not param.annotation.startswith("*"):
        return param.annotation_type
    return None


def check_annotated(name: str, type_: str, value: object) -> None:
    """Check a number that is given for a parameter whose type is known: annotated, or compiled for.

    Raises:
        TypeError: The value is not a number.
        OverflowError: The value does not fit into the type.
    """
    if isinstance(value, (bool, np.bool_)):
        return
    if BY_SPELLING[type_].is_float:
        if not isinstance(value, (int, float, np.integer, np.floating)):
            raise TypeError(f"{name} must be a number, but got {type(value).__name__}")
        return
    if not isinstance(value, (int, np.integer)):
        raise TypeError(
            f"{name} must be an integer, as its type is {type_}, but got {type(value).__name__}"
        )
    low, high = bounds(type_)
    if not low <= value <= high:
        raise OverflowError(f"{name} must fit into its type, {type_}, but got {value}")


def bounds(type_: str) -> tuple[int, int]:
    """Return the least and the greatest integer of a type; of floats, those that fp32 holds exactly."""
    if BY_SPELLING[type_].is_float:
        return -(1 << 24), 1 << 24
    bits = BY_SPELLING[type_].bits
    if type_[0] == "u" or bits == 1:
        return 0, (1 << bits) - 1
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def _meaning(key: Key, value: Any, keep_values: bool) -> Specialised:
    if key is None:
        return Specialised(CONSTANT, None)
    if isinstance(key, _Constant):
        return Specialised(CONSTANT, plain_value(value))
    if isinstance(key, int):
        return Specialised("i32") if keep_values else Specialised(CONSTANT, 1)
    if isinstance(key, str):
        return Specialised(key)
    if isinstance(key, DescriptorKey):
        return _descriptor_meaning(key)
    if isinstance(key, tuple):
        if isinstance(key[0], type):
            parts = [_meaning(k, v, keep_values) for k, v in zip(key[1:], value, strict=True)]
            named = getattr(key[0], "_make", tuple)
            return Specialised(
                named(p.type for p in parts),
                tuple(p.value for p in parts),
                any(p.read_only for p in parts),
            )
        if key[1] is DEVICE:
            return Specialised(pointer_spelling(key) or _pointer_to(key[0]))
        return Specialised(_pointer_to(key[0]), read_only=True)
    return Specialised(_pointer_to(key))


def _descriptor_meaning(key: DescriptorKey) -> Specialised:
    from emu.triton.language.descriptors import spelling

    pointer = pointer_spelling(key.base)
    if pointer is None:
        raise TypeError("base of a tensor descriptor must be a tensor or array")
    base, element = _meaning(key.base, None, False), pointer.removeprefix("*")
    spelled = spelling(element, key.block_shape, key.padding, key.rounds)
    return Specialised(spelled, read_only=base.read_only)


def width(type_: TypeSpelling) -> int:
    """Return the number of a kernel's arguments that a type stands for."""
    if isinstance(type_, tuple):
        return sum(map(width, type_))
    if type_.startswith("tensordesc<"):
        return len(str_to_ty(type_).part_types())
    return int(type_ != CONSTANT)
