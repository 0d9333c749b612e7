"""The room that knows the loop: running plain functions beside it, and running a program on it."""
