"""The figures of a run: `metrics.jsonl`, TensorBoard events and, if asked for, Weights & Biases.

`metrics.jsonl` is the record that tools read; the other two are views of the same figures.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from keisei.config_schema import MetricsConfig

if TYPE_CHECKING:
    from wandb import Run

METRICS_FILE = "metrics.jsonl"
TENSORBOARD_FOLDER = "tensorboard"
WANDB_ID_FILE = "wandb_id.txt"

Values = Mapping[str, float | int]
_Sink = Callable[[int, Values], None]


class MetricsError(ValueError):
    """Figures that cannot be read, or a place for them that cannot be opened."""


class MetricsLog:
    """Writes the figures of each update to every place the settings name.

    `after_update` is the update of the checkpoint that a run resumes from. What a killed run wrote
    after that checkpoint is cut off, so that every update appears once. Weights & Biases cannot cut
    what it has: there the repeated updates appear twice.
    """

    def __init__(
        self,
        folder: Path,
        config: MetricsConfig,
        *,
        run_name: str,
        settings: dict[str, Any],
        after_update: int | None = None,
    ) -> None:
        path = folder / METRICS_FILE
        if after_update is None and path.exists():
            raise MetricsError(f"{path} exists already: resume that run or take another folder")
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as opened:
            # Weights & Biases first: it is what can be refused, and nothing is cut by then.
            sinks: list[_Sink] = []
            if config.wandb != "off":
                run = _start_wandb(folder, config.wandb, config.wandb_project, run_name, settings)
                sinks.append(_open_wandb(run, opened))
            if after_update is not None:
                _cut_after(path, after_update)
            sinks.append(_open_jsonl(path, opened))
            sinks.append(_open_tensorboard(folder, after_update, opened))
            self._sinks = sinks
            self._opened = opened.pop_all()

    def log(self, update: int, values: Values) -> None:
        """Write the figures of one update; `name/part` groups them in TensorBoard."""
        for sink in self._sinks:
            sink(update, values)

    def close(self) -> None:
        """Finish all files; Weights & Biases uploads what is left."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._opened.__exit__(kind, error, traceback)


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Every line of a `metrics.jsonl`, without a last one that was not written to its end."""
    return [entry for _, entry in _whole_lines(path)]


def _whole_lines(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    lines = path.read_bytes().splitlines()
    for number, line in enumerate(lines, start=1):
        try:
            entry = json.loads(line)
            entry["update"] + 0
        except (ValueError, TypeError, LookupError):
            if number == len(lines):
                return
            raise MetricsError(f"{path}: line {number} is not a line of metrics") from None
        yield line, entry


def _cut_after(path: Path, update: int) -> None:
    """Drop the lines of later updates and a torn last line; the file is replaced in one step."""
    if not path.exists():
        return
    kept = [line for line, entry in _whole_lines(path) if entry["update"] <= update]
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as file:
        file.writelines(line + b"\n" for line in kept)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _open_jsonl(path: Path, opened: ExitStack) -> _Sink:
    file = opened.enter_context(path.open("a", encoding="utf-8"))

    def write(update: int, values: Values) -> None:
        figures = {name: _strict(value) for name, value in values.items()}
        entry = {"update": update, "time": time.time(), **figures}
        file.write(json.dumps(entry, allow_nan=False) + "\n")
        file.flush()

    return write


def _strict(value: float | int) -> float | int | None:
    """A number that JSON has; NaN and the infinities are not among them."""
    if isinstance(value, int):
        return value
    return float(value) if math.isfinite(value) else None


def _open_tensorboard(folder: Path, after_update: int | None, opened: ExitStack) -> _Sink:
    from torch.utils.tensorboard.writer import SummaryWriter

    purge_step = None if after_update is None else after_update + 1
    writer = SummaryWriter(str(folder / TENSORBOARD_FOLDER), purge_step=purge_step)
    opened.callback(writer.close)

    def write(update: int, values: Values) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, update)
        writer.flush()  # a killed run must not lack what came before its checkpoint

    return write


def _start_wandb(
    folder: Path,
    mode: Literal["offline", "online"],
    project: str,
    run_name: str,
    settings: dict[str, Any],
) -> Run:
    try:
        import wandb
    except ImportError:
        raise MetricsError(
            "logging.wandb needs the package wandb: `pip install wandb`, or set it to off"
        ) from None
    try:
        # Silent, and without a copy of the terminal's output: the live display owns the terminal.
        wandb.setup(wandb.Settings(mode=mode, silent=True, console="off"))
        if mode == "online" and not wandb.login(prompt=False):
            raise MetricsError(
                "not logged in to Weights & Biases: run `wandb login`, or set logging.wandb to "
                "offline or off"
            )
        return wandb.init(
            project=project,
            name=run_name,
            id=_wandb_id(folder),
            resume="allow",
            dir=folder,
            config=settings,
            mode=mode,
        )
    except wandb.Error as error:
        reason = str(error).partition("\n")[0]
        raise MetricsError(
            f"Weights & Biases does not start ({reason}): mend that, or set logging.wandb to off"
        ) from error


def _open_wandb(run: Run, opened: ExitStack) -> _Sink:
    opened.push(lambda kind, error, traceback: run.finish(exit_code=int(kind is not None)))
    # Its own step may never go back, as it does on a resume: the update is the axis instead.
    run.define_metric("update")
    run.define_metric("*", step_metric="update")
    return lambda update, values: run.log({"update": update, **values})


def _wandb_id(folder: Path) -> str:
    """What makes a resumed run the same one there, kept beside the other files of the run."""
    path = folder / WANDB_ID_FILE
    if not path.exists():
        path.write_text(secrets.token_hex(8), encoding="utf-8")
    return path.read_text(encoding="utf-8")
