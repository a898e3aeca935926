"""Data as silot takes them: measures, tables, documents and files."""
