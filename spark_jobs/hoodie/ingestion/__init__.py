"""New files of a folder or prefix become one commit each run; how far a run came is in its commit."""
