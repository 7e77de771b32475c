"""What a panel shows of a repository."""
