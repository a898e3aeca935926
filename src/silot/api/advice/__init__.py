"""What would help most: advice about holders, from what other wings tell of them."""
