"""`model_maker`: what the agents of a world decide with, by the name and settings of a config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from typing import Any

from pydantic import ValidationError

from keisei.core.iqn_model import IQNConfig, IQNModel
from keisei.core.ppo_model import PPOModel, PPOModelConfig
from keisei.gridworld.model import ModelMaker, RandomModel

_MODELS: dict[str, tuple[Any, Any]] = {
    "ppo": (PPOModel, PPOModelConfig),
    "iqn": (IQNModel, IQNConfig),
    "random": (RandomModel, None),
}
MODEL_KINDS = tuple(_MODELS)


def model_maker(kind: str, settings: Mapping[str, Any], *, device: str = "cpu") -> ModelMaker:
    """What makes a model of this kind, one of `MODEL_KINDS`, for each agent.

    Settings that are left out have the defaults of the kind's config class. device: where models
    that learn compute. A ValueError says in one sentence what is unknown or out of range.
    """
    if kind not in _MODELS:
        raise ValueError(f"there is no model {kind!r}; there are {', '.join(MODEL_KINDS)}")
    model, config_class = _MODELS[kind]
    known = [field.name for field in fields(config_class)] if config_class else []
    for name in settings:
        if name not in known:
            has = ", ".join(known) or "none"
            raise ValueError(f"the model {kind} has no setting {name!r}; it has {has}")
    maker: ModelMaker = model
    if config_class:
        maker = partial(model, config=_checked(kind, config_class, settings), device=device)
    return maker


def _checked(kind: str, config_class: Any, settings: Mapping[str, Any]) -> Any:
    try:
        return config_class(**settings)
    except ValidationError as error:
        first = error.errors()[0]
        what = f"{kind}.{'.'.join(map(str, first['loc']))} cannot be {first['input']!r}"
        raise ValueError(f"{what}: {first['msg'][0].lower()}{first['msg'][1:]}") from None
