"""The hot parts of the replay `Buffer`: which transitions are complete, frames, n-step returns.

Arrays are [T, B, ...], T turns in a ring. A turn is named by its age: 0 is the oldest one stored,
which lies in row `oldest`. `starts` is set where a turn does not follow the one before it: the
first turn of an episode, an inactive turn and the one behind it. So a turn that is not a start has
its predecessor in the row before, in the same episode.
"""

from __future__ import annotations

from keisei.compiled.kernels import kernel


@kernel(entry=True)
def pick_complete(active, dones, starts, oldest, filled, n_frames, n_step, candidates, chosen):
    """Copy the complete ones of `candidates` into `chosen` until it is full; how many they are.

    Both list places: age * B + copy.
    """
    copies = active.shape[1]
    found = 0
    for index in range(len(candidates)):
        if found == len(chosen):
            break
        age, copy = candidates[index] // copies, candidates[index] % copies
        if is_complete(active, dones, starts, oldest, filled, n_frames, n_step, age, copy):
            chosen[found] = candidates[index]
            found += 1
    return found


@kernel
def is_complete(active, dones, starts, oldest, filled, n_frames, n_step, age, copy):
    """Whether all frames of a turn's state are stored, and all that its n-step return needs."""
    turns = active.shape[0]
    if not active[(oldest + age) % turns, copy]:
        return False
    frame = age
    for _ in range(n_frames - 1):
        if starts[(oldest + frame) % turns, copy]:
            break
        if frame == 0:
            return False  # its earlier frames have been overwritten
        frame -= 1
    for later in range(age, age + n_step):
        if dones[(oldest + later) % turns, copy]:
            return True
        if later + 1 == filled or starts[(oldest + later + 1) % turns, copy]:
            return False  # the episode goes on, but not here
    return True


@kernel
def stack_frames(states, starts, oldest, age, copy, n_frames, stacked):
    """Fill `stacked` [F, S] with the turn's frames, the newest last, zeros before the episode."""
    turns, _, size = states.shape
    frame, begun = age, True
    for slot in range(n_frames - 1, -1, -1):
        row = (oldest + frame) % turns
        for index in range(size):
            stacked[slot, index] = states[row, copy, index] if begun else 0
        begun = begun and not starts[row, copy] and frame > 0
        frame -= 1


@kernel(entry=True)
def stack_current(states, starts, fresh, oldest, filled, observations, stacked):
    """Fill `stacked` [B, F, S]: the last F - 1 turns of the running episode, and `observations`.

    fresh: [B] whether an episode begins with the observation.
    """
    copies, n_frames, _ = stacked.shape
    for copy in range(copies):
        stacked[copy, n_frames - 1] = observations[copy]
        if fresh[copy]:
            stacked[copy, : n_frames - 1] = 0
        else:
            stack_frames(states, starts, oldest, filled - 1, copy, n_frames - 1, stacked[copy])


@kernel(entry=True)
def gather_transitions(
    states, actions, rewards, dones, starts, oldest, places, gamma,
    out_states, out_actions, out_returns, out_next_states, out_dones, out_discounts, n_step,
):  # fmt: skip
    """Fill the arrays of a batch [N, ...] with the complete transitions at `places` [N].

    out_states and out_next_states are [N, F, S]; an episode that is over has no next state: zeros.
    """
    turns, copies, _ = states.shape
    n_frames = out_states.shape[1]
    for index in range(len(places)):
        age, copy = places[index] // copies, places[index] % copies
        stack_frames(states, starts, oldest, age, copy, n_frames, out_states[index])
        out_actions[index] = actions[(oldest + age) % turns, copy]
        total, discount, done = 0.0, 1.0, False
        for later in range(age, age + n_step):
            row = (oldest + later) % turns
            total += discount * rewards[row, copy]
            discount *= gamma
            if dones[row, copy]:
                done = True
                break
        out_returns[index], out_discounts[index], out_dones[index] = total, discount, done
        if done:
            out_next_states[index] = 0
        else:
            following = age + n_step
            stack_frames(states, starts, oldest, following, copy, n_frames, out_next_states[index])
