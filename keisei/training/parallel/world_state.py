"""A game's state as one array of bytes, which a slot can hold.

A JSON header says what follows: the arrays, end to end. The state of 16 agents took 5.6 ms as a zip
archive, a tenth of their epoch in one copy, and 2.3 so.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LENGTH = struct.Struct("<Q")


def pack_state(arrays: Mapping[str, NDArray[Any]], values: Mapping[str, Any]) -> NDArray[np.uint8]:
    """[n] bytes of what `Game.state` gave."""
    kinds = [(name, array.dtype.str, array.shape) for name, array in arrays.items()]
    header = json.dumps({"values": values, "arrays": kinds}).encode()
    parts = [_LENGTH.pack(len(header)), header, *(array.tobytes() for array in arrays.values())]
    return np.frombuffer(b"".join(parts), np.uint8)


def unpack_state(packed: NDArray[np.uint8]) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """What was given to `pack_state`; ValueError if these bytes are something else."""
    data, arrays = packed.tobytes(), {}
    try:
        (length,) = _LENGTH.unpack_from(data)
        offset = _LENGTH.size + length
        header = json.loads(data[_LENGTH.size : offset])
        for name, kind, shape in header["arrays"]:
            array = np.frombuffer(data, kind, prod(shape), offset).reshape(shape)
            arrays[name] = array
            offset += array.nbytes
    except (struct.error, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"the state of a shard is damaged or of another version: {error}"
        ) from None
    return arrays, header["values"]
