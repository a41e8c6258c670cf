"""All SQL of the runner. Every write to a run that is in hand is conditional on its epoch: a zombie's write fails."""
