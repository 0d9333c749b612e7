"""Adds up the amounts on stdin, one on each line."""

import sys
from decimal import Decimal

print(sum((Decimal(line) for line in sys.stdin if line.strip()), Decimal(0)))
