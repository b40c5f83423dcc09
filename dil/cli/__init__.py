"""The dil command."""

# Set by a shell's completion script, which asks for the words that fit at the cursor.
COMPLETION_VARIABLE = "_DIL_COMPLETE"
