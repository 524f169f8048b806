"""Worlds of many agents: grids of kinds, and agents that each have a model of their own."""
