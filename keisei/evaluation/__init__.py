"""Matches between players, and what they say about strength."""
