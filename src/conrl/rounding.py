"""What one operation on doubles may lose."""

HALF_ULP = 2.0**-53  # in proportion to its result
TINY = 2.0**-1022  # by underflow: the least number with all its digits
