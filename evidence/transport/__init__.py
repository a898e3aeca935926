"""Whether bounds hold, and how near values come: our own tables."""
