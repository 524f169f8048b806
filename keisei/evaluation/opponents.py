"""Players by name: `random`, `greedy`, `mix:P:OTHER`, `ab:D`, models, and engines."""

from __future__ import annotations

import re
from pathlib import Path

import torch

from keisei.evaluation.players import GreedyPlayer, MixPlayer, Player, RandomPlayer

SPECS = (
    "random, greedy, mix:P:OTHER, ab:DEPTH, usi:COMMAND?name=value&…, gnushogi:DEPTH, "
    "or the path of a model, alone or with :search=NODES"
)
_SEARCH = re.compile(r"(.+):search=([^:]*)")
_CPU = torch.device("cpu")


def make_player(spec: str, seed: int, device: torch.device = _CPU) -> Player:
    """The player that a specification names; `device` is where a model computes."""
    kind, _, rest = spec.partition(":")
    if spec == "random":
        return RandomPlayer(seed)
    if spec == "greedy":
        return GreedyPlayer(seed)
    if kind == "mix":
        return _mix(rest, seed, device)
    if kind == "ab":
        from keisei.evaluation.alpha_beta import AlphaBetaPlayer

        return AlphaBetaPlayer(_number(rest, spec, "ab:2"), seed)
    if kind in ("usi", "gnushogi"):
        return _engine(kind, rest, spec)
    return _model(spec, seed, device)


def _mix(text: str, seed: int, device: torch.device) -> Player:
    share, _, other = text.partition(":")
    try:
        probability = float(share)
    except ValueError:
        probability = -1.0
    if not 0 <= probability <= 1 or not other:
        raise ValueError(f"mix:{text} is not a probability and a player; write mix:0.25:greedy")
    return MixPlayer(probability, make_player(other, seed, device), seed)


def _engine(kind: str, rest: str, spec: str) -> Player:
    from keisei.evaluation.external_player import ExternalPlayer
    from keisei.evaluation.gnushogi_client import GnuShogiEngine
    from keisei.evaluation.usi_client import UsiEngine, parse_usi

    if kind == "usi":
        settings = parse_usi(rest)
        return ExternalPlayer(spec, lambda: UsiEngine(settings))
    depth = _number(rest, spec, "gnushogi:1")
    return ExternalPlayer(spec, lambda: GnuShogiEngine(depth))


def _model(spec: str, seed: int, device: torch.device) -> Player:
    from keisei.evaluation.model_player import ModelPlayer
    from keisei.training.trained_models import load_model

    path, nodes = _model_and_nodes(spec)
    agent = load_model(path, device)
    if nodes is None:
        return ModelPlayer(agent, spec)
    from keisei.play.search_player import SearchPlayer

    return SearchPlayer(agent, spec, nodes=nodes, seed=seed)


def _model_and_nodes(spec: str) -> tuple[Path, int | None]:
    """The path of a model and how many nodes it searches, None for no search."""
    search = _SEARCH.fullmatch(spec)
    path = Path(spec if search is None else search[1])
    if not path.exists():
        raise ValueError(f"unknown player {spec!r}; use {SPECS}")
    return path, None if search is None else _number(search[2], spec, f"{path}:search=800")


def _number(text: str, spec: str, example: str) -> int:
    """A whole number of at least 1."""
    if not re.fullmatch(r"[1-9]\d{0,8}", text):
        raise ValueError(f"{spec} needs a number of at least 1, as in {example}")
    return int(text)


def checkpoint_of(spec: str) -> str | None:
    """The checkpoint whose weights play; None for players without a model."""
    from keisei.training.trained_models import find_checkpoint

    kind, _, rest = spec.partition(":")
    if kind == "mix":
        return checkpoint_of(rest.partition(":")[2])
    if spec in ("random", "greedy") or kind in ("ab", "usi", "gnushogi"):
        return None
    return str(find_checkpoint(_model_and_nodes(spec)[0]).path)
