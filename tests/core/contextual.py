"""A problem small enough to be learnt in a second: which of a few lights is on?"""

import numpy as np

LIGHTS = 4


class Lights:
    """B copies; the action that names the light is worth 10, others nothing; 5 turns an episode."""

    def __init__(self, copies, seed=0):
        self.copies, self._random = copies, np.random.default_rng(seed)

    def epoch(self, model, number, *, turns=5):
        """Play one episode in all copies; the share of right answers."""
        model.start_epoch_action(number)
        right = 0.0
        for turn in range(turns):
            light = self._random.integers(0, LIGHTS, self.copies)
            states = np.eye(LIGHTS, dtype=np.float32)[light]
            actions = model.take_action(states)
            rewards = 10 * (actions == light).astype(np.float32)
            dones = np.full(self.copies, turn == turns - 1)
            model.memory.add(states, actions, rewards, dones, np.ones(self.copies, bool))
            right += float(rewards.mean()) / 10 / turns
        model.end_epoch_action(number)
        return right


def learnt(model, *, epochs, train_steps=1):
    """The share of right answers in the last of so many epochs of 16 copies."""
    world = Lights(16)
    for number in range(epochs):
        right = world.epoch(model, number)
        for _ in range(train_steps):
            model.train_step()
    return right


def storages(model):
    """Where the memory of each tensor and array of the model begins."""
    slots = [slot for state in model.optimizer.state.values() for slot in state.values()]
    modules = [model.network, *([model.target] if hasattr(model, "target") else [])]
    tensors = [*slots, *(tensor for m in modules for tensor in m.state_dict().values())]
    arrays = [value for value in vars(model.memory).values() if isinstance(value, np.ndarray)]
    pointers = {tensor.untyped_storage().data_ptr() for tensor in tensors}
    return pointers | {array.ctypes.data for array in arrays if array.size}
