"""Secret values and the references that resolve to them."""
