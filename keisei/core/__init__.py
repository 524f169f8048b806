"""What learns: networks, PPO, buffers. Knows nothing of processes."""
