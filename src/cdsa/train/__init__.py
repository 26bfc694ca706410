"""Training: the only loop there is, what it minimises, and what it leaves on disk."""
