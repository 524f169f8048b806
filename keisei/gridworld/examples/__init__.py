"""Games, one readable file each."""
