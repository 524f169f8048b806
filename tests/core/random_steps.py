"""Steps full of random numbers, buffers filled with them, and what these must then hold."""

import numpy as np

from keisei.core.experience_buffer import ExperienceBuffer
from keisei.shogi.batch import POSITION_BYTES
from keisei.shogi.position import MAX_LEGAL_MOVES, NUM_ACTIONS

ONE_VALUE_A_STEP = {
    "actions": np.uint16,
    "log_probs": np.float32,
    "values": np.float32,
    "rewards": np.float32,
    "ends": np.bool_,
    "truncations": np.bool_,
    "cut_values": np.float32,
    "trains": np.bool_,
    "versions": np.int32,
}


def random_step(random, games, most_legal=40):
    """One step of all games, every array full of its own random numbers."""
    step = {
        name: random.integers(0, 2 if kind is np.bool_ else 1000, games).astype(kind)
        for name, kind in ONE_VALUE_A_STEP.items()
    }
    return {
        **step,
        "positions": random.integers(-128, 128, (games, POSITION_BYTES)).astype(np.int8),
        "legal": random.integers(0, NUM_ACTIONS, (games, MAX_LEGAL_MOVES)).astype(np.uint16),
        "legal_counts": random.integers(1, most_legal + 1, games).astype(np.int32),
    }


def of_games(step, games):
    """The part of a step that belongs to some of the games."""
    return {name: array[games] for name, array in step.items()}


def filled(steps, *, capacity=None, **options):
    buffer = ExperienceBuffer(capacity or len(steps), len(steps[0]["actions"]), **options)
    for step in steps:
        buffer.add_batch(**step)
    return buffer


def legal_lists(buffer):
    """[T][B] the legal actions of every step stored, as lists."""
    starts, counts = buffer.legal_starts[: buffer.filled], buffer.legal_counts[: buffer.filled]
    return [
        [
            buffer.legal_pool[start : start + int(count)].tolist()
            for start, count in zip(*row, strict=True)
        ]
        for row in zip(starts, counts, strict=True)
    ]


def assert_holds(buffer, steps):
    """That the buffer holds exactly these steps."""
    assert buffer.filled == len(steps)
    assert len(buffer) == len(steps) * buffer.games
    for name in ("positions", *ONE_VALUE_A_STEP):
        expected = np.array([step[name] for step in steps])
        assert np.array_equal(getattr(buffer, name)[: len(steps)], expected), name
    assert legal_lists(buffer) == [
        [row[:n].tolist() for row, n in zip(step["legal"], step["legal_counts"], strict=True)]
        for step in steps
    ]
