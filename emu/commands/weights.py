"""Read arrays from ``.npy`` and ``.safetensors`` files without trusting them.

The safetensors reader is written here, rather than taken from the package of that name, for two
reasons: it needs no further dependency, and NumPy has no bfloat16, so that the arrays must come as
``ml_dtypes.bfloat16``. A file is eight bytes that hold the length of the header (unsigned, little
endian), the header (JSON: tensor name to dtype, shape and byte range), and the tensors' bytes.
Every number in the header is checked against the file before a byte of the data is touched.

Arrays are read-only views of the mapped file: a model larger than memory can be opened, and only
what is used is read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

_DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype(np.uint8),
    "U16": np.dtype("<u2"),
    "U32": np.dtype("<u4"),
    "U64": np.dtype("<u8"),
    "I8": np.dtype(np.int8),
    "I16": np.dtype("<i2"),
    "I32": np.dtype("<i4"),
    "I64": np.dtype("<i8"),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
}
_MAX_HEADER = 100_000_000
_WEIGHT_DTYPES = (_DTYPES["F32"], _DTYPES["F16"], _DTYPES["BF16"])


class WeightFileError(ValueError):
    """A file of arrays is cut short, contradicts itself, or is of a kind that is not read."""


def read(path: str | Path) -> dict[str, Array]:
    """Read every array of a ``.npy`` or ``.safetensors`` file.

    Args:
        path: The file; its suffix says the format.

    Returns:
        Name to array, in the file's order; a ``.npy`` file's only array is named by its stem.

    Raises:
        WeightFileError: The suffix is another one, or the contents are not what the format says.
        OSError: The file cannot be opened.
    """
    path = Path(path)
    if path.suffix == ".npy":
        return {path.stem: _read_npy(path)}
    if path.suffix == ".safetensors":
        return read_safetensors(path)
    raise WeightFileError(
        f"{path}: the suffix must be .npy or .safetensors, but got {path.suffix!r}"
    )


def float_matrices(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Keep the non-empty matrices of fp32, fp16 or bf16.

    Args:
        arrays: Name to array.

    Returns:
        The 2-d arrays of those dtypes with at least one element, in the same order.
    """
    return {
        name: array
        for name, array in arrays.items()
        if array.ndim == 2 and array.size and array.dtype in _WEIGHT_DTYPES
    }


def read_safetensors(path: str | Path) -> dict[str, Array]:
    """Read a safetensors file.

    Args:
        path: The file.

    Returns:
        Name to read-only array, ordered by position in the file.

    Raises:
        WeightFileError: The header is not valid, or a tensor's dtype, shape and byte range do not
            agree with each other, with their neighbours or with the size of the file.
        OSError: The file cannot be opened.
    """
    path = Path(path)
    size = path.stat().st_size
    header, start = _header(path, size)
    entries = [
        _entry(path, name, fields) for name, fields in header.items() if name != "__metadata__"
    ]
    entries.sort(key=lambda entry: entry[3:])
    _check_ranges(path, entries, size - start)
    raw = (
        np.memmap(path, np.uint8, mode="r", offset=start) if size > start else np.empty(0, np.uint8)
    )
    return {
        name: np.asarray(raw[begin:end]).view(dtype).reshape(shape)
        for name, dtype, shape, begin, end in entries
    }


_Entry = tuple[str, np.dtype[Any], tuple[int, ...], int, int]


def _read_npy(path: Path) -> Array:
    try:
        # Unlike numpy.load this never unpickles and never takes the file for an archive.
        return np.asarray(np.lib.format.open_memmap(path, mode="r"))
    except (ValueError, TypeError, SyntaxError, EOFError) as error:
        raise WeightFileError(f"{path}: not a whole .npy file of plain numbers: {error}") from error


def _header(path: Path, size: int) -> tuple[dict[str, Any], int]:
    with path.open("rb") as file:
        prefix = file.read(8)
        if len(prefix) < 8:
            raise WeightFileError(f"{path}: must be at least 8 bytes long, but got {size}")
        length = int.from_bytes(prefix, "little")
        if length > min(size - 8, _MAX_HEADER):
            raise WeightFileError(
                f"{path}: the header must end within the file ({size} bytes) and be at most "
                f"{_MAX_HEADER} bytes long, but its length field says {length}"
            )
        text = file.read(length)
    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise WeightFileError(f"{path}: the header is not valid JSON: {error}") from error
    if not isinstance(header, dict):
        raise WeightFileError(
            f"{path}: the header must be a JSON object, but got {type(header).__name__}"
        )
    return header, 8 + length


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a name occurs twice")
    return result


def _entry(path: Path, name: str, fields: object) -> _Entry:
    where = f"{path}: tensor {name!r}"
    if not isinstance(fields, dict) or fields.keys() != {"dtype", "shape", "data_offsets"}:
        raise WeightFileError(f"{where}: must have exactly dtype, shape and data_offsets")
    code = fields["dtype"]
    dtype = _DTYPES.get(code) if isinstance(code, str) else None
    if dtype is None:
        raise WeightFileError(
            f"{where}: dtype must be one of {', '.join(_DTYPES)}, but got {code!r}"
        )
    shape = _counts(where, "shape", fields["shape"])
    offsets = _counts(where, "data_offsets", fields["data_offsets"])
    if len(offsets) != 2 or offsets[0] > offsets[1]:
        raise WeightFileError(
            f"{where}: data_offsets must be [begin, end], but got {list(offsets)}"
        )
    begin, end = offsets
    wanted = math.prod(shape) * dtype.itemsize
    if end - begin != wanted:
        raise WeightFileError(
            f"{where}: {code} of shape {list(shape)} must have {wanted} bytes, but got {end - begin}"
        )
    return name, dtype, shape, begin, end


def _counts(where: str, field: str, value: object) -> tuple[int, ...]:
    # `type(...) is int` because JSON's true and false would pass for 1 and 0.
    if not isinstance(value, list) or not all(type(item) is int and item >= 0 for item in value):
        raise WeightFileError(f"{where}: {field} must be a list of counts, but got {value!r}")
    return tuple(value)


def _check_ranges(path: Path, entries: list[_Entry], available: int) -> None:
    """Require that the byte ranges, in order, tile the data exactly: no hole and no overlap."""
    position = 0
    for name, _, _, begin, end in entries:
        if begin != position:
            raise WeightFileError(
                f"{path}: tensor {name!r}: must begin at byte {position} of the data, where the "
                f"tensor before it ends, but begins at {begin}"
            )
        position = end
    if position != available:
        raise WeightFileError(
            f"{path}: the tensors must fill the data exactly, but they need {position} bytes and "
            f"the file has {available}"
        )
