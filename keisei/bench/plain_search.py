"""The obvious tree search: Python objects, one leaf and one call of the network at a time.

It is what `keisei bench search` compares with: the same network, the same formula, the rules
through `ShogiGame`. It has no mate search, and so fewer things to do at a leaf.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from keisei.core.legal_policy import legal_policy
from keisei.core.ppo_agent import PPOAgent
from keisei.play.search_tree import Selection
from keisei.shogi.shogi_game import ShogiGame


class PlainNode:
    """A position of the tree; its children are made when they are first tried."""

    def __init__(self, prior: float) -> None:
        self.prior = prior
        self.visits = 0
        self.value_sum = 0.0
        self.children: dict[int, PlainNode] = {}

    @property
    def value(self) -> float:
        """The mean of all visits, for the mover."""
        return self.value_sum / self.visits


class PlainSearch:
    """PUCT over the policy and value of a network."""

    def __init__(self, agent: PPOAgent, selection: Selection | None = None) -> None:
        self._agent = agent
        self._selection = selection or Selection()

    def search(self, game: ShogiGame, nodes: int) -> PlainNode:
        """The root of a tree of so many visits."""
        root = PlainNode(1.0)
        for _ in range(nodes):
            self._visit(root, game.copy())
        return root

    def _visit(self, root: PlainNode, game: ShogiGame) -> None:
        path = [root]
        while path[-1].children:
            action, child = self._best_child(path[-1])
            game.make_move(action)
            path.append(child)
        value = self._value_of_leaf(path[-1], game)
        for node in reversed(path):
            node.visits += 1
            node.value_sum += value
            value = -value

    def _best_child(self, node: PlainNode) -> tuple[int, PlainNode]:
        selection = self._selection
        growth = math.log((node.visits + selection.exploration_base) / selection.exploration_base)
        explore = (selection.exploration + growth) * math.sqrt(node.visits)
        tried = sum(child.prior for child in node.children.values() if child.visits)
        unvisited = node.value - selection.unvisited_discount * math.sqrt(tried)

        def score(item: tuple[int, PlainNode]) -> tuple[float, float, int]:
            action, child = item
            value = -child.value if child.visits else unvisited
            return value + explore * child.prior / (1 + child.visits), child.prior, -action

        return max(node.children.items(), key=score)

    def _value_of_leaf(self, node: PlainNode, game: ShogiGame) -> float:
        """The result of a game that is over, else what the network says; makes the children."""
        outcome = game.outcome()
        if outcome is not None:
            if outcome.winner is None:
                return 0.0
            return 1.0 if outcome.winner == game.mover else -1.0
        actions = game.legal_actions()
        priors, value = self._ask(game, actions)
        node.children = {
            action: PlainNode(prior) for action, prior in zip(actions, priors, strict=True)
        }
        return value

    @torch.inference_mode()
    def _ask(self, game: ShogiGame, actions: list[int]) -> tuple[list[float], float]:
        device = self._agent.device
        position = torch.from_numpy(game.compact_position()[np.newaxis]).to(device)
        logits, values = self._agent.model(position)
        legal = torch.tensor([actions], device=device)
        policy = legal_policy(logits, legal, torch.tensor([len(actions)], device=device))
        priors: list[float] = policy.log_probs[0].exp().tolist()
        return priors, float(values[0])
