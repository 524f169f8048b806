"""`ObservationSpec`: what an agent sees of the world."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from keisei.gridworld.entity import Entity
from keisei.gridworld.errors import WorldError
from keisei.gridworld.map_kernels import (
    colour_windows,
    count_in_all_windows,
    count_in_windows,
)

if TYPE_CHECKING:
    from keisei.gridworld.agent import Agent
    from keisei.gridworld.world import World

Features = Callable[["World", "Agent"], NDArray[np.float32]]
RGB_CHANNELS = 3


class ObservationSpec:
    """A window around the agent, or the whole map, as numbers from 0 up.

    kinds: what the agent can tell apart; of other things it sees nothing. window: rows and columns
    of the square around the agent, an odd number; None shows the whole map. form: "one_hot" has a
    channel for each kind, which counts it over the layers; "rgb" shows colours from 0 to 1, the
    topmost thing in each cell. outside: how it looks beyond the map; None is nothing. features:
    a function (world, agent) -> [B, feature_count] of what else the agent knows.
    """

    def __init__(
        self,
        world: World,
        kinds: Sequence[type[Entity]],
        *,
        window: int | None = None,
        form: Literal["one_hot", "rgb"] = "one_hot",
        outside: type[Entity] | None = None,
        features: Features | None = None,
        feature_count: int = 0,
    ) -> None:
        if window is not None and (window < 1 or window % 2 == 0):
            raise WorldError(f"A window has an agent in its middle: its size is odd, not {window}.")
        if form not in ("one_hot", "rgb"):
            raise WorldError(f"An observation is 'one_hot' or 'rgb', not {form!r}.")
        if outside is not None and outside not in world.kinds:
            raise WorldError(
                f"{outside.__name__}, which is to be seen beyond the map, is not a kind of this "
                "world: name one as `outside`, or None."
            )
        if (features is None) != (feature_count == 0):
            raise WorldError(
                "Features need a function and their number, feature_count; or neither."
            )
        self._form, self._features, self._feature_count = form, features, feature_count
        self._radius = None if window is None else window // 2
        self._channels = np.full(len(world.kinds), -1, np.int64)
        self._channels[world.numbers_of(kinds).astype(np.int64)] = np.arange(len(kinds))
        self._outside = -1 if outside is None or outside not in kinds else kinds.index(outside)
        self._colours = np.array([kind.colour for kind in world.kinds], np.float32) / 255
        self._colour_outside = np.array(outside.colour if outside else (0, 0, 0), np.float32) / 255
        channels = len(kinds) if form == "one_hot" else RGB_CHANNELS
        sides = (world.height, world.width) if window is None else (window, window)
        self.image_shape = (channels, *sides)
        """Channels, rows and columns of the picture that an observation begins with."""
        self._pixels = int(np.prod(self.image_shape))
        self.highest = float(world.layers) if form == "one_hot" else 1.0
        """No number of the picture is above it."""

    @property
    def shape(self) -> tuple[int]:
        """Of one observation: the picture, end to end, then the features."""
        return (self._pixels + self._feature_count,)

    def observe(self, world: World, agent: Agent) -> NDArray[np.float32]:
        """[B, *shape] what the agent sees in each copy; of its window only, so it is fast."""
        seen = np.zeros((world.copies, *self.shape), np.float32)
        if self._radius is None:
            seen[:, : self._pixels] = self._whole_map(world)
        else:
            self._look_around(world, agent, seen)
        self._add_features(world, agent, seen)
        return seen

    def observe_all(self, world: World, agents: Sequence[Agent]) -> NDArray[np.float32]:
        """[N, B, *shape] what `observe` gives for each of these agents, in order of numbers."""
        if self._radius is None or self._form != "one_hot":
            return np.stack([self.observe(world, agent) for agent in agents])
        seen = np.zeros((len(agents), world.copies, *self.shape), np.float32)
        places, rows, columns = world.agents, world.agents.rows, world.agents.columns
        if len(agents) != len(places):
            numbers = [agent.number for agent in agents]
            rows, columns = rows[numbers], columns[numbers]
        where = (world.map, rows, columns, self._radius)
        count_in_all_windows(*where, self._channels, self._outside, seen)
        if self._features is not None:
            for agent, its_view in zip(agents, seen, strict=True):
                self._add_features(world, agent, its_view)
        return seen

    def _add_features(self, world: World, agent: Agent, seen: NDArray[np.float32]) -> None:
        if self._features is None:
            return
        features = np.asarray(self._features(world, agent), np.float32)
        if features.shape != (world.copies, self._feature_count):
            raise WorldError(
                f"Features must be [copies, feature_count] = [{world.copies}, "
                f"{self._feature_count}], and they are {list(features.shape)}."
            )
        seen[:, self._pixels :] = features

    def _look_around(self, world: World, agent: Agent, seen: NDArray[np.float32]) -> None:
        places, number = world.agents, agent.number
        where = (world.map, places.rows[number], places.columns[number], self._radius)
        if self._form == "one_hot":
            count_in_windows(*where, self._channels, self._outside, seen)
        else:
            colour_windows(*where, self._colours, self._colour_outside, seen)

    def _whole_map(self, world: World) -> NDArray[np.float32]:
        """[B, C * H * W]: the window whose middle is the middle of the map, without its excess."""
        if self._form == "rgb":
            top = world.map[..., 0].copy()
            for layer in range(1, world.layers):
                above = world.map[..., layer]
                np.copyto(top, above, where=above != 0)
            image = self._colours[top].transpose(0, 3, 1, 2)
        else:
            numbers = np.arange(self.image_shape[0])[:, np.newaxis, np.newaxis, np.newaxis]
            same = self._channels[world.map][:, np.newaxis] == numbers
            image = same.sum(axis=-1, dtype=np.float32)
        return np.ascontiguousarray(image, np.float32).reshape(world.copies, -1)
