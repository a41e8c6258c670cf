"""The machinery that every service stands on: transactions, delivery, questions, health, telemetry."""
