"""The paper's experiments: protocols, what each table is made of, runs of what is missing, and the
paper's numbers beside ours."""
