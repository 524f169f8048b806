"""Compiled loops over the map [B, H, W, layers] of kinds."""

from __future__ import annotations

import numpy as np

from keisei.compiled.kernels import kernel

ROW_STEPS = np.array([-1, 0, 1, 0])
COLUMN_STEPS = np.array([0, 1, 0, -1])


@kernel(entry=True)
def list_kind(flat_map, kind, found):
    """Number the cells of a kind, ascending; flat_map: [n], found: [>= n]. Returns how many."""
    count = 0
    for cell in range(len(flat_map)):
        found[count] = cell
        count += flat_map[cell] == kind  # no branch: twice as fast where half the cells match
    return count


@kernel(entry=True)
def count_kind(kinds, kind, counts):
    """How many cells of each copy hold a kind; kinds: [B, H, W, layers], counts: [B]."""
    for copy in range(len(kinds)):
        count = 0
        for row in range(kinds.shape[1]):
            for column in range(kinds.shape[2]):
                for layer in range(kinds.shape[3]):
                    count += kinds[copy, row, column, layer] == kind
        counts[copy] = count


@kernel(entry=True)
def walk(kinds, layer, rows, columns, facing, present, headings, passable, values, rewards):
    """Move one agent in every copy, as far as the map lets it.

    kinds: [B, H, W, layers]; rows, columns, facing, present, rewards: [B]; headings: [B], a
    direction or -1 to stay; passable, values: of each kind.
    """
    for copy in range(len(rows)):
        rewards[copy] = walk_once(
            kinds, layer, copy, rows, columns, facing, present, headings[copy], passable, values
        )


@kernel(entry=True)
def walk_all(
    kinds,
    layers,
    rows,
    columns,
    facing,
    present,
    headings,
    actions,
    passable,
    values,
    rewards,
    totals,
):
    """Move all agents in every copy, one after the other: as `walk` for each.

    layers: [N]; headings: [N, A] of each agent's actions; rows to present, actions and rewards:
    [N, B]; totals: [B], to which each agent adds what it gets, in their order: that decides how
    sums are rounded.
    """
    for number in range(len(rows)):
        layer, its_facing, its_present = layers[number], facing[number], present[number]
        its_rows, its_columns = rows[number], columns[number]
        for copy in range(rows.shape[1]):
            reward = walk_once(
                kinds,
                layer,
                copy,
                its_rows,
                its_columns,
                its_facing,
                its_present,
                headings[number, actions[number, copy]],
                passable,
                values,
            )
            rewards[number, copy] = reward
            totals[copy] += reward


@kernel
def walk_once(kinds, layer, copy, rows, columns, facing, present, heading, passable, values):
    """Move an agent in one copy; what it gets.

    It turns where it wants to go and is rewarded with the value of what is there, even if that
    stops it.
    """
    _, height, width, _ = kinds.shape
    if heading < 0 or not present[copy]:
        return np.float32(0.0)
    facing[copy] = heading
    row, column = rows[copy] + ROW_STEPS[heading], columns[copy] + COLUMN_STEPS[heading]
    if row < 0 or row >= height or column < 0 or column >= width:
        return np.float32(0.0)
    target = kinds[copy, row, column, layer]
    if passable[target]:
        kinds[copy, row, column, layer] = kinds[copy, rows[copy], columns[copy], layer]
        kinds[copy, rows[copy], columns[copy], layer] = 0
        rows[copy], columns[copy] = row, column
    return values[target]


@kernel(entry=True)
def count_in_windows(kinds, rows, columns, radius, channels, outside, seen):
    """How many of each channel's kinds are in each cell of the windows around (rows, columns).

    kinds: [B, H, W, layers]; rows, columns: [B]; channels: [K] the channel of a kind, -1 for none;
    outside: the channel of what lies beyond the map, or -1; seen: [B, C * window * window], zeros.
    """
    _, height, width, layers = kinds.shape
    window = 2 * radius + 1
    for copy in range(len(rows)):
        for down in range(window):
            row = rows[copy] + down - radius
            for right in range(window):
                column = columns[copy] + right - radius
                place = down * window + right
                if row < 0 or row >= height or column < 0 or column >= width:
                    if outside >= 0:
                        seen[copy, outside * window * window + place] += 1
                    continue
                for layer in range(layers):
                    channel = channels[kinds[copy, row, column, layer]]
                    if channel >= 0:
                        seen[copy, channel * window * window + place] += 1


@kernel(entry=True)
def count_in_all_windows(kinds, rows, columns, radius, channels, outside, seen):
    """As `count_in_windows` for N agents at once; rows, columns: [N, B]; seen: [N, B, ...]."""
    for number in range(len(rows)):
        count_in_windows(
            kinds, rows[number], columns[number], radius, channels, outside, seen[number]
        )


@kernel(entry=True)
def colour_windows(kinds, rows, columns, radius, colours, outside, seen):
    """The colour of the topmost thing in each cell of the windows around (rows, columns).

    As `count_in_windows`; colours: [K, 3]; outside: [3]; seen: [B, 3 * window * window].
    """
    _, height, width, layers = kinds.shape
    window = 2 * radius + 1
    for copy in range(len(rows)):
        for down in range(window):
            row = rows[copy] + down - radius
            for right in range(window):
                column = columns[copy] + right - radius
                colour = outside
                if 0 <= row < height and 0 <= column < width:
                    kind = kinds[copy, row, column, 0]
                    for layer in range(1, layers):
                        if kinds[copy, row, column, layer] != 0:
                            kind = kinds[copy, row, column, layer]
                    colour = colours[kind]
                for part in range(3):
                    seen[copy, (part * window + down) * window + right] = colour[part]
