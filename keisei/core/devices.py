"""Where networks compute."""

from __future__ import annotations

import torch


def pick_device(wanted: str) -> torch.device:
    """The device of a config; a GPU that is asked for and missing is an error."""
    available = torch.cuda.is_available()
    if wanted == "cuda" and not available:
        raise ValueError("device is cuda, but no GPU is available; use device=cpu or auto")
    return torch.device("cuda" if available and wanted != "cpu" else "cpu")
