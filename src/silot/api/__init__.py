"""The short way: data in, results out, through a federation."""
