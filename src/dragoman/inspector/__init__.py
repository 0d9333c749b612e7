"""The inspector: the page that `dragoman inspect` serves, and its backend."""
