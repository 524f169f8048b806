"""Game records: KIF, CSA, USI and SFEN files, read and written."""
