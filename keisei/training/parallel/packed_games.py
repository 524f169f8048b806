"""Games as workers hand them over: their arrays by name, the histories only as long as the games.

Of the 8.1 kB of a game in `GamesState` that is most: a rollout of 16 plies is 5 kB.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keisei.config_schema import Config
from keisei.shogi.histories import pack_history, unpack_history
from keisei.shogi.vector_shogi import HISTORY
from keisei.training.parallel.self_play import GamesState, games_state_layout

PackedGames = dict[str, NDArray[Any]]
"""As `GamesState`, but histories are [N], one game behind the other: `ply` + 1 numbers of each."""


def packed_layout(config: Config, games: int) -> list[tuple[str, Any, tuple[int, ...]]]:
    """(name, type, shape) of arrays with room for so many games, however long they are."""
    return [
        (name, kind, (int(np.prod(shape)),) if name in HISTORY else shape)
        for name, kind, shape in games_state_layout(config, games)
    ]


def pack_games(state: GamesState, room: Mapping[str, NDArray[Any]]) -> None:
    """Put games into arrays of `packed_layout`."""
    for name, array in state.items():
        if name not in HISTORY:
            room[name][:] = array
    for name in HISTORY:
        if name in state:
            pack_history(room["ply"], state[name], room[name])


def used_part(name: str, room: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """What of such an array belongs to the games."""
    if name not in HISTORY:
        return room[name]
    return room[name][: int(room["ply"].sum()) + len(room["ply"])]


def copy_of_games(room: Mapping[str, NDArray[Any]]) -> PackedGames:
    """The games in arrays of `packed_layout`, by themselves."""
    return {name: used_part(name, room).copy() for name in room}


def packed_games(state: GamesState) -> PackedGames:
    """The same from arrays as `SelfPlay.state` gives them."""
    room = {
        name: np.empty(array.size, array.dtype) if name in HISTORY else np.empty_like(array)
        for name, array in state.items()
    }
    pack_games(state, room)
    return copy_of_games(room)


def unpacked_games(games: PackedGames, max_moves: int) -> GamesState:
    """As `SelfPlay.load_state` takes them, with 0 behind the end of each history."""
    plies = games["ply"]
    if len(plies) and (plies.min() < 0 or plies.max() > max_moves):
        raise ValueError(f"the games are up to {plies.max()} plies long, allowed are {max_moves}")
    state = dict(games)
    for name in HISTORY:
        state[name] = np.zeros((len(plies), max_moves + 1), games[name].dtype)
        unpack_history(plies, games[name], state[name])
    return state
