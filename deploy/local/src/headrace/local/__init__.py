"""Headrace on one machine: embedded servers, a supervisor and the `headrace` command."""
