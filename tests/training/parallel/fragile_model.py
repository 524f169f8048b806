"""A model whose lessons go wrong as a test wants, in whatever process it learns."""

import os
import signal
import time

from keisei.core.ppo_model import PPOModel, PPOModelConfig

SMALL = PPOModelConfig(hidden=(8,), minibatch=16)


class Fragile(PPOModel):
    """Cannot be stacked. A lesson may be a word: what becomes of the process, or of the model."""

    def __init__(self, observation_shape, actions, *, copies, seed, config=SMALL):
        super().__init__(observation_shape, actions, copies=copies, seed=seed, config=config)

    def stack_key(self):
        return None

    def twin(self):
        twin = Fragile(*self._kind[:2], copies=self._kind[2], seed=0, config=self.config)
        twin.load_state(*self.state())
        return twin

    def learn(self, lesson):
        if lesson == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if lesson == "hang":
            time.sleep(600)
        if lesson == "where":
            return {"process": float(os.getpid())}
        if lesson == "raise":
            self.network.layers[0].weight.data.zero_()
            raise ArithmeticError("this is too hard")
        return super().learn(lesson)
