"""Schemas of tables: drafted from the records of one site, and tried on those of another."""
