"""Messages as bytes: named arrays and scalars, checked before anything is allocated."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard, cast

import msgpack  # pyright: ignore[reportMissingTypeStubs]
import numpy as np
import numpy.typing as npt

from ..data import foreign
from ..errors import WireError

Scalar = bool | int | float | str | None
Buffer = bytes | bytearray | memoryview

VERSION = 1
LARGEST_MESSAGE = 1 << 30
_LARGEST_COUNT = 64
LARGEST_TEXT = 4096
_LARGEST_NDIM = 4
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_DTYPES = {name: np.dtype(name) for name in ("<f8", "<f4", "<i8", "<i4", "|u1", "|b1")}


@dataclass(frozen=True)
class Message:
    """One message: its type, its kind, and named scalars and arrays."""

    type: str
    kind: str
    scalars: Mapping[str, Scalar] = field(default_factory=dict[str, Scalar])
    arrays: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict[str, npt.NDArray[Any]])


# msgpack has no type stubs.
_PACK = cast("Callable[..., bytes]", getattr(msgpack, "packb"))  # noqa: B009
_PACKER = cast("Callable[[], Any]", getattr(msgpack, "Packer"))  # noqa: B009


def pack(body: object) -> bytes:
    """Turn plain maps, lists, numbers, texts and bytes into msgpack."""
    return _PACK(body, use_bin_type=True)


def pack_parts(body: object) -> Iterator[Buffer]:
    """Yield what ``pack`` returns, large bytes as they are: msgpack would copy them twice."""
    if isinstance(body, dict):
        fields = cast("dict[object, object]", body)
        yield _PACKER().pack_map_header(len(fields))
        for key, value in fields.items():
            yield pack(key)
            yield from pack_parts(value)
    elif isinstance(body, list):
        items = cast("list[object]", body)
        yield _PACKER().pack_array_header(len(items))
        for item in items:
            yield from pack_parts(item)
    elif is_buffer(body) and len(body) > foreign.LARGE_BYTES:
        yield pack_head(len(body))
        yield body
    else:
        yield pack(body)


def make_buffer(size: int) -> memoryview:
    """Return new memory; of large amounts numpy has the system make it in large pages, at once."""
    return np.empty(size, np.uint8).data


def join(parts: Iterable[Buffer]) -> Buffer:
    """Return one buffer with all parts."""
    views = [memoryview(part) for part in parts]
    size = sum(view.nbytes for view in views)
    if size <= foreign.LARGE_BYTES:
        return b"".join(views)
    joined, end = make_buffer(size), 0
    for view in views:
        start, end = end, end + view.nbytes
        joined[start:end] = view
    return joined.toreadonly()


def pack_head(size: int) -> bytes:
    """Return what msgpack writes before so many bytes, which is the same for few and many."""
    return b"\xc6" + size.to_bytes(4, "big")


def unpack(data: Buffer, *, flat: bool = False, views: bool = False) -> object:
    """Read msgpack; anything malformed is a ``WireError``.

    With ``flat`` it has no more entries than a message: 64 arrays have 9 values each. With
    ``views`` large bytes are views of ``data``, and not copied.
    """
    limits = {"nodes": _LARGEST_COUNT**2, "longest": _LARGEST_COUNT} if flat else {}
    return foreign.unpack(
        data,
        lambda why: WireError(
            f"the bytes are not a message ({why}). Send the question again, with the same "
            "silot on both sides.",
            code="wire-format",
        ),
        views=views,
        **limits,
    )


def encode(message: Message) -> bytes:
    """Turn a message into bytes (msgpack; arrays as dtype, shape and raw little-endian data)."""
    arrays: dict[str, object] = {}
    for name, value in message.arrays.items():
        array = np.ascontiguousarray(value)
        dtype = array.dtype.newbyteorder("<").str
        if dtype not in _DTYPES:
            raise WireError(
                f"array {name!r} has dtype {array.dtype}; only {', '.join(_DTYPES)} may travel.",
                code="wire-dtype",
            )
        numbers = array.astype(dtype, copy=False).reshape(-1)
        arrays[name] = [dtype, list(array.shape), numbers.view(np.uint8).data]
    body = {
        "version": VERSION,
        "type": message.type,
        "kind": message.kind,
        "scalars": dict(message.scalars),
        "arrays": arrays,
    }
    is_large = any(array.nbytes > foreign.LARGE_BYTES for array in message.arrays.values())
    packed = b"".join(pack_parts(body)) if is_large else pack(body)
    if len(packed) > LARGEST_MESSAGE:
        raise WireError(
            f"a message of {len(packed)} bytes exceeds the limit of {LARGEST_MESSAGE}. Use a "
            "smaller support or fewer records.",
            code="wire-size",
        )
    return packed


def decode(data: Buffer, *, largest: int = LARGEST_MESSAGE, align: bool = True) -> Message:
    """Read a message, trusting nothing: size, structure, names, dtypes and shapes are checked.

    Arrays are read-only, and views of ``data`` where they lie as compiled code needs it: numbers
    at multiples of their size. Without ``align``, which spares copies, they are always views.
    """
    if len(data) > largest:
        raise WireError(
            f"a message of {len(data)} bytes exceeds the limit of {largest}.", code="wire-size"
        )
    parts = _mapping(unpack(data, flat=True, views=True), "message")
    if parts.get("version") != VERSION:
        raise WireError(
            f"the message is of version {parts.get('version')!r}, this is version {VERSION}. "
            "Install the same silot on both sides.",
            code="wire-version",
        )
    type_, kind = parts.get("type"), parts.get("kind")
    if not isinstance(type_, str) or not isinstance(kind, str) or len(kind) > LARGEST_TEXT:
        raise WireError("the message has no type and kind.", code="wire-format")
    scalars = {
        _name(name): _scalar(value)
        for name, value in _mapping(parts.get("scalars"), "scalars").items()
    }
    arrays = {
        _name(name): _array(value, align)
        for name, value in _mapping(parts.get("arrays"), "arrays").items()
    }
    return Message(type_, kind, scalars, arrays)


def _mapping(value: object, what: str) -> dict[object, object]:
    if not isinstance(value, dict) or len(cast("dict[object, object]", value)) > _LARGEST_COUNT:
        raise WireError(
            f"the {what} is not a map of at most {_LARGEST_COUNT} entries.", code="wire-format"
        )
    return cast("dict[object, object]", value)


def is_buffer(value: object) -> TypeGuard[Buffer]:
    """Return whether a value is bytes, or a view of some."""
    return isinstance(value, bytes | bytearray | memoryview)


def _name(value: object) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise WireError("a field name is not a lower-case identifier.", code="wire-format")
    return value


def _scalar(value: object) -> Scalar:
    if isinstance(value, str) and len(value) > LARGEST_TEXT:
        raise WireError(f"a text is longer than {LARGEST_TEXT} characters.", code="wire-size")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise WireError("a scalar is not a number, text or null.", code="wire-format")


def _extents(value: object) -> list[int]:
    shape = cast("list[object]", value) if isinstance(value, list) else [None]
    extents = [
        size for size in shape if isinstance(size, int) and not isinstance(size, bool) and size >= 0
    ]
    if not len(extents) == len(shape) <= _LARGEST_NDIM:
        raise WireError("an array has a shape that is not sizes.", code="wire-shape")
    return extents


def _array(value: object, align: bool) -> npt.NDArray[Any]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    if len(items) != 3:
        raise WireError("an array is not [dtype, shape, data].", code="wire-format")
    dtype_name, shape, data = items
    if not isinstance(dtype_name, str) or dtype_name not in _DTYPES:
        raise WireError(f"an array has a dtype other than {', '.join(_DTYPES)}.", code="wire-dtype")
    extents = _extents(shape)
    dtype = _DTYPES[dtype_name]
    if not is_buffer(data) or len(data) != math.prod(extents) * dtype.itemsize:
        raise WireError("an array's data do not fill its shape.", code="wire-shape")
    array = np.frombuffer(data, dtype=dtype)
    if align and not array.flags.aligned:
        array = array.copy()
        array.flags.writeable = False
    return array.reshape(extents)
