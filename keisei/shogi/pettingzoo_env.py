"""Shogi as a PettingZoo environment of two agents who take turns, "black" and "white"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from keisei.shogi.batch import COLOUR, IN_CHECK, OWN_HAND, THEIR_HAND
from keisei.shogi.features import feature_set
from keisei.shogi.judging import Declaration, Reason
from keisei.shogi.position import NUM_ACTIONS
from keisei.shogi.sfen import START_SFEN
from keisei.shogi.shogi_game import ShogiGame
from keisei.shogi.vector_shogi import VectorShogi

try:
    from gymnasium.spaces import Box, Dict, Discrete
    from pettingzoo import AECEnv
    from pettingzoo.utils import wrappers
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"Shogi as a PettingZoo environment needs {error.name}: pip install 'keisei[pettingzoo]'"
    ) from error

Observation = dict[str, NDArray[Any]]
Action = int | np.integer[Any]
COLOURS = ["black", "white"]
FEATURES = feature_set("core46")


def env(**arguments: Any) -> AECEnv:
    """`ShogiEnv`, in which who plays an illegal move loses the game."""
    judged = wrappers.TerminateIllegalWrapper(ShogiEnv(**arguments), illegal_reward=-1)
    return wrappers.OrderEnforcingWrapper(wrappers.AssertOutOfBoundsWrapper(judged))


class ShogiEnv(AECEnv[str, Observation, Action]):  # type: ignore[misc]
    """One game. Actions are the project's action numbers, see `PolicyOutputMapper`.

    An observation holds the `core46` planes [46, 9, 9] as that player sees the board and an
    "action_mask" [13527], which is all 0 for who is not to move. Winning is 1, losing -1; a game
    cut by `max_moves` is truncated. The last infos name the reason of the ending.
    """

    def __init__(
        self,
        *,
        max_moves: int = 512,
        declaration: Declaration = Declaration.OFF,
        start_sfen: str = START_SFEN,
        render_mode: str | None = None,
    ) -> None:
        if render_mode not in (None, "ansi"):
            raise ValueError(f"render_mode is 'ansi' or None, not {render_mode!r}")
        self.render_mode, self._start_sfen = render_mode, start_sfen
        self.metadata = {"name": "shogi_v0", "render_modes": ["ansi"], "is_parallelizable": False}
        self._games = VectorShogi(
            1, max_moves=max_moves, declaration=declaration, start_sfen=start_sfen, threads=1
        )
        self._actions: list[int] = []
        self.possible_agents = list(COLOURS)
        self.agents: list[str] = []
        self._observation_spaces = {colour: _observation_space() for colour in COLOURS}
        self._action_spaces = {colour: Discrete(NUM_ACTIONS) for colour in COLOURS}

    def observation_space(self, agent: str) -> Dict:
        """Planes and mask."""
        return self._observation_spaces[agent]

    def action_space(self, agent: str) -> Discrete:
        """All action numbers, of which the mask tells the legal ones."""
        return self._action_spaces[agent]

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> None:
        """Set up a game; shogi knows no chance, so a seed changes nothing."""
        self._games.reset()
        self._actions = []
        self._position = self._games.positions[0].copy()
        self.agents = list(COLOURS)
        self.agent_selection = COLOURS[self._games.mover[0]]
        self.rewards = dict.fromkeys(COLOURS, 0.0)
        self._cumulative_rewards = dict.fromkeys(COLOURS, 0.0)
        self.terminations = dict.fromkeys(COLOURS, False)
        self.truncations = dict.fromkeys(COLOURS, False)
        self.infos: dict[str, dict[str, Any]] = {colour: {} for colour in COLOURS}

    def observe(self, agent: str) -> Observation:
        """What a player sees; moves are legal only for who is to move in a game that goes on."""
        to_move = COLOURS[self._position[COLOUR]] == agent
        position = self._position if to_move else _from_the_other_side(self._position)
        planes = FEATURES.expand(torch.from_numpy(position[np.newaxis]))[0].numpy()
        mask = np.zeros(NUM_ACTIONS, np.int8)
        if to_move and not self._over:
            mask[self._games.legal[0, : self._games.legal_counts[0]]] = 1
        return {"observation": np.ascontiguousarray(planes), "action_mask": mask}

    @property
    def _over(self) -> bool:
        return any(self.terminations.values()) or any(self.truncations.values())

    def step(self, action: Action | None) -> None:
        """Play a move for `agent_selection`; None for a player whose game is over."""
        mover = self.agent_selection
        if self.terminations[mover] or self.truncations[mover]:
            self._was_dead_step(action)
            return
        if action is None:
            raise ValueError(f"{mover} is to move and needs an action")
        self._games.step([int(action)])
        self._actions.append(int(action))
        self._cumulative_rewards[mover] = 0.0
        self._clear_rewards()
        self.agent_selection = _opponent(mover)
        reason = Reason(self._games.reason[0])
        if reason != Reason.NONE:
            self._end(mover, reason)
        else:
            self._position = self._games.positions[0].copy()
        self._accumulate_rewards()

    def _end(self, mover: str, reason: Reason) -> None:
        """The game is over with the move that `mover` made; the batch has begun another one."""
        games = self._games
        self._position = games.final_positions[0].copy()
        self.rewards = {mover: float(games.result[0]), _opponent(mover): -float(games.result[0])}
        self.truncations = dict.fromkeys(COLOURS, bool(games.truncated[0]))
        self.terminations = dict.fromkeys(COLOURS, not games.truncated[0])
        self.infos = {colour: {"reason": reason.name.lower()} for colour in COLOURS}

    def render(self) -> str | None:
        """The board as text, hands beside it."""
        if self.render_mode is None:
            return None
        game = ShogiGame(self._start_sfen, max_moves=None)
        for action in self._actions:
            game.make_move(action)
        return str(game)

    def close(self) -> None:
        """Nothing is open."""


def _opponent(colour: str) -> str:
    return COLOURS[1 - COLOURS.index(colour)]


def _observation_space() -> Dict:
    planes = Box(0.0, 1.0, (FEATURES.num_planes, 9, 9), np.float32)
    return Dict({"observation": planes, "action_mask": Box(0, 1, (NUM_ACTIONS,), np.int8)})


def _from_the_other_side(position: NDArray[np.int8]) -> NDArray[np.int8]:
    """[100] the same position as the player sees it who is not to move."""
    turned = position.copy()
    turned[:OWN_HAND] = -position[OWN_HAND - 1 :: -1]
    turned[OWN_HAND:THEIR_HAND] = position[THEIR_HAND:COLOUR]
    turned[THEIR_HAND:COLOUR] = position[OWN_HAND:THEIR_HAND]
    turned[COLOUR] = 1 - position[COLOUR]
    turned[IN_CHECK] = 0
    return turned
