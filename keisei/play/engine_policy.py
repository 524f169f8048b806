"""`PolicySearch`: no search at all, only what the network thinks at first sight."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch

from keisei.core.legal_policy import legal_policy
from keisei.core.ppo_agent import PPOAgent
from keisei.play.engine_position import game_of
from keisei.play.searching import Limits, Line, SearchReport
from keisei.shogi.policy_output_mapper import PolicyOutputMapper
from keisei.shogi.shogi_game import ShogiGame

_VISITS = 1000


class PolicySearch:
    """A `Searcher` that looks at one position: its lines are single moves, by probability."""

    def __init__(self, agent: PPOAgent) -> None:
        self._agent = agent
        self._game = ShogiGame(max_moves=None)

    def set_position(self, sfen: str, moves: Sequence[str]) -> None:
        """The game to look at; a `ValueError` for one that cannot be played."""
        self._game = game_of(sfen, moves)

    def search(
        self,
        limits: Limits,
        *,
        lines: int = 1,
        report: Callable[[SearchReport], None] | None = None,
        report_every: float = 0.5,
    ) -> SearchReport:
        """The most probable moves; visits are thousandths of probability. It takes no time."""
        began = time.monotonic()
        actions = self._game.legal_actions()
        found = self._lines(actions, lines) if actions else ()
        seconds = time.monotonic() - began
        return SearchReport(found, nodes=1, seconds=seconds, depth=1, seldepth=1, hashfull=0)

    def clear(self) -> None:
        """There is nothing to forget."""

    @torch.no_grad()
    def _lines(self, actions: list[int], wanted: int) -> tuple[Line, ...]:
        device = self._agent.device
        logits, values = self._agent.answer(self._game.compact_position()[np.newaxis])
        legal, counts = torch.tensor([actions], device=device), torch.tensor([len(actions)])
        policy = legal_policy(logits.float(), legal, counts.to(device)).log_probs[0].exp()
        order = policy.argsort(descending=True, stable=True)[:wanted].tolist()
        return tuple(
            Line(
                (PolicyOutputMapper.move_of(actions[index], self._game.mover),),
                value=float(values[0]),
                visits=round(_VISITS * float(policy[index])),
            )
            for index in order
        )
