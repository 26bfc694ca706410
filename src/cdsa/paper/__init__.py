"""The paper's experiments: protocols, tables, a runner, and a comparison with published numbers."""
