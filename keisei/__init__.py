"""Keisei trains game-playing agents in parallel."""

__version__ = "0.1.0"
