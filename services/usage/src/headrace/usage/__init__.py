"""Usage decides which runs are let in, and keeps the ledger of what model calls used."""
