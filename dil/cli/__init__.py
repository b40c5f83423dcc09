"""The dil command."""

# Set by the scripts of shells that ask what may be at the cursor.
COMPLETION_VARIABLE = "_DIL_COMPLETE"
